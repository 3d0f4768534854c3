import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';
import { folderWith, MAIN, start, subagents, type Running } from './command-line.ts';

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly data?: { readonly code: string } };
}

/** Ask by lines of JSON on stdin; the answers are read from stdout, which has nothing else. */
function rpc(run: Running) {
  let id = 0;
  const told: Answer[] = [];
  const waiting = new Map<number, (answer: Answer) => void>();
  const lines = createInterface({ input: run.process.stdout as NodeJS.ReadableStream });
  lines.on('line', (line) => {
    const answer = JSON.parse(line) as Answer;
    if (answer.id === undefined) told.push(answer);
    else waiting.get(answer.id)?.(answer);
  });
  const ask = (method: string, params: object): Promise<Answer> => {
    id += 1;
    const asked = new Promise<Answer>((resolve) => waiting.set(id, resolve));
    run.process.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return asked;
  };
  return { ask, told };
}

it('runs agents for whoever speaks to it on stdin, until it is asked to end', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n' });
  const args = [MAIN, 'serve', '--stdio', '--store', 'runs.db', '--files', '*.md'];
  const run = start(args, { cwd: folder.path, input: 'open' });
  const { ask, told } = rpc(run);
  expect((await ask('initialize', { protocolVersion: 1 })).result).toMatchObject({
    serverInfo: { name: 'subagent-runtime' },
    protocolVersion: 1,
  });
  const contentBlocks = [{ type: 'text', text: 'Summarise.' }];
  const receipt = await ask('session/prompt', { sessionId: 'main', contentBlocks });
  expect(receipt.result).toEqual({ messageId: expect.any(String) });
  // Another terminal reaches it by its store.
  const follow = ['show', 'runs.db', 'main', '--follow'];
  const following = start([MAIN, ...follow], { cwd: folder.path });
  await following.wrote(/total of 1 file/u);
  expect((await ask('session/prompt', { sessionId: 3 })).error).toMatchObject({ code: -32602 });
  expect((await ask('shutdown', {})).result).toEqual({});
  expect(await run.finished).toMatchObject({ code: 0, signal: null, stderr: '' });
  expect((await following.finished).code).toBe(0);
  const methods = new Set(told.map(({ method }) => method));
  expect(methods).toContain('subagent.started');
  expect(methods).toContain('session.event');
});

it('ends with 0 when whoever speaks to it is gone, and with 130 on Ctrl-C', async () => {
  const left = start([MAIN, 'serve', '--stdio'], { input: '' });
  expect(await left.finished).toMatchObject({ code: 0, stdout: '', stderr: '' });
  const stopped = start([MAIN, 'serve', '--stdio'], { input: 'open' });
  const { ask } = rpc(stopped);
  await ask('initialize', {});
  stopped.process.kill('SIGINT');
  expect(await stopped.finished).toMatchObject({ code: 130 });
});

it('serves the same by HTTP, to whoever has the token', async () => {
  const run = start([MAIN, 'serve', '--http']);
  await run.wrote(/^Listening at \S+\nToken: \S+\n/u);
  const { url, token } = shownBy(run);
  expect((await fetch(`${url}/sessions`)).status).toBe(401);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const ask = async (method: string, params: object): Promise<Answer> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    return (await fetch(`${url}/rpc`, { method: 'POST', headers, body })).json() as Promise<Answer>;
  };
  const contentBlocks = [{ type: 'text', text: 'Hello' }];
  const receipt = await ask('session/prompt', { sessionId: 'main', contentBlocks });
  expect(receipt.result).toEqual({ messageId: expect.any(String) });
  expect(await (await fetch(`${url}/sessions`, { headers })).text()).toContain('"main"');
  expect(await (await fetch(`${url}/metrics`, { headers })).text()).toMatch(/^# /mu);
  await ask('shutdown', {});
  expect(await run.finished).toMatchObject({ code: 0, stderr: '' });
});

it('takes the token from the environment, and prints it nowhere', async () => {
  const args = [MAIN, 'serve', '--http', '--token-env', 'THE_TOKEN'];
  const run = start(args, { env: { THE_TOKEN: 'secret-1' } });
  await run.wrote(/^Listening at \S+\n/u);
  const { url } = shownBy(run);
  const headers = { authorization: 'Bearer secret-1' };
  expect((await fetch(`${url}/sessions`, { headers })).status).toBe(200);
  run.process.kill('SIGTERM');
  const { code, stdout, stderr } = await run.finished;
  expect(code).toBe(143);
  expect(stdout + stderr).not.toContain('secret-1');
});

it.each([
  ['no door', [], /either --stdio or --http/u],
  ['two doors', ['--stdio', '--http'], /either --stdio or --http/u],
  ['a port for stdio', ['--stdio', '--port', '80'], /--port is for --http/u],
  ['a port that is none', ['--http', '--port', '99999'], /--port.*It has to be a port/u],
  ['a token that is not set', ['--http', '--token-env', 'NO'], /variable NO is not set/u],
  ['an address of another machine', ['--http', '--host', '192.0.2.1'], /Cannot listen at 192/u],
])('refuses %s in one line, with exit code 2', async (_, more, line) => {
  const { code, stdout, stderr } = await subagents(['serve', ...more]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(line);
  expect(stderr).toMatch(/^subagents: [^\n]*\n$/u);
});

/** What it printed on stdout so far: where it listens. */
function shownBy(run: Running): { readonly url: string; readonly token: string } {
  const [, url = '', token = ''] =
    /^Listening at (\S+)\n(?:Token: (\S+)\n)?/u.exec(run.output()) ?? [];
  return { url, token };
}
