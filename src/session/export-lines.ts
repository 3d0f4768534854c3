/**
 * Sessions as JSON Lines. The first line says what the file is and which sessions it holds; then
 * each session follows as a whole: its header, its events as the log has them, and its end. A
 * file that was cut off can be told by that.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Offline } from './offline.ts';
import type { Session } from './session.ts';
import type { DamagedSession } from './store.ts';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { LogCheck } from './log-check.ts';
import { withBelow } from './offline.ts';
import { assertSameLog } from './same-log.ts';
import { notFound } from './store-rules.ts';

export const LINES_FORMAT = 'subagent-runtime/sessions';
export const LINES_VERSION = 1;

/** Some sessions; or one and all that descends from it. */
export type ExportedSessions = readonly SessionId[] | { readonly below: SessionId };

/** The lines of an export, besides the events themselves, which are what has a `type`. */
export interface ExportLines {
  readonly first: {
    readonly format: typeof LINES_FORMAT;
    readonly version: number;
    readonly sessions: readonly SessionId[];
  };
  readonly header: { readonly header: SessionHeader };
  readonly end: { readonly end: { readonly session: SessionId; readonly events: number } };
  /**
   * In the place of a session whose header cannot be read, or of the end of one whose log cannot
   * be from here on: what is before it is for a person to read. An import takes nothing of it.
   */
  readonly damaged: { readonly damaged: { readonly session: SessionId; readonly text: string } };
}

/** Events held at once. */
const PAGE = 256;

interface ExportOptions {
  readonly signal: AbortSignal | undefined;
  readonly onDamaged: ((session: DamagedSession) => void) | undefined;
}

/** @throws {ArgumentError} */
export function exportLines(
  sessions: Pick<Offline, 'store' | 'list' | 'get' | 'onRemoved'>,
  what: ExportedSessions,
  options: ExportOptions,
): AsyncIterable<string> {
  const isList = Array.isArray(what);
  const ids: readonly unknown[] = isList ? what : [(what as { below?: unknown } | null)?.below];
  if (!ids.every((id) => typeof id === 'string')) {
    throw new ArgumentError('What is exported is a list of ids, or `{ below: id }`.');
  }
  if (options.onDamaged !== undefined && typeof options.onDamaged !== 'function') {
    throw new ArgumentError('Who is told of damaged sessions must be a function.');
  }
  return linesOf(
    sessions,
    isList ? [...new Set(ids as SessionId[])] : (ids[0] as SessionId),
    options,
  );
}

const line = (value: object): string => `${JSON.stringify(value)}\n`;

async function* linesOf(
  { store, list, get, onRemoved }: Pick<Offline, 'store' | 'list' | 'get' | 'onRemoved'>,
  what: readonly SessionId[] | SessionId,
  { signal, onDamaged }: ExportOptions,
): AsyncGenerator<string, void, void> {
  const removed = new Set<SessionId>();
  const stopWatching = onRemoved((id) => removed.add(id));
  try {
    const headers = new Map<SessionId, SessionHeader>();
    const damaged = new Map<SessionId, DamagedSession>();
    const stored = await store.list(signal, (session) => void damaged.set(session.id, session));
    for (const header of stored) headers.set(header.id, header);
    for (const { id, header } of list()) headers.set(id, header);
    const all = [...headers.values(), ...damaged.values()];
    const ids = typeof what === 'string' ? withBelow(what, all) : what;
    const missing = ids.find((id) => !headers.has(id) && !damaged.has(id));
    if (missing !== undefined) throw notFound(missing);
    yield line({
      format: LINES_FORMAT,
      version: LINES_VERSION,
      sessions: ids,
    } satisfies ExportLines['first']);
    for (const id of ids) {
      // A session of this id that came after it is another one, whatever its log says.
      const assertThere = (): void => {
        if (removed.has(id)) throw notFound(id);
      };
      assertThere();
      let damage = damaged.get(id);
      // As it is now that its turn comes: it may have left since the start, or come back.
      const live = get(id);
      const header = live?.header ?? headers.get(id);
      if (header !== undefined) {
        damage = yield* linesOfOne(store, header, { live, assertThere, signal });
      }
      if (damage === undefined) continue;
      onDamaged?.(damage);
      const { message: text } = damage.error;
      yield line({ damaged: { session: id, text } } satisfies ExportLines['damaged']);
    }
  } finally {
    stopWatching();
  }
}

interface Reading {
  readonly live: Session | undefined;
  /** @throws {StoreError} `SESSION_NOT_FOUND` once it was removed */
  assertThere(): void;
  readonly signal: AbortSignal | undefined;
}

/** All lines of one, unless it is damaged: then there is no end, and what is wrong is returned. */
async function* linesOfOne(
  store: Offline['store'],
  header: SessionHeader,
  reading: Reading,
): AsyncGenerator<string, DamagedSession | undefined, void> {
  const { id, createdAt, parentSession, seedLength = 0 } = header;
  yield line({ header } satisfies ExportLines['header']);
  const check = new LogCheck(seedLength);
  try {
    for await (const page of pagesOf(store, id, reading)) {
      for (const event of page) {
        const problem = check.problem(event);
        if (problem !== undefined) throw unfit(id, `event ${event.seq} cannot be: ${problem}`);
        yield line(event);
      }
    }
    if (seedLength > check.length) throw unfit(id, 'it is shorter than what it inherited');
  } catch (error) {
    // What is not there any more is not damaged.
    reading.assertThere();
    if (!(error instanceof StoreError) || !DAMAGE.includes(error.code)) throw error;
    return { id, createdAt, ...(parentSession && { parentSession }), error };
  }
  yield line({ end: { session: id, events: check.length } } satisfies ExportLines['end']);
  return undefined;
}

const DAMAGE: readonly string[] = ['STORE_CORRUPT', 'STORE_FORMAT_UNSUPPORTED'];

const unfit = (id: SessionId, problem: string): StoreError =>
  new StoreError('STORE_CORRUPT', `The log of session \`${id}\` is damaged: ${problem}.`);

/** Of a live session, what it held when its turn came: what it appends meanwhile is not waited for. */
async function* pagesOf(
  store: Offline['store'],
  id: SessionId,
  { live, assertThere, signal }: Reading,
): AsyncGenerator<readonly SessionEvent[], void, void> {
  const end = live?.seq ?? 0;
  let last: SessionEvent | undefined;
  for (let seq = 0; ; seq = (last?.seq ?? -1) + 1) {
    if (seq > 0) await nextTick();
    if (signal?.aborted === true) throw signal.reason;
    assertThere();
    let page = live?.eventsFrom(seq, Math.min(seq + PAGE, end));
    if (page === undefined) {
      const before = last === undefined ? 0 : 1;
      const read = await store.readFrom(id, seq - before, signal, before + PAGE);
      assertThere();
      if (last !== undefined) assertSameLog(id, last, read[0]);
      page = read.slice(before);
    }
    if (page.length === 0) return;
    yield page;
    last = page.at(-1);
  }
}
