/** Print `N passed, N failed` from the JSON report of a vitest run. */
import { readFileSync } from 'node:fs';

const [, , path = '.artifacts/test-report.json'] = process.argv;
const report = JSON.parse(readFileSync(path, 'utf8'));
// A file that could not be loaded has no tests to count; it is one failure all the same.
const broken = report.testResults.filter(
  ({ status, assertionResults }) =>
    status === 'failed' && assertionResults.every((test) => test.status !== 'failed'),
);
console.log(`${report.numPassedTests} passed, ${report.numFailedTests + broken.length} failed`);
