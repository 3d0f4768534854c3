import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { CancelFlag } from '../../protocol/cancel-flag.ts';
import { WorkerError } from '../../protocol/errors.ts';
import type { HostServices } from '../../protocol/host-services.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import type { ToWorker } from '../../protocol/to-worker.ts';
import { DEFAULT_WINDOW } from '../../protocol/window.ts';
import { Residency } from '../../src/worker-host/residency.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { FakeThread } from './fake-thread.ts';

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const stepEnd: WorkerEvent = { type: 'step/end', data: { turn: 1, step: 1 } };

function resident() {
  const thread = new FakeThread();
  const clock = new ManualClock();
  const events: WorkerEvent[] = [];
  const frames: ToWorker[] = [];
  const turn = { isOpen: false };
  thread.ports.worker.on('message', (frame) => frames.push(frame as ToWorker));
  const unasked = (): never => {
    throw new Error('Nobody calls.');
  };
  const residency = new Residency({
    thread,
    init: {
      sessionId: SessionId('s'),
      depth: 0,
      toolModules: [],
      window: DEFAULT_WINDOW,
      toolConcurrency: 1,
    },
    clock,
    startMs: 1_000,
    stopGraceMs: 500,
    claimMs: 5_000,
    isInTurn: () => turn.isOpen,
    keepsState: false,
    services: (): HostServices => ({
      claim: unasked,
      callTool: unasked,
      finishTool: unasked,
      openModel: unasked,
    }),
    durable: () => 0,
    received: () => {},
    event: (event) => events.push(event),
  });
  const post = async (frame: object): Promise<void> => {
    thread.ports.worker.postMessage(pack(frame));
    thread.ports.flush();
    await settled();
  };
  return { thread, clock, residency, events, frames, post, turn };
}

describe('a residency that begins', () => {
  it('is ready with the tools of its modules', async () => {
    const { residency, post, clock } = resident();
    const ready = residency.ready();
    const tools = [{ name: 'a', description: 'b', parameters: { type: 'object' } }];
    await post({ type: 'ready', tools });
    expect(await ready).toEqual(tools);
    expect(clock.pending).toBe(0);
  });

  it('ends its thread when its modules are not loaded in time', async () => {
    const { residency, thread, clock } = resident();
    const ready = residency.ready();
    const failed = ready.catch((error: unknown) => error);
    await clock.advance(999);
    expect(thread.killReason).toBeUndefined();
    await clock.advance(1);
    thread.goes();
    expect(await failed).toMatchObject({ code: 'WORKER_START_TIMEOUT' });
  });

  it('fails as a start with what its thread said before it ended', async () => {
    const { residency, thread, post } = resident();
    const ready = residency.ready();
    const failed = ready.catch((error: unknown) => error);
    await post({
      type: 'fault',
      error: { name: 'WorkerError', code: 'WORKER_START_FAILED', message: 'Cannot use module x.' },
    });
    expect(thread.asked).toContain('fault');
    thread.goes(new WorkerError('WORKER_CRASHED', 'The thread crashed: …'));
    expect(await failed).toMatchObject({
      code: 'WORKER_START_FAILED',
      message: 'Cannot use module x.',
    });
  });

  it('is gone before its start rejects, when that is aborted, and may load to the end', async () => {
    const { residency, thread, clock } = resident();
    const controller = new AbortController();
    const reason = new Error('Changed my mind.');
    let isOver = false;
    const failed = residency
      .ready(controller.signal)
      .finally(() => (isOver = true))
      .catch((error: unknown) => error);
    controller.abort(reason);
    await settled();
    expect([thread.killReason, isOver]).toEqual([undefined, false]);
    await clock.advance(500);
    expect([thread.killReason?.code, isOver]).toEqual(['WORKER_UNRESPONSIVE', false]);
    thread.goes();
    expect(await failed).toBe(reason);
  });
});

describe('a residency that ends', () => {
  it('asks politely, and ends its thread by force after the grace', async () => {
    const { residency, thread, clock, frames } = resident();
    const ended = residency.stop(500, 'disposed');
    expect(residency.takesTurns).toBe(false);
    expect(residency.isLive).toBe(true);
    await settled();
    expect(frames).toEqual([{ type: 'stop', deadlineMs: 500 }]);
    const flag = new CancelFlag(residency.cancelFlag.buffer);
    expect([flag.isRaised(1), flag.isRaised(1_000_000)]).toEqual([true, true]);
    await clock.advance(499);
    expect(thread.killReason).toBeUndefined();
    await clock.advance(1);
    expect(thread.killReason?.code).toBe('WORKER_UNRESPONSIVE');
    expect(residency.isLive).toBe(false);
    thread.goes();
    expect((await ended).error?.code).toBe('WORKER_UNRESPONSIVE');
  });

  it('ends politely when its thread stops in time, and leaves no timer', async () => {
    const { residency, thread, clock, post } = resident();
    const ended = residency.stop(500, 'disposed');
    void residency.stop(500, 'disposed');
    expect(clock.pending).toBe(1);
    await post({ type: 'stopped', reason: 'asked' });
    expect(thread.asked).toEqual(['assign', 'stopped']);
    thread.goes(undefined);
    expect((await ended).error).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it('keeps what the thread had said, and hears nothing of a successor', async () => {
    const { residency, thread, events, post } = resident();
    residency.kill(new WorkerError('WORKER_UNRESPONSIVE', 'Enough.'));
    await post({ type: 'events', from: 0, events: [stepEnd] });
    thread.goes(undefined, [pack({ type: 'events', from: 1, events: [stepEnd] })]);
    await residency.ended;
    await post({ type: 'events', from: 2, events: [stepEnd] });
    expect(events).toEqual([stepEnd, stepEnd]);
  });

  it.each([
    ['is ready twice', { type: 'ready', tools: [] }],
    ['says it stopped when it was not asked to', { type: 'stopped', reason: 'because' }],
  ])('ends its thread when that %s', async (_, frame) => {
    const { thread, post } = resident();
    await post({ type: 'ready', tools: [] });
    await post(frame);
    expect(thread.killReason?.code).toBe('PROTOCOL_VIOLATION');
    expect(thread.asked).not.toContain('stopped');
  });
});

it('tells a turn to stop by the cell at once, and by a frame', async () => {
  const { residency, frames } = resident();
  residency.interrupt(3, 'user');
  const flag = new CancelFlag(residency.cancelFlag.buffer);
  expect([flag.isRaised(3), flag.isRaised(4), flag.causeOf(3)]).toEqual([true, false, 'user']);
  await settled();
  expect(frames).toEqual([{ type: 'interrupt', turn: 3 }]);
});

describe('a wake', () => {
  const wakes = async ({ thread, frames }: ReturnType<typeof resident>): Promise<number> => {
    thread.ports.flush();
    await settled();
    return frames.filter(({ type }) => type === 'wake').length;
  };

  it('is posted once while its loop has not asked, however many come', async () => {
    const made = resident();
    for (let i = 0; i < 1_000; i++) made.residency.wake();
    expect(await wakes(made)).toBe(1);
  });

  it('is posted again once a claim is answered, and not while that is waited for', async () => {
    const made = resident();
    const { residency } = made;
    residency.wake();
    const answered = residency.claiming();
    residency.wake();
    expect(await wakes(made)).toBe(1);
    answered();
    residency.wake();
    expect(await wakes(made)).toBe(2);
  });

  it('is not needed when a turn has just ended: its loop asks by itself', async () => {
    const made = resident();
    made.residency.turnEnded();
    made.residency.wake();
    expect(await wakes(made)).toBe(0);
  });
});

describe('a loop that was woken', () => {
  it.each([
    ['after a wake', (made: ReturnType<typeof resident>) => made.residency.wake()],
    ['after the end of a turn', (made: ReturnType<typeof resident>) => made.residency.turnEnded()],
  ])('and asks for nothing is ended, %s', async (_, begins) => {
    const made = resident();
    const { residency, thread, clock } = made;
    begins(made);
    await clock.advance(5_000);
    // Its claim may be there, and unread: the whole process may have been stopped.
    expect(thread.killReason).toBeUndefined();
    await clock.advance(1_000);
    expect(thread.killReason).toMatchObject({ code: 'WORKER_UNRESPONSIVE' });
    thread.goes();
    await residency.ended;
    expect(clock.pending).toBe(0);
  });

  it('has as much time again for every claim', async () => {
    const { residency, thread, clock } = resident();
    residency.wake();
    await clock.advance(5_500);
    const answered = residency.claiming();
    answered();
    expect(clock.pending).toBe(0);
    residency.wake();
    await clock.advance(5_500);
    expect(thread.killReason).toBeUndefined();
  });

  it('in the middle of a turn asks when that is over, and has its time from then on', async () => {
    const { residency, thread, clock, turn } = resident();
    turn.isOpen = true;
    residency.wake();
    await clock.advance(600_000);
    expect(thread.killReason).toBeUndefined();
    turn.isOpen = false;
    residency.turnEnded();
    await clock.advance(5_500);
    expect(thread.killReason).toBeUndefined();
    await clock.advance(500);
    expect(thread.killReason).toMatchObject({ code: 'WORKER_UNRESPONSIVE' });
  });

  it('needs not ask once it is to stop', async () => {
    const { residency, thread, clock } = resident();
    residency.wake();
    const ended = residency.stop(60_000, 'disposed');
    residency.turnEnded();
    await clock.advance(30_000);
    expect(thread.killReason).toBeUndefined();
    thread.goes(undefined);
    await ended;
    expect(clock.pending).toBe(0);
  });
});
