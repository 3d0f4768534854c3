import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { Inbox } from '../../src/agent/inbox.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { crashClosers } from '../../src/session/repair.ts';
import { Session } from '../../src/session/session.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { foldSubagentDescriptor } from '../../src/subagents/descriptor.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { aLife, live } from './log-lives.ts';
import { header as headerOf, userMessage } from './log-parts.ts';
import * as plainLog from './plain-log.ts';

/** `LAWS=5000` tries more logs than usual. */
const numRuns = Number(process.env['LAWS'] ?? 300);
const few = Math.ceil(numRuns / 3);
const TIMEOUT_MS = 60_000 + numRuns * 200;
const clock = new ManualClock(1_000);
const silent = { inserted() {}, discarded() {}, claimed() {} };

interface Log {
  readonly header: SessionHeader;
  readonly events: readonly SessionEvent[];
}

/** A session that nothing keeps, and all that happened in it. */
const aLog: fc.Arbitrary<Log> = aLife.map((deeds) => {
  const session = new Session({ header: headerOf('a'), clock });
  live(session, deeds);
  return session;
});

/** One that began with what another one had finished, if it had. */
const aFork: fc.Arbitrary<Log & { readonly seedLength: number }> = fc
  .tuple(aLife, aLife)
  .map(([theirs, own]) => {
    const parent = new Session({ header: headerOf('parent'), clock });
    live(parent, theirs);
    const seed = parent.completedTurns() ?? [];
    const seedLength = seed.length;
    const header = headerOf('fork', { parentSession: SessionId('parent'), seedLength });
    const session = new Session({ header, seed, clock });
    session.append('session/end-seed', {});
    live(session, own);
    return { header, events: session.events, seedLength };
  });

const stores: Record<string, () => SessionPersistence> = {
  memory: () => new MemoryStore(),
  sqlite: () => openSqliteStore({ path: ':memory:' }),
};
const aStore = fc.constantFrom(...Object.keys(stores));

async function stored(name: string, { header, events }: Log): Promise<SessionPersistence> {
  const store = (stores[name] as () => SessionPersistence)();
  await store.append([{ id: header.id, epoch: FIRST_EPOCH, header, events }]);
  return store;
}

/** All that a session of its own life would be asked, once it is opened again. */
interface State {
  readonly events: readonly plainLog.Plain[];
  readonly waiting: plainLog.Waiting;
  readonly history: unknown;
  readonly lastTurn: number;
  readonly isOpen: boolean;
  readonly lastHeader: unknown;
  readonly lastContext: unknown;
  readonly descriptor: unknown;
}

type Splice = SessionEvent & { type: 'agent/inbox/spliced' };

async function reopened(
  store: SessionPersistence,
  { header }: Log,
  times = 1,
  missed: readonly Splice['data'][] = [],
): Promise<State> {
  let state: State | undefined;
  for (let time = 0; time < times; time++) {
    const sessions = new Sessions({ store, clock, logger: silentLogger });
    // What a parent was not told of is told it once, when it is opened first.
    sessions.onLoading(async () => (time === 0 ? missed : []));
    const session = await sessions.load(header.id);
    await sessions.flush(session);
    const inbox = new Inbox(session, silent);
    state = {
      events: session.events.map(plainLog.plain),
      waiting: { 'next-turn': [...inbox.nextTurn], 'next-step': [...inbox.nextStep] },
      history: session.deriveMessages(),
      lastTurn: session.lastTurn,
      isOpen: session.open !== undefined,
      lastHeader: session.lastHeader(),
      lastContext: session.lastContext(),
      descriptor: foldSubagentDescriptor(session.eventsFrom(header.seedLength ?? 0)),
    };
    await sessions.release(session);
  }
  return state as State;
}

/** The same, of the plain model. */
function expected({ header, events }: Log): State {
  const { seedLength = 0 } = header;
  const log = plainLog.resumed(events, seedLength);
  const own = log.slice(seedLength);
  return {
    events: log.map(({ type, data, sourceEventSeqs }) => ({
      type,
      data,
      ...(sourceEventSeqs && { sourceEventSeqs }),
    })),
    waiting: plainLog.waitingAfter(log as readonly SessionEvent[], seedLength),
    history: plainLog.historyOf(log),
    lastTurn: plainLog.lastTurnOf(log),
    isOpen: false,
    lastHeader: plainLog.lastHeaderOf(log),
    lastContext: plainLog.lastContextOf(log),
    descriptor: own.find(({ type }) => type === 'subagent/descriptor')?.data,
  };
}

async function check(name: string, log: Log, times?: number): Promise<Log> {
  const store = await stored(name, log);
  try {
    expect(await reopened(store, log, times)).toEqual(expected(log));
    return await store.inspect(log.header.id);
  } finally {
    await store.close();
  }
}

const cut = ({ header, events }: Log, length: number): Log => ({
  header,
  events: events.slice(0, length),
});

describe('any log that is cut off anywhere', () => {
  it(
    'is closed as a plain reading of it says, wherever that is',
    () => {
      fc.assert(
        fc.property(fc.oneof(aLog, aFork), ({ header: { seedLength = 0 }, events }) => {
          for (let length = seedLength; length <= events.length; length++) {
            const prefix = events.slice(0, length);
            const closers = crashClosers(prefix, seedLength).map(plainLog.plain);
            expect(closers).toEqual(plainLog.closersOf(prefix, seedLength));
          }
        }),
        { numRuns },
      );
    },
    TIMEOUT_MS,
  );

  it(
    'is opened again as what a plain reading of it says',
    async () => {
      await fc.assert(
        fc.asyncProperty(aStore, aLog, fc.nat(), async (name, log, place) => {
          await check(name, cut(log, place % (log.events.length + 1)));
        }),
        { numRuns },
      );
    },
    TIMEOUT_MS,
  );

  it(
    'is opened ten times as it is opened once',
    async () => {
      await fc.assert(
        fc.asyncProperty(aStore, aLog, fc.nat(), async (name, log, place) => {
          await check(name, cut(log, place % (log.events.length + 1)), 10);
        }),
        { numRuns: few },
      );
    },
    TIMEOUT_MS,
  );

  it(
    'can be cut off again while it is closed',
    async () => {
      await fc.assert(
        fc.asyncProperty(aStore, aLog, fc.nat(), fc.nat(), async (name, log, first, second) => {
          const prefix = cut(log, first % (log.events.length + 1));
          const closed = await check(name, prefix);
          const added = closed.events.length - prefix.events.length;
          await check(name, cut(closed, prefix.events.length + (second % (added + 1))));
        }),
        { numRuns: few },
      );
    },
    TIMEOUT_MS,
  );

  it(
    'goes on from there as a log that was never cut off',
    async () => {
      await fc.assert(
        fc.asyncProperty(aStore, aLog, fc.nat(), aLife, async (name, log, place, deeds) => {
          const closed = await check(name, cut(log, place % (log.events.length + 1)));
          const session = new Session({ ...closed, seed: closed.events, clock });
          const waiting = plainLog.waitingAfter(closed.events);
          const inbox = new Inbox(session, silent);
          expect([inbox.nextTurn, inbox.nextStep]).toEqual([
            waiting['next-turn'],
            waiting['next-step'],
          ]);
          live(session, deeds);
          await check(name, session);
        }),
        { numRuns: few },
      );
    },
    TIMEOUT_MS,
  );
});

it('is marked once, behind what its owner had missed', async () => {
  const log = { header: headerOf('a'), events: [] };
  const splice = { target: 'next-step', start: 0, inserted: [userMessage('missed')] } as const;
  const store = await stored('memory', log);
  const { events } = await reopened(store, log, 10, [splice]);
  expect(events.map(({ type }) => type)).toEqual(['agent/inbox/spliced', 'session/end-seed']);
});

describe('a log that began as a part of another', () => {
  it(
    'is cut off and opened again by what is its own',
    async () => {
      await fc.assert(
        fc.asyncProperty(aStore, aFork, fc.nat(), async (name, log, place) => {
          const { seedLength } = log;
          const own = log.events.length - seedLength;
          const prefix = cut(log, seedLength + (place % (own + 1)));
          const { events } = await check(name, prefix);
          // What it was given is what the other one had finished, and stays that.
          expect(events.slice(0, seedLength)).toEqual(log.events.slice(0, seedLength));
          const last = log.events[seedLength - 1];
          expect(last === undefined ? 'turn/end' : last.type).toBe('turn/end');
          // Nothing of it waits here: all that waits was put here.
          const inserted = events
            .slice(seedLength)
            .flatMap(({ type, data }) => (type === 'agent/inbox/spliced' ? data.inserted : []));
          const waiting = Object.values(plainLog.waitingAfter(events, seedLength)).flat();
          for (const message of waiting) expect(inserted).toContainEqual(message);
        }),
        { numRuns },
      );
    },
    TIMEOUT_MS,
  );
});

describe('a store', () => {
  it(
    'gives back what was appended, whatever was appended together',
    async () => {
      const cuts = fc.array(fc.nat(7), { maxLength: 40 });
      await fc.assert(
        fc.asyncProperty(aLog, aFork, cuts, fc.nat(), async (one, other, sizes, place) => {
          const logs = [one, other];
          for (const make of Object.values(stores)) {
            const store = make();
            const done = [0, 0];
            const next = (at: number, size: number) => {
              const { header, events } = logs[at] as Log;
              const from = done[at] as number;
              const isNew = store !== undefined && !made.has(at);
              const slice = events.slice(from, from + size);
              if (!isNew && slice.length === 0) return [];
              made.add(at);
              done[at] = from + slice.length;
              return [
                { id: header.id, epoch: FIRST_EPOCH, events: slice, ...(isNew ? { header } : {}) },
              ];
            };
            const made = new Set<number>();
            for (const size of [...sizes, Infinity]) {
              // Of one, of the other, or of both in one transaction.
              const of = size === Infinity || size % 3 === 0 ? [0, 1] : [size % 2];
              const batch = of.flatMap((at) => next(at, size));
              if (batch.length > 0) await store.append(batch);
            }
            for (const { header, events } of logs) {
              expect(await store.inspect(header.id)).toEqual({ header, events });
              const from = place % (events.length + 2);
              expect(await store.readFrom(header.id, from)).toEqual(events.slice(from));
            }
            await store.close();
          }
        }),
        { numRuns: few },
      );
    },
    TIMEOUT_MS,
  );
});
