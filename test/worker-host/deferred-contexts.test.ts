/** Messages that a tool call wants shown, and that cannot be, or that end the agent. */
import { expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { SubagentStartRequest } from '../../src/subagents/provider.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { settled, until } from '../support/until.ts';
import { ends, shown } from './agent-words.ts';

const nameless = { ...message('Psst.'), source: { kind: '' } } as unknown as UserMessage;
const parameters = { type: 'object' };
const calls = (name: string, args: object = {}) => ({ toolCalls: [{ name, arguments: args }] });
const results = ({ events }: TestHarness['root']['session']): unknown[] =>
  events.flatMap(({ type, data }) => {
    const [block] = type === 'tool/result' ? data.message.content : [];
    return block?.type === 'tool-result' ? [block.isError === true] : [];
  });

it('fails the call of a function that gives a message without a kind, and nothing else', async () => {
  await using rt = await testHarness({
    tools: [
      {
        name: 'note',
        description: 'Notes.',
        parameters,
        execute: (_, { deferContext }) => deferContext(nameless),
      },
    ],
    script: [calls('note'), 'Done.'],
  });
  await rt.ask('go');
  expect(results(rt.root.session)).toEqual([true]);
  expect(ends(rt.root.session)).toEqual(['completed']);
  expect(shown(rt.model)).toEqual([['go'], ['go']]);
  expect(rt.threads.all).toHaveLength(1);
});

it('fails the call of a module that gives one, and nothing else', async () => {
  const tool = {
    name: 'note',
    description: 'Notes.',
    parameters,
    execute: (_: object, { deferContext }: { deferContext(given: UserMessage): void }) =>
      deferContext(nameless),
  };
  await using rt = await testHarness({
    tools: [{ module: new URL('file:///note.mjs') }],
    threads: { import: () => Promise.resolve({ default: tool }) },
    script: [calls('note'), 'Done.'],
  });
  await rt.ask('go');
  expect(results(rt.root.session)).toEqual([true]);
  expect(ends(rt.root.session)).toEqual(['completed']);
  expect(rt.threads.all).toHaveLength(1);
});

it('has the log and the value of a structured child agree when a hook gives one', async () => {
  await using rt = await testHarness({
    script: [calls('structured_output', { n: 1 }), 'Then not.'],
  });
  rt.harness.hooks.on('tool/post-execute', () => ({ kind: 'accept', contexts: [nameless] }));
  const request: SubagentStartRequest = {
    parent: rt.root,
    prompt: [{ type: 'text', text: 'Work.' }],
    signal: new AbortController().signal,
    outputSchema: { type: 'object', properties: { n: { type: 'integer' } } },
  };
  const run = await rt.harness.subagents.start('spawn', request);
  const result = await run.result;
  const { session } = run.localAgent!;
  await run.dispose();
  expect(results(session)).toEqual([true]);
  expect([result.stopReason, 'structured' in result]).toEqual(['error', false]);
  expect(ends(session)).toEqual(['completed']);
});

it('leaves the result of a call standing whose context ends the agent', async () => {
  await using rt = await testHarness({
    tools: [
      {
        name: 'note',
        description: 'Notes.',
        parameters,
        execute(_, { deferContext }) {
          for (const text of ['one', 'two']) deferContext(message(text));
        },
      },
    ],
    script: [calls('note')],
  });
  let disposal: Promise<void> | undefined;
  const inserted: string[] = [];
  rt.harness.on('agent/inbox/inserted', ({ message: { content } }) => {
    inserted.push(textOf(content));
    if (inserted.includes('one')) disposal ??= rt.rootHandle.dispose();
  });
  rt.root.followup(message('go'));
  await until(() => disposal !== undefined);
  await disposal;
  await settled();
  expect(inserted).toEqual(['go', 'one']);
  expect(results(rt.root.session)).toEqual([false]);
  expect(ends(rt.root.session)).toEqual(['aborted disposed']);
  expect(rt.warnings).toEqual([]);
});
