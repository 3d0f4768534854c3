import type { ModelAdapter, ModelPart, ModelRequest } from '../../protocol/model.ts';
import type { HostStreamRequest } from '../../src/models/gateway.ts';
import type { HostRoute } from '../../src/models/routes.ts';
import { describe, expect, it } from 'vitest';
import { StreamId } from '../../protocol/ids.ts';
import { DEFAULT_RETRY_POLICY } from '../../protocol/retry-policy.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { ModelGateway } from '../../src/models/gateway.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { ManualClock } from '../support/manual-clock.ts';

const request: ModelRequest = { provider: 'p', model: 'm', messages: [] };
const routeTo = (adapter: ModelAdapter): HostRoute => ({
  kind: 'host',
  provider: 'p',
  adapter,
  retryPolicy: DEFAULT_RETRY_POLICY,
});

/** One stream of a gateway, and all that came of it. */
function open(adapter: ModelAdapter, more: Partial<HostStreamRequest> = {}) {
  const clock = new ManualClock();
  const gateway = new ModelGateway(clock);
  const logged: ModelPart[] = [];
  const sent: (readonly ModelPart[])[] = [];
  const controller = new AbortController();
  const done = gateway.open({
    route: routeTo(adapter),
    request,
    signal: controller.signal,
    stream: StreamId('s1'),
    onPart: (part) => void logged.push(part),
    send: (parts) => void sent.push(parts),
    ready: () => undefined,
    ...more,
  });
  return { clock, gateway, logged, sent, controller, done };
}

const types = (parts: readonly ModelPart[]): string[] => parts.map((part) => part.type);
const aborted = {
  type: 'finish',
  reason: { kind: 'aborted', failure: expect.objectContaining({ code: 'ABORTED' }) },
};

describe('ModelGateway', () => {
  it('hands on and sends every part once, in order, and the finish last', async () => {
    const stream = open(scriptedModel([{ text: ['Hel', 'lo'] }]));
    await stream.done;
    expect(types(stream.logged)).toEqual([
      'block-start',
      'text-delta',
      'text-delta',
      'block-end',
      'finish',
    ]);
    expect(stream.sent.flat()).toEqual(stream.logged);
    expect(stream.gateway.openStreams).toBe(0);
    expect(stream.clock.pending).toBe(0);
  });

  it('sends the first part at once and those of the next 16 ms together', async () => {
    const held = gate();
    const stream = open(scriptedModel([{ text: ['a', 'b', held] }]));
    await held.arrived();
    expect(stream.sent.map(types)).toEqual([['block-start']]);
    await stream.clock.advance(15);
    expect(stream.sent).toHaveLength(1);
    await stream.clock.advance(1);
    expect(stream.sent.slice(1).map(types)).toEqual([['text-delta', 'text-delta']]);
    held.open();
    await stream.done;
    expect(stream.sent.slice(2).map(types)).toEqual([['block-end', 'finish']]);
  });

  it('sends a part at once again after 16 ms of quiet', async () => {
    const first = gate();
    const second = gate();
    const stream = open(scriptedModel([{ text: [first, 'a', second] }]));
    await first.arrived();
    await stream.clock.advance(16);
    first.open();
    await second.arrived();
    expect(stream.sent.map(types)).toEqual([['block-start'], ['text-delta']]);
    second.open();
    await stream.done;
  });

  it('does not keep more than 4 KB back', async () => {
    const held = gate();
    const stream = open(scriptedModel([{ text: ['x'.repeat(3_000), 'y'.repeat(3_000), held] }]));
    await held.arrived();
    expect(stream.sent.map(types)).toEqual([['block-start'], ['text-delta', 'text-delta']]);
    held.open();
    await stream.done;
  });

  it('counts the bytes of what it sends', async () => {
    let bytes = 0;
    const count = (_parts: readonly ModelPart[], size: number): void => void (bytes += size);
    await open(scriptedModel([{ text: 'é'.repeat(1_000) }]), { send: count }).done;
    expect(bytes).toBeGreaterThan(4_000);
    expect(bytes).toBeLessThan(4_600);
  });

  it('does not read the provider while there is no credit', async () => {
    const asked = gate();
    let read = 0;
    let credit = deferred<void>();
    const failure = { code: 'SERVER', message: 'Down.' };
    const adapter: ModelAdapter = {
      async *stream() {
        for (const index of [0, 1]) {
          read++;
          yield { type: 'block-start', index, blockType: 'text' };
        }
        yield { type: 'finish', reason: { kind: 'error', failure } };
      },
    };
    const stream = open(adapter, {
      ready: () => {
        void asked.wait();
        return credit.promise;
      },
    });
    await asked.arrived(1);
    expect(read).toBe(0);
    const give = (): void => {
      const { resolve } = credit;
      credit = deferred();
      resolve();
    };
    give();
    await asked.arrived(2);
    expect(read).toBe(1);
    give();
    await asked.arrived(3);
    expect(read).toBe(2);
    give();
    await stream.done;
  });

  describe('abort', () => {
    it('sends what was kept back and the finish in the tick of the abort, and nothing after', async () => {
      const held = gate();
      const stream = open(scriptedModel([{ text: ['a', 'kept back', held, 'late'] }]));
      await held.arrived();
      stream.controller.abort(new Error('whatever'));
      expect(types(stream.logged)).toEqual(['block-start', 'text-delta', 'text-delta', 'finish']);
      const part = (type: string): unknown => expect.objectContaining({ type });
      const kept = [part('text-delta'), part('text-delta'), aborted];
      expect(stream.sent).toEqual([[part('block-start')], kept]);
      held.open();
      await stream.done;
      await stream.clock.advance(1_000);
      expect(stream.sent).toHaveLength(2);
      expect(stream.logged).toHaveLength(4);
    });

    it('does so while it waits for credit', async () => {
      const stream = open(scriptedModel(['a']), { ready: () => new Promise(() => {}) });
      stream.controller.abort();
      await stream.done;
      expect(stream.sent).toEqual([[aborted]]);
    });

    it('asks no model when the request is aborted already', async () => {
      const model = scriptedModel(['a']);
      const stream = open(model, { signal: AbortSignal.abort() });
      await stream.done;
      expect(stream.sent).toEqual([[aborted]]);
      expect(model.requests).toEqual([]);
    });

    it('sends the part whose logging aborted it, and nothing after the finish', async () => {
      const controller = new AbortController();
      const stream = open(scriptedModel(['a']), {
        signal: controller.signal,
        onPart: () => controller.abort(),
      });
      await stream.done;
      const told = expect.objectContaining({ type: 'block-start' });
      expect(stream.sent).toEqual([[told, aborted]]);
    });

    it('does not wait for an adapter that ignores it', async () => {
      const hung = gate();
      const adapter: ModelAdapter = {
        async *stream() {
          await hung.wait();
          yield { type: 'block-start', index: 0, blockType: 'text' };
        },
      };
      const stream = open(adapter);
      await hung.arrived();
      stream.controller.abort();
      await stream.done;
      hung.open();
      await stream.clock.advance(100);
      expect(stream.sent).toEqual([[aborted]]);
    });

    it('tells the adapter by its signal', async () => {
      const held = gate();
      let seen: AbortSignal | undefined;
      const model = scriptedModel([
        (_request, { signal }) => {
          seen = signal;
          return { hold: held };
        },
      ]);
      const stream = open(model);
      await held.arrived();
      stream.controller.abort();
      expect(seen?.aborted).toBe(true);
      await stream.done;
    });

    it('ends every stream when the residency ends, and waits until they are quiet', async () => {
      const held = gate();
      const stream = open(scriptedModel([{ hold: held }]));
      await held.arrived();
      await stream.gateway.abortAll('The thread ended.');
      expect(stream.gateway.openStreams).toBe(0);
      expect(stream.sent).toMatchObject([
        [{ reason: { kind: 'aborted', failure: { message: 'The thread ended.' } } }],
      ]);
      await stream.done;
    });
  });

  describe('a failure on our side', () => {
    it('sends one error finish and rejects when a part cannot be logged', async () => {
      const stream = open(scriptedModel([{ text: ['a', 'b'] }]), {
        onPart: (part) => {
          if (part.type === 'text-delta') throw new Error('The step is closed.');
        },
      });
      await expect(stream.done).rejects.toThrow('The step is closed.');
      expect(stream.sent.map(types)).toEqual([['block-start'], ['finish']]);
      expect(stream.gateway.openStreams).toBe(0);
    });

    it('is the same finish for whoever logs it, after all that was logged and not sent', async () => {
      const logged: ModelPart[] = [];
      let bytes = 0;
      const stream = open(scriptedModel([{ text: ['a', 'b'] }]), {
        onPart: (part, size) => {
          if (part.type === 'text-delta' && part.text === 'b') throw new Error('It is full.');
          logged.push(part);
          bytes += size;
        },
        send: (parts, size) => {
          stream.sent.push(parts);
          bytes -= size;
        },
      });
      await expect(stream.done).rejects.toThrow('It is full.');
      expect(types(logged)).toEqual(['block-start', 'text-delta', 'finish']);
      expect(stream.sent.flat()).toEqual(logged);
      expect(bytes).toBe(0);
    });

    it('rejects when the link is gone while it waits for credit', async () => {
      const stream = open(scriptedModel(['a']), {
        ready: () => Promise.reject(new Error('The port is closed.')),
      });
      await expect(stream.done).rejects.toThrow('The port is closed.');
      expect(stream.sent.map(types)).toEqual([['finish']]);
    });

    it('sends the finish all the same when only the finish cannot be logged', async () => {
      const stream = open(scriptedModel(['a']), {
        onPart: (part) => {
          if (part.type === 'finish') throw new Error('The step is closed.');
        },
      });
      await expect(stream.done).rejects.toThrow('The step is closed.');
      expect(types(stream.sent.flat()).filter((type) => type === 'finish')).toHaveLength(1);
    });
  });

  it('gives the event loop its turns while an adapter never waits', async () => {
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    await open(scriptedModel([{ text: Array.from({ length: 5_000 }, () => 'x') }])).done;
    isOver = true;
    expect(turns).toBeGreaterThan(10);
  });
});
