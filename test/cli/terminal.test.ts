import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { folderWith, MAIN } from './command-line.ts';

const hasTerminal = spawnSync('script', ['--version']).status === 0;

/** Run in a terminal of 80 by 24 that util-linux's `script` makes. */
function inTerminal(
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): string {
  const quoted = [process.execPath, MAIN, ...args].map((arg) => `'${arg}'`).join(' ');
  const { PATH = '' } = process.env;
  const { stdout } = spawnSync('script', ['-qec', `stty cols 80 rows 24; ${quoted}`, '/dev/null'], {
    cwd,
    env: { PATH, TERM: 'xterm-256color', ...env },
    encoding: 'utf8',
  });
  return stdout;
}

const RUN = ['run', 'Summarise.', '--files', '*.md'];
const ESCAPE = '\u001B';

it.skipIf(!hasTerminal)('draws a live tree in a terminal, then prints the answer', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n', 'b.md': '# b\n' });
  const output = inTerminal(RUN, folder.path);
  expect(output.split('\r\n')[0]).toMatch(/using the embedded scripted model/u);
  expect(output).toMatch(/● root .*running/u);
  expect(output).toMatch(/[├└]─ ✓ a\.md .*completed/u);
  const answer = output.slice(output.lastIndexOf('Summaries by'));
  // Nothing is drawn over it, or after it.
  expect(answer).not.toMatch(/root|2K/u);
  expect(answer).toMatch(/total of 2 files/u);
  // The cursor is given back.
  expect(output.lastIndexOf(`${ESCAPE}[?25h`)).toBeGreaterThan(
    output.lastIndexOf(`${ESCAPE}[?25l`),
  );
});

it.skipIf(!hasTerminal)('paints nothing when NO_COLOR is set', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n' });
  const colours = [1, 31, 32, 36, 90].map((code) => `${ESCAPE}[${code}m`);
  const painted = (output: string): boolean => colours.some((colour) => output.includes(colour));
  expect(painted(inTerminal(RUN, folder.path))).toBe(true);
  expect(painted(inTerminal(RUN, folder.path, { NO_COLOR: '1' }))).toBe(false);
});
