import type { Json } from '../../protocol/json.ts';
import { describe, expect, it } from 'vitest';
import { MessageId, StreamId } from '../../protocol/ids.ts';
import { MAX_FRAME_BYTES } from '../../protocol/to-main.ts';
import type { RpcCall, ToMain, WorkerEvent } from '../../protocol/to-main.ts';
import { decodeFrame } from '../../protocol/validate.ts';
import { DEFAULT_WINDOW } from '../../protocol/window.ts';
import type { WindowSize } from '../../protocol/window.ts';
import { assertCallFits, Link } from '../../workers/link.ts';
import type { LinkListener } from '../../workers/link.ts';
import { linkedPorts } from '../support/linked-ports.ts';
import type { LinkedPorts } from '../support/linked-ports.ts';

interface Arranged {
  readonly link: Link;
  readonly ports: LinkedPorts;
  /** What main got, after delivery. */
  frames(): ToMain[];
  /** What happened below, in order. */
  readonly heard: string[];
  /** Let the macrotask come that `defer` asked for. */
  macrotask(): void;
  ack(taken: number): void;
}

const lists = (count: number): Json => Array.from({ length: count }, () => []);

function arranged(window: WindowSize = DEFAULT_WINDOW): Arranged {
  const ports = linkedPorts('manual');
  const deferred: (() => void)[] = [];
  const heard: string[] = [];
  const received: ToMain[] = [];
  const link = new Link(ports.worker, { window, defer: (run) => deferred.push(run) });
  const listener: LinkListener = {
    wake: () => heard.push('wake'),
    reply: ({ id }) => heard.push(`reply ${id}`),
    parts: ({ stream }) => heard.push(`parts ${stream}`),
    interrupt: (turn) => heard.push(`interrupt ${turn}`),
    stop: () => heard.push('stop'),
    closed: () => heard.push('closed'),
  };
  link.listen(listener);
  ports.main.on('message', (bytes) => received.push(decodeFrame(bytes).frame));
  return {
    link,
    ports,
    heard,
    frames() {
      ports.flush(undefined, 'main');
      return received;
    },
    macrotask() {
      for (const run of deferred.splice(0)) run();
    },
    ack(taken) {
      ports.main.postMessage({ type: 'ack', taken, durable: 0 });
      ports.flush(undefined, 'worker');
    },
  };
}

const stepEnd = (step: number): WorkerEvent => ({ type: 'step/end', data: { turn: 1, step } });
const call = (id: string): RpcCall => ({
  id,
  type: 'APPLY',
  path: ['claim'],
  argumentList: [
    { type: 'RAW', value: 'turn' },
    { type: 'RAW', value: false },
  ],
});
const text = (size: number): WorkerEvent => ({
  type: 'assistant/message',
  data: {
    turn: 1,
    step: 1,
    stream: StreamId('s'),
    parts: 1,
    message: {
      id: MessageId('m'),
      role: 'assistant',
      content: [{ type: 'text', text: 'x'.repeat(size) }],
      source: { kind: 'model', provider: 'p', model: 'm' },
    },
  },
});
const summary = (frames: readonly ToMain[]): string[] =>
  frames.map((frame) =>
    frame.type === 'events' ? `events ${frame.from}+${frame.events.length}` : frame.type,
  );

describe('Link', () => {
  it('sends the events of one macrotask in one frame, numbered on', () => {
    const t = arranged();
    t.link.post(stepEnd(1));
    t.link.post(stepEnd(2));
    expect(t.frames()).toEqual([]);
    t.macrotask();
    t.link.post(stepEnd(3));
    t.macrotask();
    expect(summary(t.frames())).toEqual(['events 0+2', 'events 2+1']);
  });

  it('posts a call at once, behind the events queued before it', () => {
    const t = arranged();
    t.link.post(stepEnd(1));
    t.link.call(call('a'));
    expect(summary(t.frames())).toEqual(['events 0+1', 'call']);
  });

  it('does not post the 257th events frame until main gives credit', () => {
    const t = arranged();
    for (let step = 1; step <= 260; step++) {
      t.link.post(stepEnd(step));
      t.macrotask();
    }
    expect(t.frames()).toHaveLength(256);
    expect(t.link.ready()).toBeInstanceOf(Promise);
    t.ack(1);
    expect(summary(t.frames()).slice(256)).toEqual(['events 256+4']);
  });

  it('does not post beyond the bytes of its window', () => {
    const t = arranged({ frames: 256, bytes: 300_000 });
    for (let index = 0; index < 3; index++) {
      t.link.post(text(200_000));
      t.macrotask();
    }
    expect(summary(t.frames())).toEqual(['events 0+1', 'events 1+1']);
    t.ack(2);
    expect(summary(t.frames())).toEqual(['events 0+1', 'events 1+1', 'events 2+1']);
  });

  it('keeps a call waiting behind events without credit, and others that cost none going', async () => {
    const t = arranged({ frames: 1, bytes: 1_000_000 });
    t.link.post(stepEnd(1));
    t.link.call(call('a'));
    t.link.post(stepEnd(2));
    t.link.call(call('b'));
    t.ports.main.postMessage({ type: 'parts', stream: StreamId('s'), parts: [], bytes: 10 });
    t.ports.flush(undefined, 'worker');
    t.link.takeParts();
    t.macrotask();
    expect(summary(t.frames())).toEqual(['events 0+1', 'call', 'ack']);
    t.ack(1);
    expect(summary(t.frames()).slice(3)).toEqual(['events 1+1', 'call']);
  });

  it('lets go of whoever waits for credit when it comes, and when the port closes', async () => {
    const t = arranged({ frames: 1, bytes: 1_000_000 });
    expect(t.link.ready()).toBeUndefined();
    t.link.post(stepEnd(1));
    t.macrotask();
    const first = t.link.ready();
    t.frames();
    t.ack(1);
    await first;
    t.link.post(stepEnd(2));
    t.macrotask();
    const second = t.link.ready();
    t.ports.close();
    t.ports.flush();
    await second;
    expect(t.heard).toEqual(['closed']);
  });

  it('splits what one macrotask made into frames that main takes', () => {
    const large = Array.from({ length: 12 }, () => text(90_000));
    // Near the bound on memory: 20 000 lists without items, in 21 KB.
    const chunk = { type: 'finish', reason: { kind: 'stop' }, replayState: lists(20_000) } as const;
    const data = { turn: 1, step: 1, stream: StreamId('m'), chunk };
    const wide = Array.from({ length: 5 }, () => ({ type: 'assistant/chunk', data }) as const);
    const many = Array.from({ length: 1_200 }, (_, index) => stepEnd(index + 1));
    for (const [events, least] of [
      [large, 5],
      [wide, 5],
      [many, 3],
    ] as const) {
      const t = arranged({ frames: 256, bytes: 4_000_000 });
      for (const event of events) t.link.post(event);
      t.macrotask();
      const frames = t.frames();
      expect(frames.length).toBeGreaterThanOrEqual(least);
      const told = frames.flatMap((frame) => (frame.type === 'events' ? frame.events : []));
      expect(told).toHaveLength(events.length);
    }
  });

  it('does not let a flood of events within one macrotask grow its queue', () => {
    const t = arranged();
    for (let index = 0; index < 100; index++) t.link.post(text(90_000));
    expect(t.frames().length).toBeGreaterThan(5);
    expect(t.link.ready()).toBeInstanceOf(Promise);
  });

  it('refuses an event that no frame can carry, and goes on with the next', () => {
    const t = arranged();
    expect(() => t.link.post(text(MAX_FRAME_BYTES))).toThrow(
      expect.objectContaining({ code: 'FRAME_TOO_LARGE' }),
    );
    t.link.post(text(MAX_FRAME_BYTES - 1_000));
    t.link.post(stepEnd(1));
    t.macrotask();
    expect(summary(t.frames())).toEqual(['events 0+1', 'events 1+1']);
  });

  it('refuses an event that main could not read', () => {
    const t = arranged();
    const event = text(1) as unknown as { data: { message: { source: unknown } } };
    event.data.message.source = { replayState: new Date(0) };
    expect(() => t.link.post(event as unknown as WorkerEvent)).toThrow(
      expect.objectContaining({ code: 'FRAME_NOT_DATA' }),
    );
  });

  it('gives back the credit of parts once they are taken', () => {
    const t = arranged();
    for (let index = 0; index < 3; index++) {
      t.ports.main.postMessage({ type: 'parts', stream: StreamId('s'), parts: [], bytes: 10 });
    }
    t.ports.flush(undefined, 'worker');
    t.macrotask();
    expect(t.frames()).toEqual([]);
    t.link.takeParts();
    t.link.takeParts();
    t.macrotask();
    expect(t.frames()).toEqual([{ type: 'ack', taken: 2 }]);
  });

  it('hands on what comes down, in order', () => {
    const t = arranged();
    const { main } = t.ports;
    main.postMessage({ type: 'wake' });
    main.postMessage({ type: 'reply', message: { id: 'a', type: 'RAW', value: 1 } });
    main.postMessage({ type: 'interrupt', turn: 4 });
    main.postMessage({ type: 'stop', deadlineMs: 10 });
    t.ports.flush();
    expect(t.heard).toEqual(['wake', 'reply a', 'interrupt 4', 'stop']);
  });

  it('says goodbye behind everything queued, and then nothing more', () => {
    const t = arranged({ frames: 1, bytes: 1_000_000 });
    t.link.post(stepEnd(1));
    t.macrotask();
    t.link.post(stepEnd(2));
    t.link.stopped('stopped');
    expect(summary(t.frames())).toEqual(['events 0+1']);
    t.ack(1);
    t.link.post(stepEnd(3));
    t.link.call(call('late'));
    t.link.fault(new Error('late'), undefined);
    t.macrotask();
    expect(summary(t.frames())).toEqual(['events 0+1', 'events 1+1', 'stopped']);
    expect(t.ports.isClosed).toBe(true);
  });

  it('faults at once with a short record, even of an error that is hostile', () => {
    const t = arranged({ frames: 1, bytes: 1_000_000 });
    t.link.post(stepEnd(1));
    t.macrotask();
    t.link.post(stepEnd(2));
    const hostile = Object.defineProperties(new Error('\u{ffff}'.repeat(100_000)), {
      stack: { get: () => '\u{ffff}'.repeat(1_000_000) },
      cause: {
        get() {
          throw new Error('no');
        },
      },
    });
    let bytes = 0;
    t.ports.main.on('message', (frame) => (bytes = (frame as Uint8Array).byteLength));
    t.link.fault(hostile, 3);
    expect(summary(t.frames())).toEqual(['events 0+1', 'fault']);
    expect(t.frames()[1]).toMatchObject({ turn: 3, error: { name: 'Error', code: 'UNKNOWN' } });
    expect(bytes).toBeLessThanOrEqual(8 * 1024);
    expect(t.ports.isClosed).toBe(true);
  });
});

describe('assertCallFits', () => {
  it('refuses a call that main would take for a violation', () => {
    const refused = (value: unknown): unknown => {
      try {
        assertCallFits('finishTool', ['c', value]);
      } catch (error) {
        return (error as { code?: unknown }).code;
      }
      return 'fits';
    };
    let deep: unknown = 1;
    for (let level = 0; level < 70; level++) deep = { deep };
    expect(refused({ ok: true })).toBe('fits');
    expect(refused('x'.repeat(MAX_FRAME_BYTES))).toBe('FRAME_TOO_LARGE');
    expect(refused(deep)).toBe('FRAME_NOT_DATA');
    expect(refused(Array.from({ length: 300_000 }, () => 0))).toBe('FRAME_NOT_DATA');
    const empty = Array.from({ length: 50_000 }, () => ({}));
    expect(() => assertCallFits('finishTool', [empty])).toThrow(/: give less, or a text/);
    expect(refused(Symbol('s'))).toBe('FRAME_NOT_DATA');
    expect(refused(Number.NaN)).toBe('FRAME_NOT_DATA');
  });
});
