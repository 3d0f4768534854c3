/**
 * What a crash kept from a parent: the ends of children that it was never told of, and that it
 * cut others off. They are looked for when its session is opened again, and never told twice:
 * what its log has an insertion of, it was told.
 */
import type { UserMessage } from '../../protocol/content.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionEventOf, SessionHeader } from '../../protocol/session-events.ts';
import { createUserMessage } from '../agent/agent.ts';
import { finalOutput } from '../session/output.ts';
import { crashClosers } from '../session/repair.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import type { SessionPersistence } from '../session/store.ts';
import { waitingIn } from '../session/waiting.ts';
import { foldSubagentDescriptor } from './descriptor.ts';
import { foldFates, noticeOf, stopReasonOf, whyOf } from './settlement.ts';

type Splice = SessionEventOf<'agent/inbox/spliced'>['data'];
type TurnEnd = SessionEventOf<'turn/end'>;

interface Told {
  readonly turn: number;
  readonly waiting: number;
}

/**
 * Notices that belong into this session's inbox, as they wake nobody: in front of its next turn,
 * or behind a report of the same child that waits for one.
 */
export async function missedNotices(
  sessions: Sessions,
  parent: Session,
  signal?: AbortSignal,
): Promise<readonly Splice[]> {
  const own = parent.eventsFrom(parent.header.seedLength ?? 0);
  const told = toldOf(own);
  const lists = waitingIn(own);
  const splices: Splice[] = [];
  // A store that cannot be read now is no reason to keep the parent from going on.
  const headers = await childrenOf(sessions.store, parent.id, signal).catch(() => []);
  signal?.throwIfAborted();
  for (const header of headers) {
    if (sessions.get(header.id) !== undefined) continue;
    const missed = await noticeFor(sessions, header, told.get(header.id), signal).catch(
      () => undefined,
    );
    signal?.throwIfAborted();
    if (missed === undefined) continue;
    const reports = lists['next-turn'].some(
      ({ source }) => source.kind === 'subagent-report' && source.senderSessionId === header.id,
    );
    const target = reports ? 'next-turn' : 'next-step';
    splices.push({ target, start: lists[target].length, inserted: [missed] });
    lists[target].push(missed);
  }
  return splices;
}

async function childrenOf(
  store: SessionPersistence,
  id: SessionId,
  signal: AbortSignal | undefined,
): Promise<readonly SessionHeader[]> {
  if (store.listBelow !== undefined) return store.listBelow([id], 1, signal);
  return (await store.list(signal)).filter(({ parentSession }) => parentSession === id);
}

/**
 * Of one that had ended, or that the end of its process cut off: in a turn, or with messages that
 * no turn took up. Rejects when the child cannot be read: nothing is known of its end.
 */
async function noticeFor(
  { store }: Sessions,
  { id, seedLength = 0 }: SessionHeader,
  told: Told | undefined,
  signal: AbortSignal | undefined,
): Promise<UserMessage | undefined> {
  // What it inherited is not read.
  const stored = await store.readFrom(id, seedLength, signal);
  const descriptor = foldSubagentDescriptor(stored);
  if (descriptor?.mode !== 'continuable') return undefined;
  // As it would be resumed. Nothing of that is written before it is.
  const closers = crashClosers(stored);
  const own = [...stored, ...closers];
  const end = own.findLast(({ type }) => type === 'turn/end') as TurnEnd | undefined;
  const lastTurn = end?.data.turn ?? 0;
  const from = own.findLastIndex(
    ({ type, data }) => type === 'turn/end' && data.turn === told?.turn,
  );
  const residency = own.slice(from + 1);
  const fates = foldFates(residency, waitingIn(own.slice(0, from + 1)));
  const isNews = told === undefined || lastTurn > told.turn || fates.waiting > told.waiting;
  if (!isNews) return undefined;
  const { kind } = (lastTurn > (told?.turn ?? 0) ? end?.data.reason : undefined) ?? {};
  // With more to do it had not settled, unless that was parked by a failure.
  const hadMore = fates.waiting > 0 && kind !== 'error' && kind !== 'blocked';
  const isCutOff = closers.length > 0 || hadMore;
  // Somebody goes on with it elsewhere, and it is not cut off at all.
  if (isCutOff && (await store.isHeldElsewhere?.(id, signal)) === true) return undefined;
  const circumstances = { isCut: isCutOff, hasFailed: false, hasAccepted: true };
  const stopReason = stopReasonOf(residency, circumstances);
  const { content, source } = noticeOf(
    { id, label: descriptor.label, lastTurn },
    {
      stopReason: isCutOff ? 'aborted' : stopReason,
      output: finalOutput(residency) ?? [],
      ...(isCutOff ? { isCutOff } : whyOf(residency, stopReason)),
      ...fates,
    },
  );
  return createUserMessage(content, source);
}

/** The last that was told of each child: up to which turn, and how much waited for it then. */
function toldOf(own: readonly SessionEvent[]): ReadonlyMap<SessionId, Told> {
  const told = new Map<SessionId, Told>();
  for (const event of own) {
    if (event.type !== 'agent/inbox/spliced') continue;
    for (const { source } of event.data.inserted) {
      if (source.kind !== 'subagent-settled') continue;
      const { senderSessionId: id, turn, waiting = Number.POSITIVE_INFINITY } = source;
      if (turn >= (told.get(id)?.turn ?? 0)) told.set(id, { turn, waiting });
    }
  }
  return told;
}
