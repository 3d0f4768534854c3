/**
 * What does keeping and finding sessions cost? Three questions, each with its baseline: durable
 * accepts against one transaction for each; a resume against reading and parsing the rows plainly;
 * a listing of ten thousand children against one query for their headers (`listing.ts`).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { SessionId as sessionId } from '../protocol/ids.ts';
import type { SessionEvent } from '../protocol/session-events.ts';
import { systemClock } from '../src/base/clock.ts';
import { silentLogger } from '../src/base/logger.ts';
import { Sessions } from '../src/session/sessions.ts';
import { openSqliteStore } from '../src/session/sqlite-store.ts';
import { listingBench } from './listing.ts';
import { percentile, report, rounds } from './support.ts';
import type { Row } from './support.ts';

const WRITES = 128;
const RESUMED = 1_000;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** A folder for one bench; what is opened in it is closed by who opened it. */
async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-store-'));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** `count` writers, each of which appends and waits `WRITES / count` times. Latencies, in ms. */
async function write(count: number, one: (writer: number) => Promise<void>): Promise<number[]> {
  const times: number[] = [];
  const writer = async (index: number): Promise<void> => {
    for (let n = 0; n < WRITES / count; n++) times.push(await timed(() => one(index)));
  };
  await Promise.all(Array.from({ length: count }, (_, index) => writer(index)));
  return times;
}

async function acceptsBench(writers: number, count: number): Promise<Row[]> {
  return inFolder(async (folder) => {
    const store = openSqliteStore({ path: join(folder, 'grouped.db') });
    const sessions = new Sessions({ store, clock: systemClock, logger: silentLogger });
    const live = Array.from({ length: writers }, () => {
      const session = sessions.prepare({});
      sessions.enter(session);
      sessions.accept(session);
      return session;
    });
    await Promise.all(live.map((session) => session.committed()));
    const single = new DatabaseSync(join(folder, 'single.db'));
    single.exec(
      'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE event (body TEXT)',
    );
    const body = JSON.stringify(message(0));
    const grouped = (): Promise<number[]> =>
      write(writers, async (index) => {
        live[index]?.append('subagent/descriptor', message(index));
        await live[index]?.committed();
      });
    const singly = (): Promise<number[]> =>
      write(writers, async () => void single.exec(`INSERT INTO event VALUES ('${body}')`));
    const throughput = (work: () => Promise<number[]>) => async (): Promise<number> =>
      (await timed(work)) / WRITES;
    const tail = (work: () => Promise<number[]>) => async (): Promise<number> =>
      percentile(await work(), 0.99);
    try {
      const base = { rounds: count, warmup: 2 };
      const name = `accepts, ${writers} at once`;
      return [
        ...(await rounds({
          ...base,
          name,
          unit: 'ms per accept',
          contenders: [
            { name: 'a transaction for each', measure: throughput(singly) },
            { name: 'sessions, committed', measure: throughput(grouped) },
          ],
        })),
        ...(await rounds({
          ...base,
          name,
          unit: 'ms until accepted, p99',
          contenders: [
            { name: 'a transaction for each', measure: tail(singly) },
            { name: 'sessions, committed', measure: tail(grouped) },
          ],
        })),
      ];
    } finally {
      single.close();
      for (const session of live) await sessions.leave(session);
      await store.close();
    }
  });
}

async function resumeBench(count: number): Promise<Row[]> {
  return inFolder(async (folder) => {
    const path = join(folder, 'resume.db');
    const id = sessionId('long');
    const store = openSqliteStore({ path });
    const events = Array.from({ length: RESUMED }, (_, seq) => descriptor(seq));
    await store.append([{ id, epoch: 1, header: { version: 0, id, createdAt: 1 }, events }]);
    await store.release([id]);
    const sessions = new Sessions({ store, clock: systemClock, logger: silentLogger });
    const plain = new DatabaseSync(join(folder, 'plain.db'));
    plain.exec('CREATE TABLE event (seq INTEGER PRIMARY KEY, body TEXT)');
    const insert = plain.prepare('INSERT INTO event VALUES (?, ?)');
    for (const event of events) insert.run(event.seq, JSON.stringify(event));
    const select = plain.prepare('SELECT body FROM event ORDER BY seq');
    try {
      return await rounds({
        name: `resume of ${RESUMED} events`,
        unit: 'ms',
        rounds: count,
        warmup: 3,
        contenders: [
          {
            name: 'read the rows, parse them as JSON',
            measure: () =>
              timed(async () => {
                for (const { body } of select.all() as { body: string }[]) JSON.parse(body);
              }),
          },
          { name: 'read the session', measure: () => timed(() => store.inspect(id)) },
          {
            name: 'resume it: read, checked, held, live',
            async measure() {
              const start = performance.now();
              const session = await sessions.load(id);
              sessions.enter(session);
              const time = performance.now() - start;
              await sessions.leave(session);
              return time;
            },
          },
        ],
      });
    } finally {
      plain.close();
      await store.close();
    }
  });
}

const message = (index: number) =>
  ({
    version: 1,
    mode: 'continuable',
    provider: 'spawn',
    label: 'bench',
    persona: `You are number ${index}. ${'x'.repeat(300)}`,
  }) as const;

const descriptor = (seq: number): SessionEvent =>
  ({ type: 'subagent/descriptor', seq, time: 1, data: message(seq) }) as unknown as SessionEvent;

/** One table after another: rows of one unit each. */
export async function storeBench(count = 20): Promise<Row[][]> {
  const tables: Row[][] = [];
  const add = (rows: readonly Row[]): void => {
    for (const row of rows) {
      const table = tables.at(-1)?.[0];
      if (table?.bench === row.bench && table.unit === row.unit) tables.at(-1)?.push(row);
      else tables.push([row]);
    }
  };
  for (const writers of [1, 8, 64]) add(await acceptsBench(writers, count));
  add(await resumeBench(count));
  for (const rows of await listingBench(count)) add(rows);
  return tables;
}

if (process.argv[1]?.endsWith('store.bench.js') === true) {
  for (const table of await storeBench()) report(table);
}
