/**
 * The main job on this repository's own files: one child agent per Markdown and TypeScript file
 * outside of the tests, and three children that misbehave on purpose. Succeeds when these three
 * fail, and they alone.
 */
import { spawnSync } from 'node:child_process';
import { globSync } from 'tinyglobby';
import { statSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const EXPECTED = {
  throw_late: 'WORKER_CRASHED',
  exhaust_heap: 'WORKER_OUT_OF_MEMORY',
  spin_forever: 'LIMIT_EXCEEDED',
};

if (isStale()) {
  console.error('Building first …');
  const built = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
  if (built.status !== 0) process.exit(built.status ?? 1);
}
const { planRun, runShown, runUnderSignals } = await import('../dist/src/cli/index.js');

const prompt = [
  'Summarise the Markdown and TypeScript files of this repository.',
  'Then let one child each do what no child should:',
  ...Object.keys(EXPECTED).map((name) => `- call \`${name}\``),
].join('\n');

await runUnderSignals(async (signal) => {
  const args = {
    prompt,
    files: ['**/*.{md,ts}', '.github/**/*.md', '!test/**', '!dist/**', '!.artifacts/**'],
    tools: ['scripts/demo-tools.mjs'],
    turnMs: 4000,
    memoryMb: 32,
  };
  const surroundings = { cwd: root, env: process.env };
  const plan = await planRun(args, surroundings, signal);
  const outcome = await runShown(plan, args, process, surroundings, signal);
  return report(outcome);
});

/** True when a source is newer than the build's last file. */
function isStale() {
  const last = statSync(`${root}/dist/agent-worker.cjs`, { throwIfNoEntry: false });
  const sources = ['{protocol,src,workers}/**/*.{ts,json}', '*.json', 'scripts/bundle-worker.mjs'];
  return globSync(sources, { cwd: root, absolute: true }).some(
    (path) => last === undefined || statSync(path).mtimeMs > last.mtimeMs,
  );
}

function report({ failure, failedDelegations }) {
  const found = Object.fromEntries(failedDelegations.map(({ label, code }) => [label, code]));
  const isAsExpected =
    failure === undefined &&
    failedDelegations.length === Object.keys(EXPECTED).length &&
    Object.entries(EXPECTED).every(([name, code]) => found[name] === code);
  console.error(
    isAsExpected
      ? '\nThe three children that misbehave on purpose failed, each by itself; all others finished.'
      : '\nThis is not how the demo should end: three children, and they alone, were to fail.',
  );
  return isAsExpected ? 0 : 1;
}
