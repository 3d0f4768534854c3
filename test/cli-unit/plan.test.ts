import { expect, it } from 'vitest';
import type { Conversation, PastCall } from '../../src/cli/embedded/conversation.ts';
import { DELEGATIONS_PER_RESPONSE, plan } from '../../src/cli/embedded/plan.ts';
import { summarize } from '../../src/cli/embedded/summary.ts';
import { PAGE_CHARACTERS, showPage } from '../../src/cli/tools/page.ts';

const ROOT_TOOLS = ['list_files', 'read_file', 'subagent'];
const CHILD_TOOLS = [...ROOT_TOOLS, 'structured_output'];

const conversation = (
  task: string,
  tools: readonly string[],
  calls: readonly PastCall[] = [],
): Conversation => ({ task, tools: new Set(tools), calls });

const answered = (name: string, text: string, isError = false): PastCall => ({
  name,
  arguments: '{}',
  result: { text, isError },
});

const files = (count: number): string =>
  Array.from({ length: count }, (_, index) => `file-${index}.md`).join('\n');

it('says what it is when it is asked for what it cannot do', () => {
  const answer = plan(conversation('What is love?', ['subagent']));
  expect(answer.calls).toEqual([]);
  expect(answer.text).toMatch(/embedded scripted model: a program, not a language model/u);
  expect(answer.text).toMatch(/--base-url .* --model/u);
});

it('asks for the files before it delegates', () => {
  expect(plan(conversation('Go.', ROOT_TOOLS)).calls).toEqual([
    { name: 'list_files', arguments: {} },
  ]);
});

it('delegates one child per file, eight at a time', () => {
  const listed = answered('list_files', files(10));
  const first = plan(conversation('Go.', ROOT_TOOLS, [listed]));
  expect(first.calls.map((call) => call.arguments['description'])).toEqual(files(8).split('\n'));
  const done = Array.from({ length: DELEGATIONS_PER_RESPONSE }, () => answered('subagent', '{}'));
  const second = plan(conversation('Go.', ROOT_TOOLS, [listed, ...done]));
  expect(second.calls.map((call) => call.arguments['description'])).toEqual([
    'file-8.md',
    'file-9.md',
  ]);
});

it('lets a child call each tool that the task lists', () => {
  const task = 'Go. Then let a child each:\n- call `boom`\n- call `spin`\nNot this: call `x`';
  const answer = plan(conversation(task, ROOT_TOOLS, [answered('list_files', 'a.md')]));
  expect(answer.calls.map((call) => call.arguments['prompt'])).toEqual([
    'Read the file "a.md" and hand in its summary.',
    'Call the tool `boom`.',
    'Call the tool `spin`.',
  ]);
});

it('merges what the children returned, and names who failed and why', () => {
  const summary = summarize('b.ts', 'export const a = 1, b = 2;\n');
  const answer = plan(
    conversation('Go.', ROOT_TOOLS, [
      answered('list_files', 'a.md\nb.ts\nc.md\nd.md'),
      answered('subagent', JSON.stringify(summarize('a.md', '# x\n\ntext'))),
      answered('subagent', JSON.stringify(summary)),
      answered('subagent', 'It failed.\nDiagnostic: WORKER_CRASHED: boom', true),
      answered('subagent', 'no summary'),
    ]),
  );
  expect(answer.text.split('\n').slice(2)).toEqual([
    'file              headings  exports  lines',
    '----------------  --------  -------  -----',
    'a.md                     1        0      3',
    'b.ts                     0        2      1',
    '----------------  --------  -------  -----',
    'total of 2 files         1        2      4',
    '',
    '2 delegations failed:',
    '- c.md: WORKER_CRASHED: boom',
    '- d.md: it returned no summary of a file',
  ]);
});

const READ = 'Read the file "dir/a \\"b\\".md" and hand in its summary.';
const PATH = 'dir/a "b".md';

it('reads the file it was told to, as a child', () => {
  expect(plan(conversation(READ, CHILD_TOOLS)).calls).toEqual([
    { name: 'read_file', arguments: { path: PATH } },
  ]);
});

it('reads page after page and summarizes the whole', () => {
  const text = `# one\n${'x😀'.repeat(PAGE_CHARACTERS / 2)}\n# two`;
  const calls: PastCall[] = [];
  let answer = plan(conversation(READ, CHILD_TOOLS, calls));
  while (answer.calls[0]?.name === 'read_file') {
    const offset = (answer.calls[0].arguments['offset'] ?? 0) as number;
    calls.push(answered('read_file', showPage(PATH, text, offset)));
    answer = plan(conversation(READ, CHILD_TOOLS, calls));
  }
  expect(calls.length).toBeGreaterThan(1);
  expect(answer.calls).toEqual([
    {
      name: 'structured_output',
      arguments: { file: PATH, headings: ['one', 'two'], exports: [], lines: 3 },
    },
  ]);
});

it('makes no summary of a file it could not read', () => {
  const answer = plan(
    conversation(READ, CHILD_TOOLS, [answered('read_file', 'It is gone.', true)]),
  );
  expect(answer).toEqual({ text: `I could not read ${PATH}: It is gone.`, calls: [] });
});

it('does not repeat a summary that was refused', () => {
  const answer = plan(
    conversation(READ, CHILD_TOOLS, [answered('structured_output', 'wrong shape', true)]),
  );
  expect(answer).toEqual({ text: 'My summary was not accepted: wrong shape', calls: [] });
});

it('reads the files itself, page by page, where it may not delegate', () => {
  const tools = ['list_files', 'read_file'];
  const listed = answered('list_files', 'a.md\nlong.md');
  const first = plan(conversation('Go.', tools, [listed]));
  expect(first.calls.map(({ arguments: { path } }) => path)).toEqual(['a.md', 'long.md']);
  const long = `# x\n${'y\n'.repeat(PAGE_CHARACTERS)}`;
  const read = (path: string, text: string, offset: number): PastCall => ({
    ...answered('read_file', showPage(path, text, offset)),
    arguments: JSON.stringify({ path, offset }),
  });
  const past = [listed, read('a.md', '# a\n', 0), read('long.md', long, 0)];
  const second = plan(conversation('Go.', tools, past));
  expect(second.calls).toEqual([
    { name: 'read_file', arguments: { path: 'long.md', offset: PAGE_CHARACTERS } },
  ]);
  const failed = { ...answered('read_file', 'It is gone.', true), arguments: '{"path":"long.md"}' };
  const last = plan(conversation('Go.', tools, [...past, failed]));
  expect(last.calls).toEqual([]);
  expect(last.text).toMatch(/\na\.md +1 +0 +1\n[^]*\n- long\.md: It is gone\.$/u);
});
