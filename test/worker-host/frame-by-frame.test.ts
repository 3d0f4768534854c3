/**
 * Windows between main and a thread, from both of their sides: what is done comes after no frame
 * of what goes on, after one, after two, and so on to the last.
 */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import type { InProcessThread } from '../support/in-process-threads.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled } from '../support/until.ts';
import { USER, afterMicrotasks, ends, has, shown, waiting } from './agent-words.ts';

/** No interplay here has as many. */
const MANY_FRAMES = 100;

interface ByHand extends TestHarness {
  /** Deliver one frame, and let all come of it that can. False when there is none. */
  next(): Promise<boolean>;
  /** Deliver this many, or as many as there are. */
  frames(count?: number): Promise<void>;
  /** Deliver until this is there. */
  while<T>(promise: PromiseLike<T>): Promise<T>;
}

async function byHand(options: TestHarnessOptions = {}): Promise<ByHand> {
  const threads: InProcessThread[] = [];
  const next = async (): Promise<boolean> => {
    await settled();
    const wasDelivered = threads.some(({ ports }) => (ports?.flush(1) ?? 0) > 0);
    await settled();
    return wasDelivered;
  };
  const during = async <T>(promise: PromiseLike<T>): Promise<T> => {
    const state = { isOver: false };
    const over = (): void => void (state.isOver = true);
    promise.then(over, over);
    while (!state.isOver) await next();
    return promise;
  };
  const rt = await during(
    testHarness({
      ...options,
      threads: {
        ...options.threads,
        delivery: 'manual',
        made: (thread) => void threads.push(thread),
      },
    }),
  );
  return {
    ...rt,
    next,
    async frames(count = MANY_FRAMES) {
      for (let left = count; left > 0 && (await next()); left--);
    },
    while: during,
    [Symbol.asyncDispose]: () => during(rt[Symbol.asyncDispose]()),
  };
}

const parkedBy = (agent: Agent): unknown => (agent as unknown as { parkedBy: unknown }).parkedBy;

/** Play this once for each number of frames, until there were fewer than that. */
async function sweep(
  play: (count: number) => Promise<{ readonly outcome: string; readonly isLast: boolean }>,
): Promise<string[]> {
  const outcomes: string[] = [];
  for (let count = 0; count < MANY_FRAMES; count++) {
    const { outcome, isLast } = await play(count);
    if (outcomes.at(-1) !== outcome) outcomes.push(outcome);
    if (isLast) return outcomes;
  }
  throw new Error('It does not end.');
}

describe('a message and the end of a turn', () => {
  it.each([
    ['steer', ['one turn', 'two turns']],
    ['followup', ['two turns']],
    ['inject', ['one turn', 'waits']],
  ] as const)('meet at every frame, and a %s is told once, in order', async (how, expected) => {
    const outcomes = await sweep(async (count) => {
      await using rt = await byHand({ script: ['A.', 'B.'] });
      rt.root.followup(message('one'));
      // From the frame on that opens the turn.
      while (!has(rt.root.session, 'step/start')) await rt.next();
      await rt.frames(count);
      const isLast = rt.root.status === 'idle';
      rt.root[how](message('two'));
      await rt.frames();
      expect([rt.root.status, rt.stalls()]).toEqual(['idle', []]);
      const turns = ends(rt.root.session);
      const left = waiting(rt.root).flat();
      expect(new Set(turns)).toEqual(new Set(['completed']));
      expect([...(shown(rt.model).at(-1) ?? []), ...left]).toEqual(['one', 'two']);
      const outcome = left.length > 0 ? 'waits' : turns.length === 1 ? 'one turn' : 'two turns';
      return { outcome, isLast };
    });
    expect(outcomes).toEqual(expected);
  });
});

describe('a thread that comes for a message', () => {
  it('may die at every frame, and the message waits, or was told in a turn that failed', async () => {
    const outcomes = await sweep(async (count) => {
      await using rt = await byHand({ script: () => 'Done.' });
      const crash = (): void => rt.threads.of(rt.root.id).crash();
      crash();
      await rt.frames();
      rt.root.followup(message('one'));
      await settled();
      expect(rt.threads.all).toHaveLength(2);
      await rt.frames(count);
      const isLast = rt.root.status === 'idle';
      crash();
      await rt.frames();
      expect([rt.root.status, rt.stalls()]).toEqual(['idle', []]);
      const outcome = ends(rt.root.session)[0] ?? `waits: ${waiting(rt.root).flat().join()}`;
      rt.root.followup(message('two'));
      await rt.frames();
      // Each was told, in order, once.
      expect(shown(rt.model).at(-1)).toEqual(['one', 'two']);
      expect(waiting(rt.root)).toEqual([[], []]);
      return { outcome, isLast };
    });
    expect(outcomes).toEqual(['waits: one', 'error WORKER_CRASHED', 'completed']);
  });

  it('may be told to stop at every frame, and what waits is run by the next message', async () => {
    const outcomes = await sweep(async (count) => {
      await using rt = await byHand({ script: () => 'Done.', limits: { maxThreads: 1 } });
      const other = (await rt.while(rt.harness.agents.create())).agent;
      rt.root.followup(message('one'));
      await settled();
      await rt.frames(count);
      const isLast = rt.root.status === 'idle';
      rt.root.cancel(USER, { keepInbox: true });
      other.followup(message('other'));
      await rt.frames();
      // Whoever waits for the one thread gets it, though the root was not told to run anything.
      expect([rt.root.status, other.status, rt.stalls()]).toEqual(['idle', 'idle', []]);
      expect(ends(other.session)).toEqual(['completed']);
      const outcome = ends(rt.root.session)[0] ?? `waits: ${waiting(rt.root).flat().join()}`;
      rt.root.followup(message('two'));
      await rt.frames();
      expect(waiting(rt.root)).toEqual([[], []]);
      return { outcome, isLast };
    });
    expect(outcomes).toEqual(['waits: one', 'aborted user', 'completed']);
  });
});

describe('a thread that is ready when its agent is disposed', () => {
  it.each(Array.from({ length: 16 }, (_, count) => count))(
    'is ended with it, %i microtasks after it said so',
    async (count) => {
      await using rt = await byHand();
      rt.threads.of(rt.root.id).crash();
      await rt.frames();
      rt.root.followup(message('one'));
      await settled();
      const { ports } = rt.threads.of(rt.root.id);
      expect([rt.threads.all.length, ports?.waiting('main')]).toEqual([2, 1]);
      ports?.flush(1, 'main');
      const disposal = deferred<void>();
      afterMicrotasks(count, () => disposal.resolve(rt.rootHandle.dispose()));
      await rt.while(disposal.promise);
      expect([rt.root.status, ports?.isClosed]).toEqual(['idle', true]);
      expect(rt.root.session.lastTurn).toBe(0);
    },
  );
});

describe('an idle thread that is taken', () => {
  it('may be needed again at every frame, and both agents have their turn', async () => {
    await sweep(async (count) => {
      await using rt = await byHand({ script: () => 'Done.', limits: { maxThreads: 1 } });
      const creation = rt.harness.agents.create();
      await rt.frames(count);
      let isLast = false;
      void creation.then(() => (isLast = true));
      await settled();
      rt.root.followup(message('one'));
      const other = (await rt.while(creation)).agent;
      other.followup(message('two'));
      await rt.frames();
      expect([rt.root.status, other.status, rt.stalls()]).toEqual(['idle', 'idle', []]);
      expect([rt.root, other].map(({ session }) => ends(session))).toEqual([
        ['completed'],
        ['completed'],
      ]);
      return { outcome: '', isLast };
    });
  });

  it('is not taken for a start that comes while a message is not committed yet', async () => {
    await using rt = await byHand({ script: () => 'Done.', limits: { maxThreads: 1 } });
    rt.root.followup(message('one'));
    const creation = rt.harness.agents.create();
    await settled();
    expect(rt.threads.of(rt.root.id).ports?.isClosed).toBe(false);
    await rt.while(creation);
    expect(ends(rt.root.session)).toEqual(['completed']);
    // One for the turn, and one for the other agent: it was never away in between.
    expect(rt.threads.all).toHaveLength(2);
  });
});

describe('a turn that was told to stop', () => {
  it('may lose its thread at every frame, and what waits is parked by the interrupt', async () => {
    await sweep(async (count) => {
      await using rt = await byHand({ script: ['A.', 'B.'] });
      rt.root.followup(message('one'));
      while (!has(rt.root.session, 'step/start')) await rt.next();
      rt.root.followup(message('two'));
      rt.root.cancel(USER, { keepInbox: true });
      await rt.frames(count);
      const isLast = rt.root.status === 'idle';
      rt.threads.of(rt.root.id).crash();
      await rt.frames();
      expect([rt.root.status, rt.stalls()]).toEqual(['idle', []]);
      expect(ends(rt.root.session)).toEqual(['aborted user']);
      expect([parkedBy(rt.root), waiting(rt.root)]).toEqual(['interrupt', [[], ['two']]]);
      return { outcome: '', isLast };
    });
  });

  it('may be out of time at every frame, and ends once, as asked', async () => {
    const outcomes = await sweep(async (count) => {
      const clock = new ManualClock();
      await using rt = await byHand({ clock, script: ['A.', 'B.'] });
      const errors: string[] = [];
      rt.harness.on('agent/error', ({ error }) => errors.push(error.code));
      rt.root.followup(message('one'));
      while (!has(rt.root.session, 'step/start')) await rt.next();
      rt.root.followup(message('two'));
      rt.root.cancel(USER, { keepInbox: true });
      await rt.frames(count);
      const isLast = rt.root.status === 'idle';
      // In one tick: the grace is over, and what the thread has said by then is heard.
      await clock.advance(5_000);
      await rt.frames();
      expect([rt.root.status, rt.stalls(), errors]).toEqual(['idle', [], []]);
      expect(ends(rt.root.session)).toEqual(['aborted user']);
      expect(waiting(rt.root)).toEqual([[], ['two']]);
      const wasEnded = rt.threads.of(rt.root.id).ports?.isClosed === true;
      expect([parkedBy(rt.root), clock.pending]).toEqual(['interrupt', 0]);
      return { outcome: wasEnded ? 'by force' : 'by itself', isLast };
    });
    expect(outcomes).toEqual(['by force', 'by itself']);
  });
});

describe('messages for a thread that reads nothing', () => {
  it('leave one frame in front of it, and all of them run', async () => {
    const script = (): string => 'Done.';
    await using rt = await byHand({ script });
    for (let i = 0; i < 50; i++) {
      rt.root.followup(message(`${i}`));
      await settled();
    }
    expect(rt.threads.of(rt.root.id).ports?.waiting('worker')).toBe(1);
    await rt.while(rt.root.whenIdle());
    expect(ends(rt.root.session)).toHaveLength(50);
  });

  it('are all run, whenever the second of two comes', async () => {
    const script = (): string => 'Done.';
    const outcomes = await sweep(async (count) => {
      await using rt = await byHand({ script });
      rt.root.followup(message('one'));
      await rt.frames(count);
      const isLast = rt.root.status === 'idle';
      rt.root.followup(message('two'));
      await rt.while(rt.root.whenIdle());
      return { outcome: ends(rt.root.session).join(), isLast };
    });
    expect(outcomes).toEqual(['completed,completed']);
  });
});
