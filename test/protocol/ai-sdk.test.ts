import type { LanguageModelV2, LanguageModelV3 } from '@ai-sdk/provider';
import type { Message } from '../../protocol/content.ts';
import type { AiSdkModel } from '../../protocol/ai-sdk.ts';
import type { ModelPart, ModelRequest } from '../../protocol/model.ts';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { asModelAdapter, fromAiSdk, isAiSdkModel } from '../../protocol/ai-sdk.ts';
import { CallId, MessageId } from '../../protocol/ids.ts';
import { streamModel } from '../../protocol/model-stream.ts';
import { gate } from '../../src/base/gate.ts';

type Version = AiSdkModel['specificationVersion'];
interface SeenOptions {
  readonly prompt: readonly { readonly role: string; readonly content: unknown }[];
  readonly abortSignal: AbortSignal;
  readonly [key: string]: unknown;
}

/** A model object of the SDK, written by hand: it streams these parts. */
function model(specificationVersion: Version, parts: readonly unknown[]) {
  const seen: SeenOptions[] = [];
  const built = {
    specificationVersion,
    provider: 'acme.chat',
    modelId: 'm-1',
    supportedUrls: {},
    seen,
    async doStream(options: SeenOptions) {
      seen.push(options);
      return {
        stream: new ReadableStream({
          start(controller) {
            for (const part of parts) controller.enqueue(part);
            controller.close();
          },
        }),
      };
    },
  };
  return built as typeof built & AiSdkModel;
}

const request: ModelRequest = { provider: 'acme', model: 'asked', messages: [] };

async function read(
  source: Parameters<typeof fromAiSdk>[0],
  asked: Partial<ModelRequest> = {},
  signal = new AbortController().signal,
): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  const adapter = fromAiSdk(source);
  for await (const part of streamModel(adapter, { ...request, ...asked }, signal)) parts.push(part);
  return parts;
}

const v2Finish = (finishReason: string, usage: object = {}) => ({
  type: 'finish',
  finishReason,
  usage,
});
const finish = (unified: string, usage: object = {}) => ({
  type: 'finish',
  finishReason: { unified, raw: `raw-${unified}` },
  usage,
});
const text = [
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta: 'Hel' },
  { type: 'text-delta', id: '0', delta: 'lo' },
  { type: 'text-end', id: '0' },
];
const call = { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":1}' };
const reasonOf = (parts: readonly ModelPart[]): unknown => {
  const last = parts.at(-1);
  return last?.type === 'finish' ? last.reason : undefined;
};

describe('an AI SDK model', () => {
  it('is recognised by its shape, and so is a provider that gives one', async () => {
    expectTypeOf<LanguageModelV2>().toExtend<AiSdkModel>();
    expectTypeOf<LanguageModelV3>().toExtend<AiSdkModel>();
    expect(isAiSdkModel(model('v4', []))).toBe(true);
    expect(isAiSdkModel({ ...model('v2', []), specificationVersion: 'v9' })).toBe(false);
    for (const thing of [null, undefined, 7, 'gpt', {}, () => {}]) {
      expect(asModelAdapter(thing)).toBeUndefined();
    }
    const asked: string[] = [];
    const provider = Object.assign(() => {}, {
      languageModel(modelId: string) {
        asked.push(modelId);
        return model('v3', [...text, finish('stop')]);
      },
    });
    const parts = streamModel(asModelAdapter(provider), request, new AbortController().signal);
    for await (const part of parts) expect(part).toBeDefined();
    expect(asked).toEqual(['asked']);
  });

  it('says so when a provider gives no model', async () => {
    expect(reasonOf(await read(() => undefined as never))).toMatchObject({
      failure: { message: 'There is no AI SDK language model "asked".' },
    });
  });

  describe('is given the request', () => {
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
      const asking = model('v3', [finish('stop')]);
      await read(asking, asked);
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
      expect((prompt[0]?.content as object[])[0]).toEqual({
        type: 'reasoning',
        text: 'Hm',
        ...(isBack ? { providerOptions: { acme: { signature: 's' } } } : {}),
      });
    });
  });

  it('is given back reasoning without text that only its provider can read', async () => {
    const hidden = { acme: { encrypted: 'e' } };
    const asking = model('v3', [
      { type: 'text-start', id: 'none' },
      { type: 'text-end', id: 'none' },
      { type: 'reasoning-start', id: '0', providerMetadata: hidden },
      { type: 'reasoning-end', id: '0' },
      ...text,
      finish('stop'),
    ]);
    const last = (await read(asking)).at(-1);
    const replayState = last?.type === 'finish' ? last.replayState : undefined;
    // As the loop keeps it: blocks without text are left out.
    const answer = {
      id: MessageId('a'),
      role: 'assistant',
      content: [{ type: 'text', text: 'Hello' }],
      source: { kind: 'model', provider: 'acme', model: 'm', replayState: replayState! },
    } as const;
    await read(asking, { messages: [answer] });
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

  it('of version 2 streams text, reasoning, a call and flat token counts', async () => {
    const parts = await read(
      model('v2', [
        { type: 'stream-start', warnings: [{ type: 'other', message: 'x' }] },
        { type: 'response-metadata', id: 'r', modelId: 'm-1' },
        { type: 'reasoning-start', id: 'r0' },
        { type: 'reasoning-delta', id: 'r0', delta: 'Hm' },
        { type: 'reasoning-end', id: 'r0' },
        ...text,
        { type: 'tool-input-start', id: 'c1', toolName: 'add' },
        { type: 'tool-input-delta', id: 'c1', delta: '{"a"' },
        { type: 'tool-input-delta', id: 'c1', delta: ':1}' },
        { type: 'tool-input-end', id: 'c1' },
        call,
        v2Finish('tool-calls', {
          inputTokens: 10,
          outputTokens: 7,
          totalTokens: 17,
          cachedInputTokens: 4,
          reasoningTokens: 2,
        }),
      ]),
    );
    expect(parts).toEqual([
      { type: 'block-start', index: 0, blockType: 'reasoning' },
      { type: 'reasoning-delta', index: 0, text: 'Hm' },
      { type: 'block-end', index: 0, block: { type: 'reasoning', text: 'Hm' } },
      { type: 'block-start', index: 1, blockType: 'text' },
      { type: 'text-delta', index: 1, text: 'Hel' },
      { type: 'text-delta', index: 1, text: 'lo' },
      { type: 'block-end', index: 1, block: { type: 'text', text: 'Hello' } },
      { type: 'block-start', index: 2, blockType: 'tool-call' },
      { type: 'tool-call-delta', index: 2, id: 'c1', name: 'add', argumentsDelta: '' },
      { type: 'tool-call-delta', index: 2, id: 'c1', argumentsDelta: '{"a"' },
      { type: 'tool-call-delta', index: 2, id: 'c1', argumentsDelta: ':1}' },
      {
        type: 'block-end',
        index: 2,
        block: { type: 'tool-call', id: 'c1', name: 'add', arguments: '{"a":1}' },
      },
      {
        type: 'usage',
        usage: { inputTokens: 6, outputTokens: 5, cacheReadTokens: 4, reasoningTokens: 2 },
      },
      { type: 'finish', reason: { kind: 'tool-calls' } },
    ]);
  });

  it.each<Version>(['v3', 'v4'])('of version %s streams calls and counts by kind', async (v) => {
    const parts = await read(
      model(v, [
        call,
        { ...call, toolCallId: 'p1', providerExecuted: true },
        { type: 'tool-result', toolCallId: 'p1', toolName: 'search', result: {} },
        { type: 'source', sourceType: 'url', id: 's', url: 'https://h' },
        { type: 'file', mediaType: 'image/png', data: 'x' },
        { type: 'custom', kind: 'acme.x' },
        { type: 'raw', rawValue: {} },
        finish('stop', {
          inputTokens: { total: 10, noCache: 3, cacheRead: 5, cacheWrite: 2 },
          outputTokens: { total: 7, text: 6, reasoning: 1 },
        }),
      ]),
    );
    expect(parts).toEqual([
      { type: 'block-start', index: 0, blockType: 'tool-call' },
      {
        type: 'block-end',
        index: 0,
        block: { type: 'tool-call', id: 'c1', name: 'add', arguments: '{"a":1}' },
      },
      {
        type: 'usage',
        usage: {
          inputTokens: 3,
          outputTokens: 6,
          cacheReadTokens: 5,
          cacheWriteTokens: 2,
          reasoningTokens: 1,
        },
      },
      { type: 'finish', reason: { kind: 'tool-calls' } },
    ]);
  });

  it.each([
    ['totals only', { inputTokens: { total: 5 }, outputTokens: { total: 3 } }, [5, 3]],
    ['a cache beside the total', { inputTokens: 2, outputTokens: 1, cachedInputTokens: 9 }, [2, 1]],
    ['one side', { inputTokens: { total: undefined }, outputTokens: { total: 3 } }, [0, 3]],
    ['nothing', { inputTokens: { total: undefined }, outputTokens: {} }, undefined],
    ['undefined', undefined, undefined],
  ])('counts tokens given as %s', async (_name, usage, expected) => {
    const parts = await read(model('v3', [...text, { ...finish('stop'), usage }]));
    const found = parts.find((part) => part.type === 'usage')?.usage;
    expect(found && [found.inputTokens, found.outputTokens]).toEqual(expected);
  });

  it('lets one id name several blocks, one after another', async () => {
    const parts = await read(model('v3', [...text, ...text, finish('stop')]));
    const ends = parts.filter((part) => part.type === 'block-end');
    expect(ends.map((part) => part.index)).toEqual([0, 1]);
  });

  it('keeps what the provider attached to its blocks, for the next request', async () => {
    const signed = { acme: { signature: 's' } };
    const parts = await read(
      model('v3', [
        { type: 'reasoning-start', id: '0' },
        { type: 'reasoning-end', id: '0', providerMetadata: signed },
        ...text,
        { ...call, providerMetadata: { acme: { when: undefined, run: () => {} } } },
        finish('tool-calls'),
      ]),
    );
    expect(parts.at(-1)).toEqual({
      type: 'finish',
      reason: { kind: 'tool-calls' },
      replayState: {
        aiSdk: 1,
        blocks: [
          { type: 'reasoning', isEmpty: true, metadata: signed },
          { type: 'text', isEmpty: false, metadata: null },
          { type: 'tool-call', isEmpty: false, metadata: { acme: {} } },
        ],
      },
    });
  });

  it.each<[string, unknown[], object]>([
    ['length', [...text, v2Finish('length')], { kind: 'max-tokens' }],
    ['stop with calls', [call, finish('stop')], { kind: 'tool-calls' }],
    ['calls without any', [...text, finish('tool-calls')], { kind: 'stop' }],
    ['a refusal in words', [...text, finish('content-filter')], { kind: 'stop' }],
    [
      'a filter that left nothing',
      [finish('content-filter')],
      { failure: { code: 'CONTENT_FILTER' } },
    ],
    ['other', [...text, finish('other')], { kind: 'stop' }],
    ['other, with nothing', [v2Finish('unknown')], { failure: { code: 'EMPTY_RESPONSE' } }],
    ['error', [...text, finish('error')], { failure: { code: 'SERVER' } }],
    ['no finish', text, { kind: 'stop' }],
    ['nothing at all', [], { failure: { code: 'EMPTY_RESPONSE' } }],
    ['a null part', [null, ...text, finish('stop')], { kind: 'stop' }],
  ])('ends: %s', async (_name, parts, reason) => {
    expect(reasonOf(await read(model('v3', parts)))).toMatchObject(reason);
  });

  it('ends with its first error part', async () => {
    const error = Object.assign(new Error('Overloaded'), { statusCode: 529 });
    const parts = await read(
      model('v3', [...text.slice(0, 2), { type: 'error', error }, ...text, finish('error')]),
    );
    expect(parts.map((part) => part.type)).toEqual(['block-start', 'text-delta', 'finish']);
    expect(reasonOf(parts)).toMatchObject({ failure: { code: 'SERVER', status: 529 } });
  });

  it('fails typed when it cannot be asked', async () => {
    const failing = {
      ...model('v3', []),
      doStream: () =>
        Promise.reject(Object.assign(new Error('No key.'), { name: 'AI_LoadAPIKeyError' })),
    };
    expect(reasonOf(await read(failing))).toEqual({
      kind: 'error',
      failure: { code: 'MISSING_CREDENTIAL', message: 'No key.' },
    });
  });

  it('is let go of on abort, although it ignores its signal', async () => {
    const controller = new AbortController();
    const asked = gate();
    const cancelled = gate();
    const deaf = {
      ...model('v3', []),
      doStream: async () => ({
        stream: new ReadableStream(
          { pull: () => asked.wait(), cancel: () => void cancelled.wait() },
          // Pulls only for a read that waits.
          { highWaterMark: 0 },
        ),
      }),
    };
    const parts = read(deaf, {}, controller.signal);
    await asked.arrived();
    controller.abort();
    await cancelled.arrived();
    expect(reasonOf(await parts)).toMatchObject({ kind: 'aborted' });
  });

  it('is let go of when it answers only after the abort', async () => {
    const controller = new AbortController();
    const held = gate();
    const cancelled = gate();
    const slow = {
      ...model('v3', []),
      doStream: async () => {
        await held.wait();
        return { stream: new ReadableStream({ cancel: () => void cancelled.wait() }) };
      },
    };
    const parts = read(slow, {}, controller.signal);
    await held.arrived();
    controller.abort();
    expect(reasonOf(await parts)).toMatchObject({ kind: 'aborted' });
    held.open();
    await cancelled.arrived();
  });
});
