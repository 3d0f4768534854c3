/**
 * What the model of continuable children is compared with in threads: the built package over a
 * database, with models that answer, and bring their threads down, inside of those threads.
 */
import type { Worker } from 'node:worker_threads';
import { createHarness } from '../../dist/src/index.js';
import type { Harness } from '../../src/harness.ts';
import type { Ground } from '../continuable/model-ground.ts';
import { tempStore } from '../support/temp-store.ts';
import { until } from '../support/until.ts';
import { fixture } from './real.ts';

/** For threads to come and go, on a machine that does much else. */
const PATIENCE_MS = 20_000;
const MAX_THREADS = 20;
/** Where the model of `cells.mjs` finds what it needs. */
const LAYOUT = {
  threads: 0,
  asked: 64,
  answers: 128,
  deaths: 192,
  manyThreads: 8_192,
  kinds: ['answer', 'fail', 'call'],
  ways: ['exit', 'leave', 'throw', 'reject'],
} as const;
const AGENTS = Array.from({ length: LAYOUT.asked }, (_, n) => n);
const idOf = (n: number): string => (n === 0 ? 'root' : `c${n}`);
const numberOf = (id: string): number => (id === 'root' ? 0 : Number(id.slice(1)));

export function realThreads(): Ground {
  const temp = tempStore();
  const size = LAYOUT.deaths + LAYOUT.manyThreads;
  const cells = new Int32Array(new SharedArrayBuffer(size * Int32Array.BYTES_PER_ELEMENT));
  const live = new Set<number>();
  const read = (at: number): number => Atomics.load(cells, at);
  const askedOf = (n: number): number => read(LAYOUT.asked + n);
  const deathOf = (thread: number): number => LAYOUT.deaths + (thread % LAYOUT.manyThreads);
  const note = (worker: Worker): void => {
    const { threadId } = worker;
    live.add(threadId);
    worker.once('exit', () => {
      live.delete(threadId);
      Atomics.store(cells, deathOf(threadId), 0);
      // What its model was asked it cannot answer any more.
      for (const n of AGENTS) {
        if (read(LAYOUT.threads + n) === threadId) Atomics.store(cells, LAYOUT.asked + n, 0);
      }
    });
  };
  process.on('worker', note);
  const answer = (id: string, kind: (typeof LAYOUT.kinds)[number]): void => {
    Atomics.store(cells, LAYOUT.answers + numberOf(id), LAYOUT.kinds.indexOf(kind) + 1);
  };
  return {
    store: temp.store,
    patienceMs: PATIENCE_MS,
    build() {
      const options = { shared: cells.buffer, layout: LAYOUT };
      const harness = createHarness({
        store: temp.path,
        workers: { warm: 0 },
        models: { cells: { module: fixture('cells.mjs'), options } },
        tools: [{ module: fixture('tools.mjs') }],
        defaultModel: { provider: 'cells', model: 'test' },
        // Node leaves the files open that a thread was loading as it was ended by force.
        limits: { maxDepth: 9, maxThreads: MAX_THREADS, stopGraceMs: 30_000 },
      });
      // The same class, built.
      return harness as Promise<unknown> as Promise<Harness>;
    },
    asked: () => AGENTS.filter((n) => askedOf(n) > 0).map(idOf),
    answer,
    async crash(id, way) {
      const n = numberOf(id);
      const thread = read(LAYOUT.threads + n);
      if (!live.has(thread)) return;
      // In a tool of its own, or wherever it is.
      const kind = way % (LAYOUT.ways.length + 1);
      if (kind === LAYOUT.ways.length && askedOf(n) > 0) answer(id, 'call');
      else Atomics.store(cells, deathOf(thread), (kind % LAYOUT.ways.length) + 1);
      await until(() => !live.has(thread));
    },
    problems(isOver) {
      const twice = AGENTS.filter((n) => askedOf(n) > 1);
      const found = twice.map((n) => `the model of ${idOf(n)} is asked twice at once`);
      if (isOver && live.size > 0) found.push(`${live.size} threads are left`);
      return found;
    },
    async close() {
      process.off('worker', note);
      await temp[Symbol.asyncDispose]();
    },
  };
}
