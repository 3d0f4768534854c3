import { expect, it } from 'vitest';
import {
  calls,
  chunk,
  fails,
  says,
  startOpenAiServer,
  usageChunk,
  type ChatRequest,
  type ServerAnswer,
} from '../support/openai-server.ts';
import { folderWith, MAIN, start, subagents, tableIn } from './command-line.ts';
import { FILE_SUMMARY_SCHEMA, summarize } from '../../src/cli/embedded/summary.ts';

const FILES = { 'a.md': '# one\n## two\n', 'b.ts': 'export const b = 1;\n' };

const toolsOf = (body: ChatRequest): readonly string[] =>
  (body.tools ?? []).map((tool) => tool.function.name);
const resultsIn = (body: ChatRequest): readonly string[] =>
  body.messages.flatMap(({ role, content }) => (role === 'tool' ? [textOf(content)] : []));
const textOf = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : (content as { text: string }[]).map(({ text }) => text).join('');
/** What the user asked for, if it begins so; what the runtime says is of the same role. */
const taskOf = ({ messages }: ChatRequest, beginning: string): string | undefined =>
  messages
    .flatMap(({ role, content }) => (role === 'user' ? [textOf(content)] : []))
    .findLast((text) => text.startsWith(beginning));
const answer = (chunks: readonly object[]): ServerAnswer => ({
  chunks: [...chunks, usageChunk(100, 10)],
});

/** A model behind a server that does the job: from each request alone, like a real one. */
function worker(body: ChatRequest): ServerAnswer {
  const results = resultsIn(body);
  if (toolsOf(body).includes('structured_output')) {
    const file = taskOf(body, 'Summarise ')?.replace('Summarise ', '');
    if (file === undefined) return answer(says('I was not asked to summarise anything.'));
    const [shown] = results;
    if (shown === undefined) {
      return answer(calls({ id: 'r', name: 'read_file', arguments: { path: file } }));
    }
    const summary = summarize(file, shown.slice(shown.indexOf('\n') + 1));
    return answer(calls({ id: 's', name: 'structured_output', arguments: { ...summary } }));
  }
  if (results.length === 0) {
    return answer(calls({ id: 'l', name: 'list_files', arguments: {} }));
  }
  if (results.length === 1) {
    const files = (results[0] ?? '').split('\n');
    return answer(
      calls(
        ...files.map((file, index) => ({
          id: `d${index}`,
          name: 'subagent',
          arguments: { description: file, prompt: `Summarise ${file}` },
        })),
      ),
    );
  }
  return answer(says('Merged: ', ...results.slice(1)));
}

const job = (url: string): readonly string[] => [
  'run',
  'List the files, delegate one child per file, and merge what they return.',
  '--base-url',
  url,
  '--model',
  'test-model',
];

it('does the same job through a server of that wire format, with the key it was given', async () => {
  await using server = await startOpenAiServer({ respond: ({ body }) => worker(body) });
  await using folder = await folderWith({
    ...FILES,
    'schema.json': JSON.stringify(FILE_SUMMARY_SCHEMA),
  });
  const run = [...job(server.url), '--files', '*.md', '*.ts'];
  const { code, stdout, stderr } = await subagents(
    [...run, '--output-schema', 'schema.json', '--api-key-env', 'THE_KEY'],
    { cwd: folder.path, env: { THE_KEY: 'secret-1' } },
  );
  expect(stdout).toBe(
    `Merged: ${JSON.stringify(summarize('a.md', FILES['a.md']))}${JSON.stringify(
      summarize('b.ts', FILES['b.ts']),
    )}\n`,
  );
  expect(code).toBe(0);
  expect(stderr.split('\n')[0]).toBe(`Model test-model at ${server.url}`);
  expect(stderr).toMatch(/\] a\.md: completed \(.* s, 220 tokens\)/u);
  expect(stderr + stdout).not.toContain('secret-1');
  expect(server.requests.every(({ body }) => body.stream === true)).toBe(true);
  expect(new Set(server.requests.map(({ headers }) => headers.authorization))).toEqual(
    new Set(['Bearer secret-1']),
  );
});

it('closes every connection on Ctrl-C, and exits with 130', async () => {
  await using server = await startOpenAiServer({
    respond: ({ body }) =>
      resultsIn(body).length === 0 && taskOf(body, 'Child') === undefined
        ? answer(
            calls(
              ...['one', 'two'].map((name) => ({
                id: name,
                name: 'subagent',
                arguments: { description: name, prompt: `Child ${name}` },
              })),
            ),
          )
        : { chunks: [chunk({ role: 'assistant', content: 'I begin …' })], ending: 'hang' },
  });
  const run = start([MAIN, ...job(server.url)]);
  await Promise.all([server.arrived(1), server.arrived(2)]);
  run.process.kill('SIGINT');
  expect(await Promise.all([server.closed(1), server.closed(2)])).toEqual(['cut', 'cut']);
  const { code, stdout, stderr } = await run.finished;
  expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
  expect(stderr).toMatch(/Stopped\.\n$/u);
  expect(server.requests).toHaveLength(3);
});

it('stops in the same way on SIGTERM, and exits with 143', async () => {
  await using server = await startOpenAiServer({ respond: () => ({ hang: true }) });
  const run = start([MAIN, ...job(server.url)]);
  await server.arrived(0);
  run.process.kill('SIGTERM');
  expect(await server.closed(0)).toBe('cut');
  expect((await run.finished).code).toBe(143);
});

it('keeps what a stopped run has in its store, closed as aborted', async () => {
  await using server = await startOpenAiServer({ respond: () => ({ hang: true }) });
  await using folder = await folderWith();
  const run = start([MAIN, ...job(server.url), '--store', 'runs.db'], { cwd: folder.path });
  await server.arrived(0);
  run.process.kill('SIGINT');
  await run.finished;
  const { openSqliteStore } = await import('../../src/index.ts');
  const store = openSqliteStore({ path: `${folder.path}/runs.db` });
  const [header] = await store.list();
  const { events } = await store.inspect(header?.id ?? (() => expect.fail('no session'))());
  await store.close();
  expect(events.at(-1)).toMatchObject({ type: 'turn/end', data: { reason: { kind: 'aborted' } } });
});

it.each([
  ['a missing key', fails(401, 'Bad key.'), /MISSING_CREDENTIAL: .*Name the variable .*--api-key/u],
  ['a model it does not have', fails(404, 'No such model.'), /No such model\..*--model/u],
  ['a message without an end', fails(404, 'not found'), /: not found\. Are --model .* right\?$/u],
  [
    'a body that is plain text',
    { status: 404, body: 'no route' },
    /Not Found: no route\. Are --mo/u,
  ],
  ['an answer that is no JSON', { chunks: ['data: {broken\n\n'] }, /the task failed: [A-Z_]+: /u],
] as const)('tells of %s in one line, and exits with 1', async (_, given, line) => {
  await using server = await startOpenAiServer({ respond: () => given });
  const { code, stdout, stderr } = await subagents(job(server.url));
  expect(stderr.trimEnd().split('\n').at(-1)).toMatch(line);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
});

it('lets a model correct arguments that are no JSON', async () => {
  const broken = chunk({
    tool_calls: [
      { index: 0, id: 'x', type: 'function', function: { name: 'list_files', arguments: '{oops' } },
    ],
  });
  await using server = await startOpenAiServer({
    respond: ({ body }) => {
      const results = resultsIn(body);
      if (results.length === 0) return { chunks: [broken, chunk({}, 'tool_calls')] };
      return answer(says(`It said: ${results[0]}`));
    },
  });
  await using folder = await folderWith(FILES);
  const { code, stdout } = await subagents([...job(server.url), '--files', '*.md'], {
    cwd: folder.path,
  });
  expect(code).toBe(0);
  expect(stdout).toMatch(/It said: .*JSON/u);
  expect(tableIn(stdout)).toEqual({});
});

it('lets a model read none of the files that were left out', async () => {
  const asked = ['o.md', '../b/node_modules/x.md', './o.md', 'secret.md'];
  await using server = await startOpenAiServer({
    respond: ({ body }) => {
      const results = resultsIn(body);
      if (results.length > 0) return answer(says(results.join('\n')));
      const reads = asked.map((path) => ({ id: path, name: 'read_file', arguments: { path } }));
      return answer(calls(...reads));
    },
  });
  await using folder = await folderWith({
    'a/o.md': 'mine',
    'a/secret.md': 'hidden',
    'b/node_modules/x.md': 'hidden',
  });
  const { stdout } = await subagents([...job(server.url), '--files', '../**/*.md', '!secret.md'], {
    cwd: `${folder.path}/a`,
  });
  expect(stdout).toContain('mine');
  expect(stdout).not.toContain('hidden');
  for (const path of asked.slice(1)) expect(stdout).toContain(`"${path}" is not a file of this`);
});

it('tells of no tokens when the server told of none', async () => {
  await using server = await startOpenAiServer({ respond: () => ({ chunks: says('Hello') }) });
  const { stdout, stderr } = await subagents(job(server.url));
  expect(stdout).toBe('Hello\n');
  expect(stderr).toMatch(/\] root: completed \(\d+\.\d s\)\n/u);
});

it('lists the failed delegations that an answer keeps quiet about', async () => {
  await using server = await startOpenAiServer({
    respond: ({ body }) => {
      if (toolsOf(body).includes('structured_output')) return answer(says('No.'));
      if (resultsIn(body).length > 0) return answer(says('All is well.'));
      const args = { description: 'one', prompt: 'Child' };
      return answer(calls({ id: 'd', name: 'subagent', arguments: args }));
    },
  });
  await using folder = await folderWith({ 'schema.json': '{"type":"object"}' });
  const { code, stderr } = await subagents([...job(server.url), '--output-schema', 'schema.json'], {
    cwd: folder.path,
  });
  expect(code).toBe(3);
  expect(stderr).toMatch(/\nFailed: one: NO_STRUCTURED_OUTPUT: .*\n$/u);
});
