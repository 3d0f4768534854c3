import type { ModelPart } from '../../protocol/model.ts';
import type { Version } from '../support/ai-sdk-model.ts';
import { describe, expect, it } from 'vitest';
import { asModelAdapter, isAiSdkModel } from '../../protocol/ai-sdk.ts';
import { gate } from '../../src/base/gate.ts';
import { readStream } from '../support/adapters.ts';
import { readModel, sdkFinish, sdkModel, sdkText } from '../support/ai-sdk-model.ts';

const v2Finish = (finishReason: string, usage: object = {}) => ({
  type: 'finish',
  finishReason,
  usage,
});
const call = { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":1}' };
const reasonOf = (parts: readonly ModelPart[]): unknown => {
  const last = parts.at(-1);
  return last?.type === 'finish' ? last.reason : undefined;
};

describe('an AI SDK model', () => {
  it('is recognised by its shape, and so is a provider that gives one', async () => {
    expect(isAiSdkModel(sdkModel('v4', []))).toBe(true);
    expect(isAiSdkModel({ ...sdkModel('v2', []), specificationVersion: 'v9' })).toBe(false);
    for (const thing of [null, undefined, 7, 'gpt', {}, () => {}]) {
      expect(asModelAdapter(thing)).toBeUndefined();
    }
    const asked: string[] = [];
    const provider = Object.assign(() => {}, {
      languageModel(modelId: string) {
        asked.push(modelId);
        return sdkModel('v3', [...sdkText, sdkFinish('stop')]);
      },
    });
    await readStream(asModelAdapter(provider));
    expect(asked).toEqual(['m']);
  });

  it('says so when a provider gives no model', async () => {
    expect(reasonOf(await readModel(() => undefined as never))).toMatchObject({
      failure: { message: 'There is no AI SDK language model "asked".' },
    });
  });

  it('of version 2 streams text, reasoning, a call and flat token counts', async () => {
    const parts = await readModel(
      sdkModel('v2', [
        { type: 'stream-start', warnings: [{ type: 'other', message: 'x' }] },
        { type: 'response-metadata', id: 'r', modelId: 'm-1' },
        { type: 'reasoning-start', id: 'r0' },
        { type: 'reasoning-delta', id: 'r0', delta: 'Hm' },
        { type: 'reasoning-end', id: 'r0' },
        ...sdkText,
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
    const parts = await readModel(
      sdkModel(v, [
        call,
        { ...call, toolCallId: 'p1', providerExecuted: true },
        { type: 'tool-result', toolCallId: 'p1', toolName: 'search', result: {} },
        { type: 'source', sourceType: 'url', id: 's', url: 'https://h' },
        { type: 'file', mediaType: 'image/png', data: 'x' },
        { type: 'custom', kind: 'acme.x' },
        { type: 'raw', rawValue: {} },
        sdkFinish('stop', {
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
    const parts = await readModel(sdkModel('v3', [...sdkText, { ...sdkFinish('stop'), usage }]));
    const found = parts.find((part) => part.type === 'usage')?.usage;
    expect(found && [found.inputTokens, found.outputTokens]).toEqual(expected);
  });

  it('lets one id name several blocks, one after another', async () => {
    const parts = await readModel(sdkModel('v3', [...sdkText, ...sdkText, sdkFinish('stop')]));
    const ends = parts.filter((part) => part.type === 'block-end');
    expect(ends.map((part) => part.index)).toEqual([0, 1]);
  });

  it('keeps what the provider attached to its blocks, for the next request', async () => {
    const signed = { acme: { signature: 's' } };
    const parts = await readModel(
      sdkModel('v3', [
        { type: 'reasoning-start', id: '0' },
        { type: 'reasoning-end', id: '0', providerMetadata: signed },
        ...sdkText,
        { ...call, providerMetadata: { acme: { when: undefined, run: () => {} } } },
        sdkFinish('tool-calls'),
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

  it.each<[string, readonly unknown[], object]>([
    ['length', [...sdkText, v2Finish('length')], { kind: 'max-tokens' }],
    ['stop with calls', [call, sdkFinish('stop')], { kind: 'tool-calls' }],
    ['calls without any', [...sdkText, sdkFinish('tool-calls')], { kind: 'stop' }],
    ['a refusal in words', [...sdkText, sdkFinish('content-filter')], { kind: 'stop' }],
    [
      'a filter that left nothing',
      [sdkFinish('content-filter')],
      { failure: { code: 'CONTENT_FILTER' } },
    ],
    ['other', [...sdkText, sdkFinish('other')], { kind: 'stop' }],
    ['other, with nothing', [v2Finish('unknown')], { failure: { code: 'EMPTY_RESPONSE' } }],
    ['error', [...sdkText, sdkFinish('error')], { failure: { code: 'SERVER' } }],
    ['no finish', sdkText, { kind: 'stop' }],
    ['nothing at all', [], { failure: { code: 'EMPTY_RESPONSE' } }],
    ['a null part', [null, ...sdkText, sdkFinish('stop')], { kind: 'stop' }],
  ])('ends: %s', async (_name, parts, reason) => {
    expect(reasonOf(await readModel(sdkModel('v3', parts)))).toMatchObject(reason);
  });

  it('ends with its first error part', async () => {
    const error = Object.assign(new Error('Overloaded'), { statusCode: 529 });
    const parts = await readModel(
      sdkModel('v3', [
        ...sdkText.slice(0, 2),
        { type: 'error', error },
        ...sdkText,
        sdkFinish('error'),
      ]),
    );
    expect(parts.map((part) => part.type)).toEqual(['block-start', 'text-delta', 'finish']);
    expect(reasonOf(parts)).toMatchObject({ failure: { code: 'SERVER', status: 529 } });
  });

  it('fails typed when it cannot be asked', async () => {
    const failing = {
      ...sdkModel('v3', []),
      doStream: () =>
        Promise.reject(Object.assign(new Error('No key.'), { name: 'AI_LoadAPIKeyError' })),
    };
    expect(reasonOf(await readModel(failing))).toEqual({
      kind: 'error',
      failure: { code: 'MISSING_CREDENTIAL', message: 'No key.' },
    });
  });

  it('is let go of on abort, although it ignores its signal', async () => {
    const controller = new AbortController();
    const asked = gate();
    const cancelled = gate();
    const deaf = {
      ...sdkModel('v3', []),
      doStream: async () => ({
        stream: new ReadableStream(
          { pull: () => asked.wait(), cancel: () => void cancelled.wait() },
          // Pulls only for a read that waits.
          { highWaterMark: 0 },
        ),
      }),
    };
    const parts = readModel(deaf, {}, controller.signal);
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
      ...sdkModel('v3', []),
      doStream: async () => {
        await held.wait();
        return { stream: new ReadableStream({ cancel: () => void cancelled.wait() }) };
      },
    };
    const parts = readModel(slow, {}, controller.signal);
    await held.arrived();
    controller.abort();
    expect(reasonOf(await parts)).toMatchObject({ kind: 'aborted' });
    held.open();
    await cancelled.arrived();
  });
});
