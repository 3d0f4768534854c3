/**
 * Sessions as JSON Lines. The first line says what the file is and which sessions it holds; then
 * each session follows as a whole: its header, its events as the log has them, and its end. A
 * file that was cut off can be told by that.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Offline } from './offline.ts';
import type { Session } from './session.ts';
import type { DamagedSession } from './store.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { withBelow } from './offline.ts';
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
}

/** Events held at once. */
const PAGE = 256;

/** @throws {ArgumentError} */
export function exportLines(
  sessions: Pick<Offline, 'store' | 'list'>,
  what: ExportedSessions,
  signal: AbortSignal | undefined,
): AsyncIterable<string> {
  const isList = Array.isArray(what);
  const ids: readonly unknown[] = isList ? what : [(what as { below?: unknown } | null)?.below];
  if (!ids.every((id) => typeof id === 'string')) {
    throw new ArgumentError('What is exported is a list of ids, or `{ below: id }`.');
  }
  return linesOf(
    sessions,
    isList ? [...new Set(ids as SessionId[])] : (ids[0] as SessionId),
    signal,
  );
}

async function* linesOf(
  { store, list }: Pick<Offline, 'store' | 'list'>,
  what: readonly SessionId[] | SessionId,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, void, void> {
  const line = (value: object): string => `${JSON.stringify(value)}\n`;
  const live = new Map(list().map((session) => [session.id, session]));
  const headers = new Map<SessionId, SessionHeader>();
  const damaged = new Map<SessionId, DamagedSession>();
  const stored = await store.list(signal, (session) => void damaged.set(session.id, session));
  for (const header of stored) headers.set(header.id, header);
  for (const { id, header } of live.values()) headers.set(id, header);
  const all = [...headers.values(), ...damaged.values()];
  const ids = typeof what === 'string' ? withBelow(what, all) : what;
  const missing = ids.find((id) => !headers.has(id));
  if (missing !== undefined) throw damaged.get(missing)?.error ?? notFound(missing);
  const first: ExportLines['first'] = {
    format: LINES_FORMAT,
    version: LINES_VERSION,
    sessions: ids,
  };
  yield line(first);
  for (const id of ids) {
    const header = headers.get(id) as SessionHeader;
    yield line({ header } satisfies ExportLines['header']);
    let events = 0;
    for await (const page of pagesOf(store, id, live.get(id), signal)) {
      for (const event of page) yield line(event);
      events += page.length;
    }
    yield line({ end: { session: id, events } } satisfies ExportLines['end']);
  }
}

/** Of a live session, what it held when its turn came: what it appends meanwhile is not waited for. */
async function* pagesOf(
  store: Offline['store'],
  id: SessionId,
  live: Session | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly SessionEvent[], void, void> {
  const end = live?.seq ?? 0;
  for (let seq = 0; ;) {
    if (signal?.aborted === true) throw signal.reason;
    const page =
      live === undefined
        ? await store.readFrom(id, seq, signal, PAGE)
        : live.eventsFrom(seq, Math.min(seq + PAGE, end));
    if (page.length === 0) return;
    seq += page.length;
    yield page;
  }
}
