/** What the harnesses of one list of commands stand on, and the one that is all in this process. */
import { deferred } from '../../src/base/deferred.ts';
import type { Deferred } from '../../src/base/deferred.ts';
import { buildHarness } from '../../src/harness.ts';
import type { Harness } from '../../src/harness.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { inProcessThreads } from '../support/in-process-threads.ts';
import { ManualClock } from '../support/manual-clock.ts';

export interface Ground {
  readonly store: Pick<SessionPersistence, 'list' | 'inspect'>;
  /** How long what follows from an act may take. 0: until the event loop is still. */
  readonly patienceMs: number;
  /** One more harness on the same store; the one before is disposed. */
  build(): Promise<Harness>;
  /** Whose model is asked, and waits. */
  asked(): string[];
  answer(id: string, how: 'answer' | 'fail'): void;
  /** The thread that serves this agent dies, if it has one, in one of several ways. */
  crash(id: string, way: number): void | Promise<void>;
  /** What was wrong with threads and models; once its harness is disposed, what is left as well. */
  problems(isOver: boolean): string[];
  close(): Promise<void>;
}

export function inProcess(): Ground {
  const store = new MemoryStore();
  const clock = new ManualClock();
  const threads = inProcessThreads({ clock });
  const held = new Map<string, Deferred<'answer' | 'fail'>>();
  const wrong: string[] = [];
  const model = scriptedModel(async ({ sessionId }, { signal: aborted }) => {
    const answer = deferred<'answer' | 'fail'>();
    const id = sessionId!;
    if (held.has(id)) wrong.push(`the model of ${id} is asked twice at once`);
    held.set(id, answer);
    const stop = (): void => answer.reject(aborted.reason);
    aborted.addEventListener('abort', stop, { once: true });
    try {
      const how = await answer.promise;
      return how === 'answer' ? 'Well.' : { failure: { code: 'BROKEN', message: 'Broken.' } };
    } finally {
      aborted.removeEventListener('abort', stop);
      held.delete(id);
    }
  });
  return {
    store,
    patienceMs: 0,
    build: () =>
      buildHarness(
        {
          workers: { warm: 0 },
          store,
          logger: { debug() {}, info() {}, warn() {}, error() {} },
          models: { script: model },
          defaultModel: { provider: 'script', model: 'test' },
          limits: { maxDepth: 9 },
        },
        { clock, random: () => 0.5, threads: () => threads.factory },
      ),
    asked: () => [...held.keys()],
    answer: (id, how) => held.get(id)!.resolve(how),
    crash: (id) => threads.all.findLast(({ init }) => init?.sessionId === id)?.crash(),
    problems(isOver) {
      const found = wrong.splice(0);
      if (!isOver) return found;
      const left = threads.all.filter(({ ports }) => ports?.isClosed === false);
      if (left.length > 0) found.push(`${left.length} threads are left`);
      if (clock.pending > 0) found.push(`${clock.pending} timers are left`);
      return found;
    },
    close: () => Promise.resolve(),
  };
}
