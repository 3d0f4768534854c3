import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  calls,
  says,
  startOpenAiServer,
  type ChatRequest,
  type ServerAnswer,
} from '../support/openai-server.ts';
import { folderWith, subagents, tableIn } from './command-line.ts';

const REVIEWER = `---
name: reviewer
description: Reviews one file
model: small-model
tools: read_file
limits:
  turnMs: 60000
---
You are a strict reviewer.
`;
const TOOL = `export default {
  name: 'measure', description: 'x', parameters: { type: 'object', properties: {} }, execute() {},
};`;
const FILES = { 'a.md': '# a\n', '.agents/reviewer.md': REVIEWER };

const text = (content: unknown): string => JSON.stringify(content);
const systemOf = ({ messages }: ChatRequest): string =>
  messages.flatMap(({ role, content }) => (role === 'system' ? [text(content)] : [])).join();
const toolsOf = ({ tools = [] }: ChatRequest): readonly string[] =>
  tools.map(({ function: { name } }) => name).sort();
const run = (url: string, ...more: readonly string[]): readonly string[] => [
  'run',
  'Have a.md reviewed.',
  '--base-url',
  url,
  ...more,
];

it('delegates to an agent by the name that a file gives it', async () => {
  const respond = ({ body }: { body: ChatRequest }): ServerAnswer => {
    if (systemOf(body).includes('strict reviewer')) return { chunks: says('It is fine.') };
    if (body.messages.some(({ role }) => role === 'tool')) return { chunks: says('Reviewed.') };
    const args = { description: 'a.md', prompt: 'Review a.md', run_in_background: false };
    return { chunks: calls({ id: '1', name: 'reviewer', arguments: args }) };
  };
  await using server = await startOpenAiServer({ respond });
  await using folder = await folderWith(FILES);
  const { code, stdout, stderr } = await subagents(
    run(server.url, '--model', 'big-model', '--files', '*.md'),
    { cwd: folder.path },
  );
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'Reviewed.\n' });
  expect(stderr).toMatch(/\] a\.md: completed/u);
  const [first, child] = server.requests.map(({ body }) => body);
  expect(text(first?.tools)).toMatch(/"Reviews one file\. [A-Z]/u);
  expect(child).toMatchObject({ model: 'small-model' });
  expect(toolsOf(child as ChatRequest)).toEqual(['read_file']);
});

it.each([
  ['the model of its definition', [], 'small-model'],
  ['the model of the command line, which wins', ['--model', 'big-model'], 'big-model'],
])('runs a root of a definition with %s', async (_, more, model) => {
  await using server = await startOpenAiServer({ respond: () => ({ chunks: says('Fine.') }) });
  await using folder = await folderWith(FILES);
  const args = run(server.url, '--agent', 'reviewer', ...more, '--files', '*.md');
  expect(await subagents(args, { cwd: folder.path })).toMatchObject({ code: 0, stdout: 'Fine.\n' });
  const [request] = server.requests.map(({ body }) => body);
  expect(request).toMatchObject({ model });
  expect(systemOf(request as ChatRequest)).toContain('You are a strict reviewer.');
  expect(toolsOf(request as ChatRequest)).toEqual(['read_file']);
});

it.each([
  [
    'an agent that nobody defined',
    ['--agent', 'writer'],
    /No agent "writer" .*there are: reviewer\./u,
  ],
  ['a folder that is missing', ['--agents', 'team'], /Cannot read the folder "team": .*no such/u],
  ['a tool of files without them', ['--agent', 'reviewer'], /reviewer\.md:5: .*`read_file`/u],
  ['a tool that there is not', ['--agents', 'wrong'], /wrong\/b\.md:4: .*names `nope`/u],
  [
    'a name that a tool has',
    ['--agents', 'taken', '--tools', 'tool.mjs'],
    /taken\/a\.md:2: .*`measure`/u,
  ],
  [
    'a definition that is none',
    ['--agents', 'broken'],
    /broken\/a\.md:3: "description" takes a text/u,
  ],
])('refuses %s in one line, with exit code 2', async (_, more, line) => {
  await using folder = await folderWith({
    ...FILES,
    'taken/a.md': '---\nname: measure\ndescription: x\n---\n',
    'tool.mjs': TOOL,
    'wrong/a.md': '---\nname: x\ndescription: x\ntools: [y, read_file]\n---\n',
    'wrong/b.md': '---\nname: y\ndescription: x\ntools: [nope]\n---\n',
    'broken/a.md': '---\nname: x\ndescription:\n---\n',
  });
  const args = ['run', 'x', ...more, '--store', 'runs.db'];
  const { code, stdout, stderr } = await subagents(args, { cwd: folder.path });
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(line);
  expect(stderr).toMatch(/^subagents: [^\n]*\n$/u);
  expect(existsSync(join(folder.path, 'runs.db'))).toBe(false);
});

it('lets an agent that may not delegate answer without a model of a server', async () => {
  await using folder = await folderWith({
    '.agents/reviewer.md': REVIEWER.replace('read_file', 'read_file, list_files'),
    'a.md': '# a\n\n## b\n',
    'b.md': '',
  });
  const args = ['run', 'Review this.', '--agent', 'reviewer', '--files', '*.md'];
  const { code, stdout } = await subagents(args, { cwd: folder.path });
  expect(code).toBe(0);
  expect(tableIn(stdout)).toMatchObject({
    'a.md': { headings: 2, lines: 3 },
    total: { headings: 2, lines: 3 },
  });
});
