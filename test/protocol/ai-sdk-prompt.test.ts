import type { Message } from '../../protocol/content.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SeenOptions } from '../support/ai-sdk-model.ts';
import { describe, expect, it } from 'vitest';
import { CallId, MessageId } from '../../protocol/ids.ts';
import { readModel, sdkFinish, sdkModel, sdkText } from '../support/ai-sdk-model.ts';

describe('an AI SDK model is given the request', () => {
  const tool = { name: 'add', description: 'Adds.', parameters: { type: 'object' } };
  const user = (id: string, words: string): Message => ({
    id: MessageId(id),
    role: 'user',
    content: [{ type: 'text', text: words }],
    source: { kind: 'user' },
  });
  const result = (id: string, words: string, isError?: true): Message => ({
    id: MessageId(`r-${id}`),
    role: 'user',
    content: [
      {
        type: 'tool-result',
        toolCallId: CallId(id),
        content: [{ type: 'text', text: words }],
        ...(isError ? { isError } : {}),
      },
    ],
    source: { kind: 'tool', callId: CallId(id) },
  });
  const assistant = (replayState?: object, provider = 'acme'): Message => ({
    id: MessageId('a'),
    role: 'assistant',
    content: [
      { type: 'reasoning', text: 'Hm' },
      { type: 'text', text: 'Adding.' },
      { type: 'tool-call', id: CallId('c1'), name: 'add', arguments: '{"a":1}' },
      { type: 'tool-call', id: CallId('c2'), name: 'sub', arguments: '' },
      { type: 'tool-call', id: CallId('c3'), name: 'mul', arguments: '{"a":' },
    ],
    source: {
      kind: 'model',
      provider,
      model: 'm',
      ...(replayState === undefined ? {} : { replayState: replayState as never }),
    },
  });
  const given = async (asked: Partial<ModelRequest>): Promise<SeenOptions> => {
    const asking = sdkModel('v3', [sdkFinish('stop')]);
    await readModel(asking, asked);
    return asking.seen[0]!;
  };

  it('as call options, with only what was asked for', async () => {
    const { abortSignal, ...bare } = await given({});
    expect(abortSignal).toBeInstanceOf(AbortSignal);
    expect(bare).toEqual({ prompt: [] });
    expect(
      await given({ tools: [tool], maxTokens: 9, temperature: 0, stop: ['END'], system: 'Be.' }),
    ).toMatchObject({
      prompt: [{ role: 'system', content: 'Be.' }],
      tools: [
        {
          type: 'function',
          name: 'add',
          description: 'Adds.',
          inputSchema: { type: 'object' },
        },
      ],
      maxOutputTokens: 9,
      temperature: 0,
      stopSequences: ['END'],
    });
  });

  it('as prompt messages, results under the name of their tool', async () => {
    const { prompt } = await given({
      messages: [
        user('u1', 'Add!'),
        assistant(),
        result('c1', '2'),
        result('c2', 'no', true),
        result('gone', '?'),
        user('u2', 'Thanks'),
      ],
    });
    const output = (toolCallId: string, toolName: string, type: string, value: string) => ({
      type: 'tool-result',
      toolCallId,
      toolName,
      output: { type, value },
    });
    expect(prompt).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Add!' }] },
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'Hm' },
          { type: 'text', text: 'Adding.' },
          { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: { a: 1 } },
          { type: 'tool-call', toolCallId: 'c2', toolName: 'sub', input: {} },
          { type: 'tool-call', toolCallId: 'c3', toolName: 'mul', input: { raw: '{"a":' } },
        ],
      },
      {
        role: 'tool',
        content: [
          output('c1', 'add', 'text', '2'),
          output('c2', 'sub', 'error-text', 'no'),
          output('gone', 'unknown', 'text', '?'),
        ],
      },
      { role: 'user', content: [{ type: 'text', text: 'Thanks' }] },
    ]);
  });

  const blocks = ['reasoning', 'text', 'tool-call', 'tool-call', 'tool-call'].map((type, at) => ({
    type,
    isEmpty: false,
    metadata: at === 0 ? { acme: { signature: 's' } } : null,
  }));
  it.each([
    ['what the same provider attached', { aiSdk: 1, blocks }, 'acme', true],
    ['not what another attached', { aiSdk: 1, blocks }, 'other', false],
    ['not what fits other blocks', { aiSdk: 1, blocks: blocks.slice(1) }, 'acme', false],
    ['not a state of something else', { x: 1 }, 'acme', false],
  ])('with %s', async (_name, state, provider, isBack) => {
    const { prompt } = await given({ messages: [assistant(state, provider)] });
    const [answer] = prompt;
    expect(answer?.content).toContainEqual({
      type: 'reasoning',
      text: 'Hm',
      ...(isBack ? { providerOptions: { acme: { signature: 's' } } } : {}),
    });
  });

  it('with reasoning without text that only its provider can read', async () => {
    const hidden = { acme: { encrypted: 'e' } };
    const asking = sdkModel('v3', [
      { type: 'text-start', id: 'none' },
      { type: 'text-end', id: 'none' },
      { type: 'reasoning-start', id: '0', providerMetadata: hidden },
      { type: 'reasoning-end', id: '0' },
      ...sdkText,
      sdkFinish('stop'),
    ]);
    const last = (await readModel(asking)).at(-1);
    const replayState = last?.type === 'finish' ? last.replayState : undefined;
    // As the loop keeps it: blocks without text are left out.
    const answer = {
      id: MessageId('a'),
      role: 'assistant',
      content: [{ type: 'text', text: 'Hello' }],
      source: { kind: 'model', provider: 'acme', model: 'm', replayState: replayState! },
    } as const;
    await readModel(asking, { messages: [answer] });
    expect(asking.seen[1]?.prompt).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: '', providerOptions: hidden },
          { type: 'text', text: 'Hello' },
        ],
      },
    ]);
  });
});
