/**
 * What a crash kept from a parent: the ends of children that it was never told of. They are
 * looked for when its session is opened again. One can be missing then, and is never told twice:
 * what its log has an insertion of, it was told.
 */
import type { UserMessage } from '../../protocol/content.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionEventOf, SessionHeader } from '../../protocol/session-events.ts';
import { createUserMessage } from '../agent/agent.ts';
import { finalOutput } from '../session/output.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import type { SessionPersistence } from '../session/store.ts';
import { waitingIn } from '../session/waiting.ts';
import { foldSubagentDescriptor } from './descriptor.ts';
import { foldFates, noticeOf, stopReasonOf } from './settlement.ts';

type Splice = SessionEventOf<'agent/inbox/spliced'>['data'];

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
  const told = toldTurns(own);
  const lists = waitingIn(own);
  const splices: Splice[] = [];
  // A store that cannot be read now is no reason to keep the parent from going on.
  const headers = await childrenOf(sessions.store, parent.id, signal).catch(() => []);
  signal?.throwIfAborted();
  for (const header of headers) {
    if (sessions.get(header.id) !== undefined) continue;
    const missed = await noticeFor(sessions, header, told.get(header.id) ?? 0, signal).catch(
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

/** Rejects when the child cannot be read: it is listed as such, and nothing is known of its end. */
async function noticeFor(
  sessions: Sessions,
  { id, seedLength = 0 }: SessionHeader,
  toldTurn: number,
  signal: AbortSignal | undefined,
): Promise<UserMessage | undefined> {
  // As it is stored: a turn that the crash cut off has no end yet. What it inherited is not read.
  const own = await sessions.store.readFrom(id, seedLength, signal);
  const descriptor = foldSubagentDescriptor(own);
  if (descriptor?.mode !== 'continuable') return undefined;
  const last = own.findLast(({ type }) => type === 'turn/start' || type === 'turn/end');
  if (last?.type !== 'turn/end' || last.data.turn <= toldTurn) return undefined;
  const from = own.findLastIndex(({ type, data }) => type === 'turn/end' && data.turn === toldTurn);
  const residency = own.slice(from + 1);
  const fates = foldFates(residency, waitingIn(own.slice(0, from + 1)));
  const { kind } = last.data.reason;
  // With more to do it had not settled, unless that was parked by a failure.
  if (fates.waiting > 0 && kind !== 'error' && kind !== 'blocked') return undefined;
  const circumstances = { isCut: false, hasFailed: false, hasAccepted: true };
  const { content, source } = noticeOf(
    { id, label: descriptor.label, lastTurn: last.data.turn },
    {
      stopReason: stopReasonOf(residency, circumstances),
      output: finalOutput(residency) ?? [],
      ...fates,
    },
  );
  return createUserMessage(content, source);
}

/** The last turn of each child whose end it was told of. */
function toldTurns(own: readonly SessionEvent[]): ReadonlyMap<SessionId, number> {
  const told = new Map<SessionId, number>();
  for (const event of own) {
    if (event.type !== 'agent/inbox/spliced') continue;
    for (const { source } of event.data.inserted) {
      if (source.kind !== 'subagent-settled') continue;
      const { senderSessionId: id, turn } = source;
      told.set(id, Math.max(told.get(id) ?? 0, turn));
    }
  }
  return told;
}
