/** Every example runs as it is, in a process of its own, and proves its own outcome. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { root } from './support/imports.ts';

const run = promisify(execFile);

/** What each prints. */
const examples: Readonly<Record<string, readonly string[]>> = {
  continuable: ['The sum is 3.', 'The sum is 7.', 'The sum is 12.'],
  'custom-provider': ['process completed', 'process error', 'process aborted', 'all as expected'],
  follow: ['Once', 'upon', 'a time.', 'kept all, removed 1'],
  fork: ['fork: You like green.', 'spawn: You never told me.'],
  interrupt: ['aborted by user', 'aborted by parent', 'completed', 'completed', 'completed'],
  listing: [
    '1 errand: inactive',
    '1 manager: ready',
    '1 writer: running',
    '2 a part of it: inactive',
    '1 errand: inactive',
    '1 manager: ready',
    '1 writer: ready',
    '2 a part of it: inactive',
  ],
  'one-shot': ['completed Paris.', 'aborted Once upon a time'],
  report: [
    'subagent-report I have begun.',
    'subagent-report The disk is nearly full.',
    'subagent-settled All is counted.',
  ],
  structured: [
    "completed { name: 'Paris', inhabitants: 2100000 }",
    'error NO_STRUCTURED_OUTPUT: The child finished without handing in a valid structured result.',
  ],
};

describe('the examples', () => {
  it('are these', () => {
    const names = readdirSync(join(root, 'src/examples')).map((file) => file.replace(/\.ts$/, ''));
    expect(names.sort()).toEqual(Object.keys(examples).sort());
  });

  it.each(Object.entries(examples))('%s ends well, silently and in time', async (name, lines) => {
    // Rejects when it exits with anything but 0.
    const { stdout, stderr } = await run(
      process.execPath,
      [join(root, `dist/src/examples/${name}.js`)],
      { timeout: 30_000 },
    );
    expect(stdout.split('\n').slice(0, -1)).toEqual(lines);
    expect(stderr).toBe('');
  });

  it.each(Object.keys(examples))('%s says how to run it, and asserts its outcome', (name) => {
    const text = readFileSync(join(root, `src/examples/${name}.ts`), 'utf8');
    expect(text).toContain(`node dist/src/examples/${name}.js`);
    expect(text.match(/\bassert\.\w+\(/g)?.length).toBeGreaterThanOrEqual(3);
  });
});
