import type { ModelAdapter, ModelPart } from '../../protocol/model.ts';
import { describe, expect, it } from 'vitest';
import { streamModel } from '../../protocol/model-stream.ts';
import { gate } from '../../src/base/gate.ts';
import { bareRequest, readStream, yields } from '../support/adapters.ts';
import { call, ends, endsWith, says, start, stop, textBlock } from './loose-parts.ts';

describe('streamModel', () => {
  it('passes a stream on as it is', async () => {
    const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 3 };
    const given = [
      start(0, 'reasoning'),
      { type: 'reasoning-delta', index: 0, text: 'Hm' },
      ends(0, { type: 'reasoning', text: 'Hm' }),
      start(1, 'tool-call'),
      { type: 'tool-call-delta', index: 1, id: 'c1', name: 'add', argumentsDelta: '{}' },
      ends(1, call),
      { type: 'usage', usage },
      { type: 'finish', reason: { kind: 'tool-calls' }, replayState: { a: [1] } },
    ];
    expect(await readStream(yields(...given))).toEqual(given);
  });

  it('gives the adapter the very request and signal', async () => {
    const seen: unknown[] = [];
    const { signal } = new AbortController();
    const adapter: ModelAdapter = {
      stream(...given) {
        seen.push(...given);
        return yields(stop).stream(...given);
      },
    };
    await readStream(adapter, signal);
    expect(seen).toEqual([bareRequest, { signal }]);
    expect(seen[0]).toBe(bareRequest);
  });

  describe('when there is no answer', () => {
    it('fails with NO_ADAPTER and the name that was asked for', async () => {
      const [part] = await readStream(undefined);
      expect(part).toEqual({
        type: 'finish',
        reason: {
          kind: 'error',
          failure: { code: 'NO_ADAPTER', message: 'No model provider is registered as "p".' },
        },
      });
    });

    it.each<[string, ModelAdapter]>([
      [
        'throws at construction',
        {
          stream: () => {
            throw new Error('broken');
          },
        },
      ],
      [
        'throws at iteration',
        {
          async *stream() {
            throw new Error('broken');
          },
        },
      ],
      [
        'throws no error',
        {
          async *stream() {
            throw null;
          },
        },
      ],
      [
        'throws an error whose parts throw',
        {
          async *stream() {
            throw new Proxy(
              {},
              {
                get() {
                  throw new Error('no');
                },
              },
            );
          },
        },
      ],
      ['returns no stream', { stream: () => undefined as never }],
      ['returns a promise', { stream: (async () => []) as never }],
      [
        'returns a broken iterator',
        {
          stream: () => ({ [Symbol.asyncIterator]: () => ({ next: () => 7 as never }) }),
        },
      ],
    ])('fails once with an adapter that %s', async (_name, adapter) => {
      const parts = await readStream(adapter);
      expect(parts).toHaveLength(1);
      expect(parts[0]).toMatchObject({ type: 'finish', reason: { kind: 'error' } });
    });

    it('fails with EMPTY_RESPONSE when the stream ends before it began', async () => {
      expect(await readStream(yields())).toEqual(endsWith('EMPTY_RESPONSE'));
    });
  });

  describe('an end without a finish', () => {
    it('counts as stop when something was said, and closes what is open', async () => {
      expect(await readStream(yields(start(0, 'text'), says(0, 'Hi')))).toEqual([
        ...textBlock,
        stop,
      ]);
    });

    it('counts as tool calls when they are complete', async () => {
      const parts = await readStream(yields(start(0, 'tool-call'), ends(0, call)));
      expect(parts.at(-1)).toEqual({ type: 'finish', reason: { kind: 'tool-calls' } });
    });

    it('fails in the middle of a tool call: half a call must not run', async () => {
      const delta = {
        type: 'tool-call-delta',
        index: 0,
        id: 'c',
        name: 'rm',
        argumentsDelta: '{}',
      };
      const parts = await readStream(yields(start(0, 'tool-call'), delta));
      expect(parts.slice(-1)).toEqual(endsWith('TRANSPORT'));
    });
  });

  it('keeps what was said before a throw, and ends with its failure', async () => {
    const failure = { code: 'RATE_LIMIT', message: 'Slow down.', providerRetryAfterMs: 5 };
    const parts = await readStream({
      async *stream() {
        yield* textBlock as ModelPart[];
        throw Object.assign(new Error('Slow down.'), { code: 'RATE_LIMIT', failure });
      },
    });
    expect(parts).toEqual([...textBlock, { type: 'finish', reason: { kind: 'error', failure } }]);
  });

  it('ends at the first finish, whatever follows', async () => {
    expect(await readStream(yields(stop, ...textBlock, stop))).toEqual([stop]);
  });

  it('says what an adapter calls aborted is an error when nobody aborted', async () => {
    const failure = { code: 'ABORTED', message: 'gone' };
    const parts = await readStream(
      yields({ type: 'finish', reason: { kind: 'aborted', failure } }),
    );
    expect(parts).toEqual([{ type: 'finish', reason: { kind: 'error', failure } }]);
  });

  describe('abort', () => {
    const aborted = {
      type: 'finish',
      reason: { kind: 'aborted', failure: expect.objectContaining({ code: 'ABORTED' }) },
    };

    it('does not ask an adapter whose request is aborted already', async () => {
      let asked = 0;
      const adapter: ModelAdapter = {
        stream: () => (asked++, yields(stop).stream(bareRequest, { signal: AbortSignal.abort() })),
      };
      expect(await readStream(adapter, AbortSignal.abort())).toEqual([aborted]);
      expect(asked).toBe(0);
    });

    it('ends at once although the adapter hangs in next and its return throws', async () => {
      const controller = new AbortController();
      const hung = gate();
      let returned = 0;
      const adapter: ModelAdapter = {
        stream: () => ({
          [Symbol.asyncIterator]: () => ({
            next: () => hung.wait().then(() => ({ done: true as const, value: undefined })),
            return: () => {
              returned++;
              throw new Error('no way back');
            },
          }),
        }),
      };
      const parts = readStream(adapter, controller.signal);
      await hung.arrived();
      controller.abort();
      expect(await parts).toEqual([aborted]);
      expect(returned).toBe(1);
    });

    it('is aborted whatever the adapter throws for it', async () => {
      const controller = new AbortController();
      const held = gate();
      const parts = readStream(
        {
          async *stream() {
            await held.wait();
            throw new Error('Failed to process successful response');
          },
        },
        controller.signal,
      );
      await held.arrived();
      held.open();
      controller.abort(new Error('a reason of its own'));
      expect(await parts).toEqual([aborted]);
    });

    it('passes nothing on after an abort in the middle of a part', async () => {
      const controller = new AbortController();
      const seen: ModelPart[] = [];
      const adapter = yields(...textBlock, stop);
      for await (const part of streamModel(adapter, bareRequest, controller.signal)) {
        seen.push(part);
        if (part.type === 'block-start') controller.abort();
      }
      expect(seen).toEqual([start(0, 'text'), aborted]);
    });

    it('ends once although several parts of one mended end were left', async () => {
      const controller = new AbortController();
      const adapter = yields(start(0, 'text'), start(1, 'text'), stop);
      const seen: ModelPart[] = [];
      for await (const part of streamModel(adapter, bareRequest, controller.signal)) {
        seen.push(part);
        if (part.type === 'block-end') controller.abort();
      }
      expect(seen.slice(2)).toEqual([ends(0, { type: 'text', text: '' }), aborted]);
    });

    it('passes nothing on after an abort between the parts of one mended end', async () => {
      const controller = new AbortController();
      const seen: ModelPart[] = [];
      for await (const part of streamModel(
        yields(says(0, 'Hi'), stop),
        bareRequest,
        controller.signal,
      )) {
        seen.push(part);
        if (part.type === 'block-end') controller.abort();
      }
      expect(seen).toEqual([...textBlock, aborted]);
    });
  });

  describe('a consumer that breaks off', () => {
    it('waits for the clean-up of the adapter', async () => {
      const cleanUp = gate();
      let isClean = false;
      const adapter: ModelAdapter = {
        async *stream() {
          try {
            yield* textBlock as ModelPart[];
          } finally {
            await cleanUp.wait();
            isClean = true;
          }
        },
      };
      const stream = streamModel(adapter, bareRequest, new AbortController().signal);
      await stream.next();
      let isOver = false;
      const broken = stream.return().then(() => (isOver = true));
      await cleanUp.arrived();
      await new Promise((resolve) => setImmediate(resolve));
      expect([isOver, isClean]).toEqual([false, false]);
      cleanUp.open();
      await broken;
      expect(isClean).toBe(true);
    });

    it('is not held by a clean-up that hangs, once the request is aborted', async () => {
      const controller = new AbortController();
      const cleanUp = gate();
      const adapter: ModelAdapter = {
        async *stream() {
          try {
            yield* textBlock as ModelPart[];
          } finally {
            await cleanUp.wait();
          }
        },
      };
      const stream = streamModel(adapter, bareRequest, controller.signal);
      await stream.next();
      const broken = stream.return();
      await cleanUp.arrived();
      controller.abort();
      expect(await broken).toEqual({ done: true, value: undefined });
    });
  });
});

describe('an adapter that', () => {
  it('is an async function gives its stream, or its rejection as the failure', async () => {
    const late = { stream: async () => yields(...textBlock, stop).stream(bareRequest, { signal }) };
    const { signal } = new AbortController();
    expect(await readStream(late as unknown as ModelAdapter)).toEqual([...textBlock, stop]);
    const broken = { stream: () => Promise.reject(new Error('no network')) };
    expect(await readStream(broken as unknown as ModelAdapter)).toEqual(endsWith('UNKNOWN'));
  });

  it('never waits, and shows nothing, leaves the loop its turns', async () => {
    const controller = new AbortController();
    const endless: ModelAdapter = {
      async *stream() {
        for (;;) yield { type: 'text-delta', index: 0, text: '' };
      },
    };
    setImmediate(() => controller.abort());
    const parts: ModelPart[] = [];
    const breathe = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    for await (const part of streamModel(endless, bareRequest, controller.signal, breathe)) {
      parts.push(part);
    }
    expect(parts.at(-1)).toMatchObject({ type: 'finish', reason: { kind: 'aborted' } });
  });
});
