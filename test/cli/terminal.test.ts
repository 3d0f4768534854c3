import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { folderWith, MAIN, start } from './command-line.ts';

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
  expect(output).toMatch(/[●◌] root .*(?:running|on (?:model|tool|child))/u);
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

it.skipIf(!hasTerminal)(
  'draws in a terminal what another process runs, as it is told',
  async () => {
    await using folder = await folderWith();
    const serve = [MAIN, 'serve', '--stdio', '--store', 'runs.db'];
    const served = start(serve, { cwd: folder.path, input: 'open' });
    const prompt = (id: number): void => {
      const contentBlocks = [{ type: 'text', text: 'Hello' }];
      const params = { sessionId: `main-${id}`, contentBlocks };
      const asked = { jsonrpc: '2.0', id, method: 'session/prompt', params };
      served.process.stdin?.write(`${JSON.stringify(asked)}\n`);
    };
    prompt(1);
    await served.wrote(/"status":"idle"/u);

    const line = `stty cols 80 rows 24; '${process.execPath}' '${MAIN}' ls runs.db --watch`;
    const env = { PATH: process.env['PATH'] ?? '', TERM: 'xterm-256color' };
    const watching = spawn('script', ['-qec', line, '/dev/null'], { cwd: folder.path, env });
    const closed = once(watching, 'close');
    watching.stdin.end();
    let output = '';
    let changed = (): void => {};
    watching.stdout.on('data', (data: Buffer) => {
      output += data.toString();
      changed();
    });
    const drawn = async (pattern: RegExp): Promise<void> => {
      while (!pattern.test(output)) await new Promise<void>((resolve) => (changed = resolve));
    };
    await drawn(/main-1 +– root .*idle[^]*1 session: 1 idle/u);
    // One that is made after that is told of, and drawn.
    prompt(2);
    await drawn(/main-2 [^]*2 sessions: 2 idle/u);
    served.process.stdin?.end();
    await served.finished;
    const [code] = (await closed) as [number];
    expect(code).toBe(0);
    expect(output.lastIndexOf(`${ESCAPE}[?25h`)).toBeGreaterThan(
      output.lastIndexOf(`${ESCAPE}[?25l`),
    );

    // Nobody runs it any more: it is read as it is stored, once.
    const stored = inTerminal(['ls', 'runs.db'], folder.path);
    expect(stored).toMatch(/main-2 +✓ root .*completed/u);
    expect(stored).toContain(`${ESCAPE}[32m`);
    expect(inTerminal(['ls', 'runs.db'], folder.path, { NO_COLOR: '1' })).not.toContain(ESCAPE);
  },
);
