/** What goes wrong around a command: its store, its files, its output, the other process. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { openSync, writeSync, closeSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openSqliteStore } from '../../src/index.ts';
import { until } from '../support/until.ts';
import { folderWith, MAIN, start, subagents } from './command-line.ts';

it('says in one line that a store is damaged, whatever is asked of it', async () => {
  await using folder = await folderWith();
  const { path: cwd } = folder;
  await subagents(['run', 'Hello', '--store', 'runs.db'], { cwd });
  const store = openSqliteStore({ path: join(cwd, 'runs.db') });
  const [{ id } = { id: '' }] = await store.list();
  await store.close();
  const file = openSync(join(cwd, 'runs.db'), 'r+');
  writeSync(file, Buffer.alloc(24_000, 0xa5), 0, 24_000, 8192);
  closeSync(file);
  for (const args of [['show'], ['send', 'Again?'], ['interrupt'], ['drain']]) {
    const [verb = '', ...text] = args;
    const { code, stdout, stderr } = await subagents([verb, 'runs.db', id, ...text], { cwd });
    expect([verb, code, stdout]).toEqual([verb, 1, '']);
    expect(stderr).toMatch(/^subagents: [^\n]*runs\.db: the file is damaged\.\n$/u);
  }
  const run = await subagents(['run', 'Hello', '--store', 'runs.db'], { cwd });
  expect(run.code).toBe(1);
  expect(run.stderr).toMatch(/\nsubagents: the task failed: STORE_CORRUPT: [^\n]*\n$/u);
});

it('waits for no pipe that it is named, and for stdin no longer than it may', async () => {
  await using folder = await folderWith();
  const { path: cwd } = folder;
  spawnSync('mkfifo', [join(cwd, 'pipe')]);
  const run = await subagents(['run', '--task-file', 'pipe'], { cwd });
  expect(run).toMatchObject({ code: 2, stdout: '' });
  expect(run.stderr).toBe('subagents: Cannot read the task file "pipe": it is no regular file.\n');
  const reading = start([MAIN, 'import', 'runs.db', '-', '--json'], { cwd, input: 'open' });
  reading.process.stdin?.write('no line of an export, and no end of the line');
  // Its handlers are there before it reads: what it has read it has said nothing of.
  await new Promise((taken) => reading.process.stdin?.write(' yet', taken));
  await until(() => spawnSync('ls', [cwd]).stdout.toString().includes('runs.db'));
  reading.process.kill('SIGTERM');
  expect(await reading.finished).toMatchObject({ code: 143, stdout: '', stderr: 'Stopped.\n' });
  expect(spawnSync('ls', [cwd]).stdout.toString()).toBe('pipe\n');
});

it('says in one line that its output cannot be written, and exits with 1', async () => {
  const full = openSync('/dev/full', 'w');
  const run = spawn(process.execPath, [MAIN, 'run', 'Hello', '--json'], {
    stdio: ['ignore', full, 'pipe'],
  });
  closeSync(full);
  let stderr = '';
  run.stderr?.on('data', (data: Buffer) => (stderr += data.toString()));
  expect(await once(run, 'close')).toEqual([1, null]);
  expect(stderr).toBe(
    'subagents: Cannot write the output: there is no space left on the device.\n',
  );
});

it('lists what is stored while the process that runs it is stopped, and names that', async () => {
  await using folder = await folderWith();
  const { path: cwd } = folder;
  const serving = start([MAIN, 'serve', '--stdio', '--store', 'runs.db'], { cwd, input: 'open' });
  const params = { sessionId: 'main', contentBlocks: [{ type: 'text', text: 'Hello' }] };
  const asked = { jsonrpc: '2.0', id: 1, method: 'session/prompt', params };
  serving.process.stdin?.write(`${JSON.stringify(asked)}\n`);
  await serving.wrote(/"status":"idle"/u);
  // Its store writes in the thread that answers: whoever has an answer finds no write begun.
  serving.process.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'metrics' })}\n`);
  await serving.wrote(/"id":2[,}]/u);
  const { pid = 0 } = serving.process;
  process.kill(pid, 'SIGSTOP');
  try {
    const { code, stdout, stderr } = await subagents(['ls', 'runs.db'], { cwd });
    expect(code).toBe(0);
    // Whether the end of its turn was kept before it was stopped is not known.
    expect(stdout).toMatch(/^main +. root +\w+ /u);
    expect(stderr).toBe(
      `Process ${pid} has this store open and does not answer: is it stopped? ` +
        'What it does now is not known.\n',
    );
  } finally {
    process.kill(pid, 'SIGCONT');
    serving.process.stdin?.end();
    await serving.finished;
  }
});
