/**
 * What is shown of sessions that are not live. Each is asked where it costs least: by what is kept
 * beside its log and the few events after that, and only if those do not tell, by its whole log.
 */
import { setMaxListeners } from 'node:events';
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Json } from '../../protocol/json.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { Harness } from '../harness.ts';
import type { ProjectionUnit } from '../session/projections/projection.ts';
import type { Checkpoint, SessionPersistence } from '../session/store.ts';
import type { SubagentIdentity } from '../subagents/identity-projection.ts';
import type { SessionSummary } from '../subagents/summary-projection.ts';
import { StoreError } from '../../protocol/errors.ts';
import { usableState } from '../session/projections/unit.ts';
import { subagentIdentity } from '../subagents/identity-projection.ts';
import { sessionSummary } from '../subagents/summary-projection.ts';

/** What a row shows of a log. */
export interface Shown {
  readonly identity: SubagentIdentity;
  readonly summary: SessionSummary;
}
/** Why a log shows nothing. */
export type Unshown = 'corrupt' | 'unavailable';

type Note = (header: SessionHeader, found: Shown | Unshown) => void;

export const NOTHING_SHOWN: Shown = { identity: null, summary: sessionSummary.init() };

/** Sessions whose checkpoints are asked for together. */
const SLICE = 100;
/** Sessions between two turns of others: each may be a reading of its own. */
const BETWEEN_TURNS = 25;
/** Events after a checkpoint; with more the whole log is folded elsewhere. */
const MOST_AFTER = 64;
/** Logs that are waited for at once: whoever reads them has a bound of its own for that. */
const READ_AT_ONCE = 64;

/**
 * One that was removed meanwhile is not noted.
 * @throws the reason of `signal`
 */
export async function readCold(
  harness: Harness,
  headers: readonly SessionHeader[],
  signal: AbortSignal,
  note: Note,
): Promise<void> {
  const unproven: SessionHeader[] = [];
  const { sessionPersistence: store } = harness;
  for (let from = 0; from < headers.length; from += SLICE) {
    const slice = headers.slice(from, from + SLICE);
    const ids = slice.map(({ id }) => id);
    // A short cut: what cannot be read is asked of the logs.
    const kept = await store.checkpoints?.(ids, signal).catch(() => undefined);
    for (const [index, header] of slice.entries()) {
      signal.throwIfAborted();
      const shown = await byCheckpoint(store, header, kept?.get(header.id), signal);
      if (shown === undefined) unproven.push(header);
      else note(header, shown);
      if ((from + index + 1) % BETWEEN_TURNS === 0) await othersTurn();
    }
  }
  // As many as read at once listen to it: no sign of a leak, as Node would warn.
  setMaxListeners(0, signal);
  let next = 0;
  const read = async (): Promise<void> => {
    for (let header = unproven[next++]; header !== undefined; header = unproven[next++]) {
      const found = await byLog(harness, header, signal);
      if (found !== undefined) note(header, found);
    }
  };
  await Promise.all(Array.from({ length: Math.min(READ_AT_ONCE, unproven.length) }, read));
}

/** What is a session's own: what it began with may show another's name, answer and tokens. */
export function shownIn(
  { origin, seedLength = 0 }: SessionHeader,
  values: Readonly<Record<string, Json>>,
): Shown {
  const identity = (values[subagentIdentity.key] ?? null) as SubagentIdentity;
  const summary = (values[sessionSummary.key] as SessionSummary | undefined) ?? init();
  if (identity !== null && identity.seq >= seedLength) return { identity, summary };
  // Nobody told yet who it is: of its own there is at most an open turn.
  if (origin !== 'subagent' || seedLength === 0) return { identity: null, summary };
  const { since } = summary;
  return { identity: null, summary: { ...init(), ...(since === undefined ? {} : { since }) } };
}

const init = sessionSummary.init;

/** `undefined`: it does not tell, for whatever reason. */
async function byCheckpoint(
  store: SessionPersistence,
  header: SessionHeader,
  checkpoint: Checkpoint | undefined,
  signal: AbortSignal,
): Promise<Shown | undefined> {
  if (checkpoint === undefined) return undefined;
  const states = [subagentIdentity, sessionSummary].map((unit) =>
    usableState(unit as unknown as ProjectionUnit, checkpoint.rows[unit.key]),
  );
  const [identity, summary] = states as [SubagentIdentity | undefined, SessionSummary | undefined];
  if (identity === undefined || summary === undefined) return undefined;
  try {
    // It may lag behind its log.
    const after = await store.readFrom(header.id, checkpoint.seq + 1, signal, MOST_AFTER);
    if (after.length >= MOST_AFTER) return undefined;
    const shown = shownIn(header, {
      [subagentIdentity.key]: after.reduce(subagentIdentity.apply, identity),
      [sessionSummary.key]: after.reduce(sessionSummary.apply, summary),
    });
    // What would close an open turn, and who a child is that did not say, only the log tells.
    const isTold = header.origin !== 'subagent' || shown.identity !== null;
    return isTold && shown.summary.since === undefined ? shown : undefined;
  } catch {
    return undefined;
  }
}

/** `undefined`: it is not there any more. */
async function byLog(
  { sessionProjections }: Harness,
  header: SessionHeader,
  signal: AbortSignal,
): Promise<Shown | Unshown | undefined> {
  try {
    return shownIn(header, (await sessionProjections.read(header.id, signal)).values);
  } catch (error) {
    signal.throwIfAborted();
    const code = error instanceof StoreError ? error.code : undefined;
    if (code === 'SESSION_NOT_FOUND') return undefined;
    return code === undefined || code === 'STORE_CORRUPT' ? 'corrupt' : 'unavailable';
  }
}
