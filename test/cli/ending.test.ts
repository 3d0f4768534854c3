import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { folderWith, MAIN, start } from './command-line.ts';

const SPIN = `export default () => [{
  name: 'spin',
  description: 'Never returns.',
  parameters: { type: 'object', properties: {} },
  execute() { for (;;); },
}];`;
const RUN = [MAIN, 'run', 'Go on:\n- call `spin`', '--tools', 'spin.mjs'];

it('ends on Ctrl-C although a child never gives its thread back', async () => {
  await using folder = await folderWith({ 'spin.mjs': SPIN });
  const run = start(RUN, { cwd: folder.path });
  await run.printed(/spin: started/u);
  run.process.kill('SIGINT');
  expect(await run.finished).toMatchObject({ code: 130, signal: null });
});

it('ends at once on a second Ctrl-C', async () => {
  await using folder = await folderWith({ 'spin.mjs': SPIN });
  const run = start(RUN, { cwd: folder.path });
  await run.printed(/spin: started/u);
  run.process.kill('SIGINT');
  run.process.kill('SIGINT');
  const { code, signal } = await run.finished;
  // Two signals that arrive as one are one Ctrl-C.
  expect([code, signal]).toSatisfy((end: unknown[]) => end[0] === 130 || end[1] === 'SIGINT');
});

it('leaves no process behind when it is killed', async () => {
  await using folder = await folderWith({ 'spin.mjs': SPIN });
  const run = start([...RUN, '--store', 'runs.db'], { cwd: folder.path });
  await run.printed(/spin: started/u);
  expect(childrenOf(run.process.pid ?? 0)).toEqual([]);
  run.process.kill('SIGKILL');
  expect(await run.finished).toMatchObject({ signal: 'SIGKILL' });
  expect(() => process.kill(run.process.pid ?? 0, 0)).toThrow('ESRCH');
});

it('ends a child that spins when its turn is over, and exits with 3', async () => {
  await using folder = await folderWith({ 'spin.mjs': SPIN });
  const run = start([...RUN, '--turn-ms', '500'], { cwd: folder.path });
  const { code, stderr, stdout } = await run.finished;
  expect(code).toBe(3);
  expect(stderr).toMatch(/\] spin: failed \(.*\): LIMIT_EXCEEDED: /u);
  expect(stdout).toMatch(/- spin: LIMIT_EXCEEDED: /u);
  expect(stderr).not.toMatch(/Failed:/u);
});

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('ends its lines of JSON with the outcome after %s', async (signal, exitCode) => {
  await using folder = await folderWith({ 'spin.mjs': SPIN });
  const run = start([...RUN, '--json'], { cwd: folder.path });
  await run.wrote(/"type":"tool\/call".*"name":"spin"/u);
  run.process.kill(signal);
  const { code, stdout } = await run.finished;
  expect(code).toBe(exitCode);
  expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
    type: 'run/end',
    exitCode,
    failure: { code: 'ABORTED' },
    failedDelegations: [{ label: 'spin', code: 'ABORTED' }],
  });
});

/** Processes whose parent is `pid`: threads are none, so a run has no child to leave behind. */
function childrenOf(pid: number): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .filter((name) => {
      try {
        const status = readFileSync(`/proc/${name}/status`, 'utf8');
        return status.includes(`\nPPid:\t${pid}\n`);
      } catch {
        // It ended between the two looks.
        return false;
      }
    });
}
