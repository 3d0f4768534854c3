import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import type { Outcome } from '../../protocol/error-record.ts';
import { ProtocolError } from '../../protocol/errors.ts';
import type { ClaimReply } from '../../protocol/host-services.ts';
import type { Port } from '../../protocol/port.ts';
import { deferred } from '../../src/base/deferred.ts';
import { linkedPorts } from '../support/linked-ports.ts';
import { stream, stepEnd, callOf, claim, idle, settled, counting, linked } from './linked.ts';

describe('what a thread says', () => {
  it('is handed on in order', () => {
    const state = linked();
    state.post(
      { type: 'ready', tools: [] },
      { type: 'events', from: 0, events: [stepEnd(1), stepEnd(2)] },
      { type: 'events', from: 2, events: [stepEnd(3)] },
      { type: 'fault', error: { name: 'Error', code: 'E', message: 'gone' } },
    );
    expect(state.told).toEqual([
      ['ready', []],
      stepEnd(1),
      stepEnd(2),
      stepEnd(3),
      ['fault', 'gone'],
    ]);
    expect(state.violations).toEqual([]);
  });

  it.each<[string, object]>([
    ['stopped', { type: 'stopped', reason: 'asked' }],
    ['fault', { type: 'fault', error: { name: 'Error', code: 'E', message: 'gone' } }],
  ])('is a violation when anything follows its %s', (_, end) => {
    const state = linked();
    state.post(end, end);
    expect(state.told).toHaveLength(1);
    expect(state.violations).toEqual([expect.any(ProtocolError)]);
  });

  it('is a flood when frames without credit come in a loop, and fine when they take their time', async () => {
    const ack = { type: 'ack', taken: 0 };
    const state = linked();
    for (let round = 0; round < 3; round++) {
      state.post(...Array.from({ length: 2_000 }, () => ack));
      await state.clock.advance(100);
    }
    expect(state.violations).toEqual([]);
    state.post(...Array.from({ length: 2_001 }, () => ack));
    expect(state.violations).toMatchObject([{ code: 'WORKER_FLOODED' }]);
  });

  it('is not looked at any more after a violation, however much the port still holds', () => {
    const state = linked();
    let looked = 0;
    function* held(): Generator<unknown> {
      for (;;) {
        looked++;
        yield pack({ type: 'ack', taken: 0 });
      }
    }
    state.link.drain(held());
    expect(looked).toBe(2_001);
    expect(state.violations).toMatchObject([{ code: 'WORKER_FLOODED' }]);
    state.link.drain(held());
    expect(looked).toBe(2_001);
  });

  it('is acknowledged once per turn of the loop, with what is durable', async () => {
    const state = linked();
    state.post(
      { type: 'events', from: 0, events: [stepEnd(1)] },
      { type: 'events', from: 1, events: [stepEnd(2)] },
    );
    expect(state.received()).toEqual([]);
    await settled();
    expect(state.received()).toEqual([{ type: 'ack', taken: 2, durable: 42 }]);
  });

  it.each<[string, unknown]>([
    ['an object instead of bytes', { type: 'stopped', reason: 'x' }],
    ['text', 'stopped'],
    ['nothing', undefined],
    ['bytes it can still change', new Uint8Array(new SharedArrayBuffer(8))],
    ['more than a frame may have', new Uint8Array(1024 * 1024 + 1)],
    ['noise', Uint8Array.from([0xc1, 1, 2])],
    ['half a frame', pack({ type: 'ready', tools: [] }).slice(0, 5)],
    ['a frame that is no object', pack(7)],
    ['a frame without a type', pack({ tools: [] })],
    ['a frame of no known type', pack({ type: 'constructor' })],
    ['a frame with more than belongs in it', pack({ type: 'stopped', reason: 'x', more: 1 })],
    ['a control frame that is too large', pack({ type: 'stopped', reason: 'x'.repeat(70_000) })],
    [
      'an event of no known type',
      pack({ type: 'events', from: 0, events: [{ type: 'x', data: {} }] }),
    ],
    ['events out of order', pack({ type: 'events', from: 3, events: [stepEnd(1)] })],
    ['an up frame', pack({ type: 'up', protocol: 1, heapLimitBytes: 1, node: 'v' })],
    ['an ack of parts that were not sent', pack({ type: 'ack', taken: 1 })],
    ['a call that reads', pack({ type: 'call', message: { ...claim, type: 'GET' } })],
    ['a call that sets', pack({ type: 'call', message: { ...claim, type: 'SET', value: 1 } })],
    ['a call that constructs', pack({ type: 'call', message: { ...claim, type: 'CONSTRUCT' } })],
    ['a call for an endpoint', pack({ type: 'call', message: { ...claim, type: 'ENDPOINT' } })],
    ['a call that releases', pack({ type: 'call', message: { ...claim, type: 'RELEASE' } })],
    [
      'a call beyond a service',
      pack({ type: 'call', message: { ...claim, path: ['claim', 'call'] } }),
    ],
    [
      'a call of what is inherited',
      pack({ type: 'call', message: { ...claim, path: ['__proto__'] } }),
    ],
    ['a call of everything', pack({ type: 'call', message: { ...claim, path: [] } })],
    [
      'an argument that is no data',
      pack({
        type: 'call',
        message: { ...claim, argumentList: [{ type: 'HANDLER', name: 'proxy', value: 1 }] },
      }),
    ],
    ['a call with the wrong arguments', pack({ type: 'call', message: callOf('claim', 'day') })],
  ])('is a violation when it is %s, and nothing is read after it', async (_, posted) => {
    const state = linked();
    state.ports.worker.postMessage(posted);
    state.post({ type: 'ready', tools: [] });
    expect(state.violations).toMatchObject([{ code: 'PROTOCOL_VIOLATION' }]);
    await settled();
    expect(state.told).toEqual([]);
    state.link.wake();
    expect(state.received()).toEqual([]);
  });

  it.each([
    ['refuses it', new ProtocolError('PROTOCOL_VIOLATION', 'Not now.')],
    ['cannot take it', new Error('Not now.')],
  ])('is a violation when whoever is told %s', (_, error) => {
    const state = linked({
      event() {
        throw error;
      },
    });
    state.post({ type: 'events', from: 0, events: [stepEnd(1)] });
    expect(state.violations).toMatchObject([
      { code: 'PROTOCOL_VIOLATION', message: expect.stringContaining('Not now.') },
    ]);
  });

  it('is a violation when it is more than its credit', async () => {
    const state = linked({ window: { frames: 2, bytes: 1_000_000 } });
    const frame = (from: number): object => ({ type: 'events', from, events: [stepEnd(1)] });
    state.post(frame(0), frame(1));
    await settled();
    state.post(frame(2), frame(3));
    expect(state.violations).toEqual([]);
    state.post(frame(4));
    expect(state.violations).toMatchObject([{ message: expect.stringContaining('credit') }]);
    expect(state.told).toHaveLength(4);
  });

  it('is a violation when it cannot even be read', () => {
    const ports = linkedPorts('manual');
    let cannotRead: ((error: Error) => void) | undefined;
    const port: Port = {
      ...ports.main,
      on(event: string, listener: (value: never) => void) {
        if (event === 'messageerror') cannotRead = listener as (error: Error) => void;
        else ports.main.on(event as 'message', listener as (value: unknown) => void);
      },
    };
    const state = linked({ port });
    cannotRead?.(new RangeError('It nests too deeply.'));
    expect(state.violations).toMatchObject([{ code: 'PROTOCOL_VIOLATION' }]);
  });
});

describe('a call', () => {
  it('is answered by its own id', async () => {
    const state = linked({ services: { claim: () => Promise.resolve(idle) } });
    state.post({ type: 'call', message: claim });
    await settled();
    expect(state.received()).toMatchObject([
      { type: 'reply', message: { id: 'c1', type: 'RAW', value: idle } },
    ]);
  });

  it('of more than a thread can have open is a violation', () => {
    const state = linked({ services: { claim: () => new Promise(() => {}) } });
    for (let i = 0; i < 128; i++) state.post({ type: 'call', message: { ...claim, id: `c${i}` } });
    expect(state.violations).toEqual([]);
    state.post({ type: 'call', message: claim });
    expect(state.violations).toHaveLength(1);
  });

  it('that is answered makes room for another', async () => {
    const state = linked({ services: { claim: () => Promise.resolve(idle) } });
    for (let i = 0; i < 3; i++) {
      for (let j = 0; j < 100; j++) state.post({ type: 'call', message: claim });
      await settled();
    }
    expect(state.violations).toEqual([]);
  });

  it('is not served once the thread is being ended, while events still count', () => {
    const asked: string[] = [];
    const state = linked({ services: counting(asked) });
    state.link.refuseCalls();
    state.post({ type: 'call', message: claim }, { type: 'events', from: 0, events: [stepEnd(1)] });
    expect(state.told).toEqual([stepEnd(1)]);
    expect(asked).toEqual([]);
  });

  it('is not served when it was found in the port of a thread that is gone', () => {
    const asked: string[] = [];
    const state = linked({ services: counting(asked) });
    state.link.drain([
      pack({ type: 'events', from: 0, events: [stepEnd(1)] }),
      pack({ type: 'call', message: claim }),
      pack({ type: 'stopped', reason: 'asked' }),
    ]);
    expect(state.told).toEqual([stepEnd(1), 'stopped']);
    expect(asked).toEqual([]);
    state.post({ type: 'events', from: 1, events: [stepEnd(2)] });
    expect(state.told).toHaveLength(2);
  });

  it('that is answered late reaches nobody', async () => {
    const answer = deferred<Outcome<ClaimReply>>();
    const state = linked({ services: { claim: () => answer.promise } });
    state.post({ type: 'call', message: claim });
    state.link.close();
    answer.resolve(idle);
    await settled();
    expect(state.received()).toEqual([]);
  });
});

describe('parts of a stream', () => {
  const part = { type: 'text-delta', index: 0, text: 'x' } as const;

  it('are sent while there is credit, and wait for more', async () => {
    const state = linked({ window: { frames: 2, bytes: 1_000 } });
    const { link } = state;
    expect(link.credit()).toBeUndefined();
    link.sendParts(stream, [part], 10);
    expect(link.credit()).toBeUndefined();
    link.sendParts(stream, [part], 10);
    const credit = link.credit();
    let isGiven = false;
    void credit?.then(() => (isGiven = true));
    await settled();
    expect(isGiven).toBe(false);
    state.post({ type: 'ack', taken: 1 });
    await credit;
    expect(link.credit()).toBeUndefined();
    expect(state.received()).toHaveLength(2);
  });

  it('wait for nothing once the link is closed', async () => {
    const state = linked({ window: { frames: 1, bytes: 1_000 } });
    state.link.sendParts(stream, [part], 10);
    const credit = state.link.credit();
    state.link.close();
    await credit;
    expect(state.link.credit()).toBeUndefined();
    state.link.sendParts(stream, [part], 10);
    expect(state.received()).toHaveLength(1);
  });
});
