/** What must be so of what the disk holds when all is over. */
import { checkStore } from '../../src/session/doctor.ts';
import type { MemoryStore } from '../../src/session/memory-store.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { nothingWaits, splice } from '../../src/session/waiting.ts';
import { endAfterClaim, fateOf } from '../continuable/fates.ts';
import { logProblems } from '../interleavings/log-problems.ts';
import type { Oracle } from './oracle.ts';

export async function checkDisk(disk: MemoryStore, oracle: Oracle): Promise<void> {
  const stored = new Map<SessionId, readonly SessionEvent[]>();
  for (const { id, seedLength = 0 } of await disk.list()) {
    const { events } = await disk.inspect(id);
    const own = events.slice(seedLength);
    stored.set(id, own);
    if (!oracle.known.has(id)) oracle.say(`${id} is stored, and nobody was told of it`);
    const open =
      own.filter(({ type }) => type === 'turn/start').length >
      own.filter(({ type }) => type === 'turn/end').length;
    // A crash answers calls that were never made for the model, and one that is not resumed stays open.
    const wrong = logProblems(events, false).filter(
      (text) =>
        !/descriptor|\(tool\/result\) is not the next/.test(text) &&
        !(open && (oracle.restarts > 0 || oracle.hasEverFailed) && text.endsWith('is open')),
    );
    for (const text of wrong) oracle.say(`log of ${id}: ${text}`);
    const told = own.flatMap((event) => (event.type === 'user/message' ? [event.data.id] : []));
    if (new Set(told).size !== told.length) oracle.say(`${id} was told a message twice`);
    // What a turn took up and did not tell may be put back.
    const waiting = nothingWaits();
    for (const event of own) {
      if (event.type !== 'agent/inbox/spliced') continue;
      splice(waiting, event.data);
      const waits = [...waiting['next-turn'], ...waiting['next-step']].map((one) => one.id);
      if (new Set(waits).size !== waits.length) oracle.say(`${id} was given a message twice`);
    }
    const left = [...waiting['next-turn'], ...waiting['next-step']];
    for (const one of left)
      if (told.includes(one.id)) oracle.say(`${id} was told what waits for it`);
  }
  for (const { severity, session, text } of await checkStore(disk)) {
    if (severity !== 'note') oracle.say(`doctor, of ${String(session)}: ${text}`);
  }
  for (const [id, { session }] of oracle.accepted) {
    const events = stored.get(session);
    const fate = events === undefined ? 'unknown' : fateOf(events, id);
    if (fate === 'told' || fate === 'waits') continue;
    if (fate === 'thrown') {
      const last = events?.findLast(({ type }) => type === 'turn/end');
      const hasFailed = last?.type === 'turn/end' && last.data.reason.kind !== 'completed';
      if (oracle.mayDiscard(session) || (hasFailed && oracle.isOneShot(session))) continue;
    }
    // A turn that was stopped before its first step has taken it up, and says so.
    const end = fate === 'spent' && events !== undefined ? endAfterClaim(events, id) : undefined;
    if (end !== undefined && end !== 'completed') continue;
    if (fate === 'spent' && end === undefined && oracle.isCutOff(session)) continue;
    oracle.say(
      `the accepted message ${id} of ${session} is ${fate}${end === undefined ? '' : ` (${end})`}`,
    );
  }
  const notices = new Map<SessionId, Set<string>>();
  for (const [id, own] of stored) {
    const isChild = oracle.residencies.has(id);
    for (const event of own) {
      if (
        event.type === 'step/start' &&
        isChild &&
        event.data.step > (oracle.plan.steps ?? Infinity)
      ) {
        oracle.say(`${id} took step ${event.data.step} of a turn`);
      }
      if (event.type !== 'agent/inbox/spliced') continue;
      for (const { id: notice, source } of event.data.inserted) {
        if (source.kind !== 'subagent-settled') continue;
        const { senderSessionId: child } = source;
        notices.set(child, (notices.get(child) ?? new Set()).add(notice));
      }
    }
  }
  for (const [child, { size: count }] of notices) {
    const most = oracle.residencies.get(child) ?? 0;
    if (count > most) oracle.say(`${count} notices of ${child}, which was resident ${most} times`);
  }
  for (const [id, fate] of oracle.starts) {
    const isThere = stored.has(id as SessionId);
    if (fate === 'refused' && isThere) oracle.say(`the refused start of ${id} left its log`);
    if (fate === 'accepted' && !isThere) oracle.say(`the accepted child ${id} is not stored`);
  }
  for (const [key, kind] of oracle.said) {
    const [session, turn] = key.split(' ') as [SessionId, string];
    const end = stored
      .get(session)
      ?.find((event) => event.type === 'turn/end' && event.data.turn === Number(turn));
    const is = end?.type === 'turn/end' ? end.data.reason.kind : 'missing';
    // A limit that was passed before main heard of it holds, whatever the thread said.
    const reason = end?.type === 'turn/end' ? end.data.reason : undefined;
    const isForLimit = reason?.kind === 'error' && reason.error.code === 'LIMIT_EXCEEDED';
    if (is === kind || isForLimit || oracle.isExcused(session)) continue;
    oracle.say(`the thread of ${session} ended turn ${turn} as ${kind}, and its log says ${is}`);
  }
}
