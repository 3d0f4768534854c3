import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { says, calls, chunk, startOpenAiServer } from '../support/openai-server.ts';
import type { ChatRequest, OpenAiServer, ServerAnswer } from '../support/openai-server.ts';
import { folderWith, MAIN, start, subagents, type Folder, type Running } from './command-line.ts';

interface Row {
  readonly id: string;
  readonly parentId?: string;
  readonly label?: string;
  readonly mode: string;
  readonly live: boolean;
  readonly status: string;
  readonly waitingOn?: string;
  readonly reason?: string;
}

const textOf = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : (content as { text: string }[]).map(({ text }) => text).join('');
const TOLD = ['Begin.', 'Look around.', 'Again?'] as const;

/** A root that has somebody look around, who says nothing until told more. */
function model({ body }: { body: ChatRequest }): ServerAnswer {
  // What the runtime says is of the same role.
  const texts = body.messages.flatMap(({ role, content }) =>
    role === 'user' ? [textOf(content).trim()] : [],
  );
  const told = texts.flatMap((text) => TOLD.filter((each) => text === each)).at(-1);
  if (texts.at(-1)?.includes('scout') === true) return { chunks: says('I see.') };
  if (told === 'Again?') return { chunks: says('Here again.') };
  if (told === 'Look around.') {
    return { chunks: [chunk({ role: 'assistant', content: 'I look …' })], ending: 'hang' };
  }
  if (body.messages.at(-1)?.role === 'tool') return { chunks: says('It has begun.') };
  const args = { description: 'scout', prompt: 'Look around.' };
  return { chunks: calls({ id: '1', name: 'subagent', arguments: args }) };
}

/** `subagents run` with a child in the background that waits for its model. */
async function runWithChild(server: OpenAiServer, folder: Folder): Promise<Running> {
  const args = ['run', 'Begin.', '--store', 'runs.db', ...modelOf(server)];
  const run = start([MAIN, ...args], { cwd: folder.path });
  await run.printed(/scout: started/u);
  // The root's own turn is over by then.
  await run.printed(/\] root: completed/u);
  return run;
}

const modelOf = (server: OpenAiServer): readonly string[] => [
  '--base-url',
  server.url,
  '--model',
  'm',
];

async function rowsOf(folder: Folder): Promise<readonly Row[]> {
  const { stdout } = await subagents(['ls', 'runs.db', '--json'], { cwd: folder.path });
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
}

it('shows a run to other terminals, and lets them interrupt it, while it runs', async () => {
  await using server = await startOpenAiServer({ respond: model });
  await using folder = await folderWith();
  const run = await runWithChild(server, folder);
  const sockets = readdirSync(folder.path).filter((name) => name.endsWith('.sock'));
  expect(sockets).toEqual([`runs.db-${run.process.pid}.sock`]);
  expect(statSync(join(folder.path, sockets[0] ?? '')).mode & 0o777).toBe(0o600);

  const [root, child] = await rowsOf(folder);
  expect(root).toMatchObject({ mode: 'root', live: true });
  expect(child).toMatchObject({
    mode: 'continuable',
    label: 'scout',
    live: true,
    status: 'running',
    parentId: root?.id,
  });
  const tree = await subagents(['ls', 'runs.db'], { cwd: folder.path });
  expect(tree.stdout).toMatch(/└─ ● scout +running .* I look …\n2 sessions: /u);

  const id = child?.id.slice(-8) ?? '';
  const following = start([MAIN, 'show', 'runs.db', id, '--follow'], { cwd: folder.path });
  const watching = start([MAIN, 'ls', 'runs.db', '--watch', '--json'], { cwd: folder.path });
  await following.wrote(/Look around\./u);
  await watching.wrote(/"type":"snapshot"/u);
  const told = await subagents(['interrupt', 'runs.db', id], { cwd: folder.path });
  expect(told).toMatchObject({ code: 0, stdout: 'It was told to stop.\n' });

  expect(await run.finished).toMatchObject({ code: 3 });
  // Whoever followed is told of the end, and that whoever ran it is gone.
  const { code, stdout } = await following.finished;
  expect(code).toBe(0);
  expect(stdout).toMatch(/turn 1 stopped \(user\)/u);
  const watched = await watching.finished;
  expect(watched.code).toBe(0);
  expect(watched.stdout).toMatch(/"type":"subagent\/end".*"stopReason":"aborted"/u);
  expect(readdirSync(folder.path).filter((name) => name.endsWith('.sock'))).toEqual([]);
});

it('tells a run more, and ends what goes on below it', async () => {
  await using server = await startOpenAiServer({ respond: model });
  await using folder = await folderWith();
  const run = await runWithChild(server, folder);
  const [root, child] = await rowsOf(folder);
  const send = async (id: string | undefined, ...more: readonly string[]) =>
    subagents(['send', 'runs.db', id ?? '', 'Again?', ...more], { cwd: folder.path });
  expect(await send(root?.id)).toMatchObject({
    code: 0,
    stdout: `Sent: process ${run.process.pid} runs it.\n`,
  });
  await run.printed(/root: completed[^]*root: completed/u);
  const told = await send(child?.id, '--json');
  expect(told.code).toBe(0);
  expect(JSON.parse(told.stdout)).toEqual({
    messageId: expect.any(String),
    process: run.process.pid,
  });
  const drained = await subagents(['drain', 'runs.db', root?.id ?? ''], { cwd: folder.path });
  expect(drained).toMatchObject({ code: 0, stdout: 'Ended 1 session below it.\n' });
  // Whoever ends what is below an agent does not wake it for that.
  expect(await run.finished).toMatchObject({ code: 3, stdout: 'Here again.\n' });
});

it('brings back what nobody runs, with all above it, and prints its answer', async () => {
  await using server = await startOpenAiServer({ respond: model });
  await using folder = await folderWith();
  const run = await runWithChild(server, folder);
  const [root, child] = await rowsOf(folder);
  await subagents(['interrupt', 'runs.db', child?.id ?? ''], { cwd: folder.path });
  await run.finished;
  const send = (id: string | undefined, ...more: readonly string[]) =>
    subagents(['send', 'runs.db', id ?? '', 'Again?', ...more], { cwd: folder.path });
  const toChild = await send(child?.id, ...modelOf(server));
  expect(toChild).toMatchObject({ code: 0, stdout: 'Here again.\n' });
  const toRoot = await send(root?.id, ...modelOf(server));
  expect(toRoot).toMatchObject({ code: 0, stdout: 'Here again.\n' });
  // Without the model that it had it cannot be.
  const without = await send(child?.id);
  expect(without).toMatchObject({ code: 2, stdout: '' });
  expect(without.stderr).toMatch(
    /^subagents: Session .* had the model "m" of a server: .* --base-url and --model\.\n$/u,
  );
  const rows = await rowsOf(folder);
  expect(rows.map(({ live, status }) => [live, status])).toEqual([
    [false, 'settled'],
    [false, 'settled'],
  ]);
}, 180_000);

it('tells in a pipe what a run of another process does, line by line', async () => {
  await using server = await startOpenAiServer({ respond: model });
  await using folder = await folderWith();
  const run = await runWithChild(server, folder);
  const [, child] = await rowsOf(folder);
  const watching = start([MAIN, 'ls', 'runs.db', '--watch'], { cwd: folder.path });
  await watching.wrote(/└─ ● scout +running/u);
  await subagents(['interrupt', 'runs.db', child?.id ?? ''], { cwd: folder.path });
  await run.finished;
  const { code, stdout } = await watching.finished;
  expect(code).toBe(0);
  expect(stdout).toMatch(/\] scout: stopped \(.*\): ABORTED: /u);
});

it('shows a conversation that is over, as a person reads it and as the log has it', async () => {
  await using folder = await folderWith();
  const { path: cwd } = folder;
  await subagents(['run', 'Hello', '--store', 'runs.db'], { cwd });
  const [row] = await rowsOf(folder);
  const id = row?.id ?? '';
  const shown = await subagents(['show', 'runs.db', id], { cwd });
  expect(shown).toMatchObject({ code: 0, stderr: '' });
  expect(shown.stdout).toMatch(
    /^\S+ user\n {2}Hello\n\S+ agent \(\d+ tokens\)\n {2}I am the embedded[^]*turn 1 completed \(/u,
  );
  const log = await subagents(['show', 'runs.db', id, '--json', '--from', '2'], { cwd });
  const events = log.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { seq: number; type: string });
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 2));
  expect(events.at(-1)).toMatchObject({ type: 'turn/end' });
  const followed = await subagents(['show', 'runs.db', id, '--follow'], { cwd });
  expect(followed).toMatchObject({ code: 0, stdout: shown.stdout });
  expect(followed.stderr).toMatch(/^Nobody runs session .* now\.\n$/u);
});
