import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/until.ts';
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

describe('a child whose thread cannot be ended', () => {
  const READ = `import { readFileSync, writeFileSync } from 'node:fs';
export default () => [{
  name: 'wait',
  description: 'Never returns, and nobody can make it.',
  parameters: { type: 'object', properties: {} },
  execute() {
    writeFileSync(new URL('reads', import.meta.url), '');
    return readFileSync(new URL('pipe', import.meta.url), 'utf8');
  },
}];`;
  const folder = async () => {
    const made = await folderWith({ 'wait.mjs': READ });
    execFileSync('mkfifo', [join(made.path, 'pipe')]);
    return made;
  };
  const LAST =
    /^subagents: A thread cannot be ended, so the process is \(SIGKILL\)\. It was to exit with (\d+)\.\n$/mu;

  it('does not keep `run` from its end, once all is written', async () => {
    await using made = await folder();
    const args = [
      'run',
      'Go on:\n- call `wait`',
      '--tools',
      'wait.mjs',
      '--turn-ms',
      '500',
      '--json',
    ];
    const { code, signal, stdout, stderr } = await start([MAIN, ...args], { cwd: made.path })
      .finished;
    expect([code, signal]).toEqual([null, 'SIGKILL']);
    expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
      type: 'run/end',
      exitCode: 3,
      failedDelegations: [{ label: 'wait', code: 'LIMIT_EXCEEDED' }],
    });
    expect(LAST.exec(stderr)?.[1]).toBe('3');
  });

  it('does not keep `serve` from its end, when that is stopped', async () => {
    await using made = await folder();
    const args = ['serve', '--stdio', '--tools', 'wait.mjs'];
    const serve = start([MAIN, ...args], { cwd: made.path, input: 'open' });
    const params = {
      sessionId: 'mine',
      contentBlocks: [{ type: 'text', text: 'Go on:\n- call `wait`' }],
    };
    const request = { jsonrpc: '2.0', id: 1, method: 'session/prompt', params };
    serve.process.stdin?.write(`${JSON.stringify(request)}\n`);
    await until(() => existsSync(join(made.path, 'reads')));
    serve.process.kill('SIGTERM');
    const { signal, stderr } = await serve.finished;
    expect(signal).toBe('SIGKILL');
    expect(LAST.exec(stderr)?.[1]).toBe('143');
  });
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
