/** What must be true of a file after a kill, by what the client and the tools wrote down themselves. */
import { isDeepStrictEqual } from 'node:util';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { closersOf, plain, waitingAfter } from '../session/plain-log.ts';
import type { Plain } from '../session/plain-log.ts';
import { marksOf } from './brain.ts';
import type { Stored, StoredLog } from './store-copy.ts';

/** An id that a call gave back, as the client wrote it down. */
export interface Returned {
  readonly id: string;
  readonly session: string;
  /** When the call was made and when it returned, in one order of all calls. */
  readonly from: number;
  readonly to: number;
  /** It is one of those that get a turn of their own, in their order. */
  readonly isQueued: boolean;
}

/** `spent`: claimed by a turn that was stopped before its first step, and so told to nobody. */
export type Fate = 'told' | 'waiting' | 'discarded' | 'spent' | 'lost';

/** Of a notice: `waiting` tells two apart that are about the same turn. */
interface Notice {
  readonly senderSessionId: string;
  readonly turn: number;
  readonly waiting?: number;
}

const ownOf = ({ header, events }: StoredLog): readonly SessionEvent[] =>
  events.slice(header.seedLength ?? 0);

const insertedIn = (events: readonly SessionEvent[]) =>
  events.flatMap((event) => (event.type === 'agent/inbox/spliced' ? event.data.inserted : []));

const toldIn = (events: readonly SessionEvent[]) =>
  events.flatMap((event) => (event.type === 'user/message' ? [event.data] : []));

/** Where a message is that was accepted. */
export function fateOf(id: string, log: StoredLog | undefined): Fate {
  if (log === undefined) return 'lost';
  const own = ownOf(log);
  if (toldIn(own).some((message) => message.id === id)) return 'told';
  const seedLength = log.header.seedLength ?? 0;
  const closed = [...log.events, ...closersOf(log.events, seedLength)] as SessionEvent[];
  const lists = waitingAfter(closed, seedLength);
  if ([...lists['next-turn'], ...lists['next-step']].some((message) => message.id === id)) {
    return 'waiting';
  }
  const at = own.findLastIndex((event, at) => removes(own, at, id));
  const splice = own[at];
  if (splice?.type !== 'agent/inbox/spliced') return 'lost';
  if (splice.data.outcome === 'canceled') return 'discarded';
  return isStopped(own, at) ? 'spent' : 'lost';
}

/** Whether the event there takes a message out of the inbox. */
function removes(own: readonly SessionEvent[], at: number, id: string): boolean {
  const event = own[at];
  if (event?.type !== 'agent/inbox/spliced') return false;
  const { target, start, removedCount = 0 } = event.data;
  const before = waitingAfter(own.slice(0, at))[target];
  return before.slice(start, start + removedCount).some((message) => message.id === id);
}

/** Whether the turn of a claim was ended by somebody, and by no kill, before it had a step. */
function isStopped(own: readonly SessionEvent[], claim: number): boolean {
  const next = own.slice(claim).find(({ type }) => type === 'step/start' || type === 'turn/end');
  return next?.type === 'turn/end' && next.data.reason.kind === 'aborted';
}

/** What is wrong with one file by itself. */
export function problemsOf(
  stored: Stored,
  returned: readonly Returned[],
  lines: readonly string[],
  cutOff: Map<string, number>,
): string[] {
  const problems = [...stored.problems];
  for (const { id, session } of returned) {
    const log = stored.sessions.get(session);
    if (fateOf(id, log) === 'lost') {
      problems.push(`${id} was returned, and session ${session} ${log ? 'lost it' : 'is gone'}`);
    }
  }
  const seenMarks = new Map<string, string>();
  for (const [session, log] of stored.sessions) {
    const own = ownOf(log);
    const say = (what: string): void => void problems.push(`session ${session}: ${what}`);
    const told = toldIn(own);
    if (insertedIn(own).length === 0) say('it was kept without what it was made for');
    for (const id of twice(told.map((message) => message.id))) say(`${id} was told twice`);
    const sent = new Map(
      [...insertedIn(own), ...told]
        .filter(({ source }) => source.kind !== 'subagent-settled')
        .map((message) => [message.id, message]),
    );
    for (const { id, content } of sent.values()) {
      // A report and a relay are wrapped, so the mark is looked for in all of it.
      const text = content.map((block) => ('text' in block ? block.text : '')).join('');
      for (const mark of marksOf(text)) {
        if (seenMarks.has(mark)) say(`[t${mark}] is ${seenMarks.get(mark)} and ${id}`);
        seenMarks.set(mark, id);
      }
    }
    for (const list of ['next-turn', 'next-step'] as const) orderProblems(own, list).forEach(say);
    // A claim that a kill left untold is put back: the same message, inserted again.
    const inserted = new Map(insertedIn(own).map((message) => [message.id, message]));
    const ends = [...inserted.values()].flatMap(({ source }) =>
      source.kind === 'subagent-settled' ? [`${source.turn} ${source.senderSessionId}`] : [],
    );
    for (const end of new Set(ends)) {
      const [turn = '', child = ''] = end.split(' ');
      const count = ends.filter((one) => one === end).length;
      const most = livesAfter(Number(turn), stored.sessions.get(child));
      if (count > most) say(`it has ${count} notices of turn ${turn} of ${child}, not ${most}`);
    }
    const queued = returned.filter((one) => one.session === session && one.isQueued);
    const place = new Map(told.map(({ id }, at) => [id as string, at]));
    for (const [at, one] of queued.entries()) {
      for (const other of queued.slice(at + 1)) {
        const [first, second] = one.to < other.from ? [one, other] : [other, one];
        if (first.to >= second.from) continue;
        const [a, b] = [place.get(first.id), place.get(second.id)];
        if (b !== undefined && (a === undefined ? fateOf(first.id, log) === 'waiting' : a > b)) {
          say(`${second.id} ran before ${first.id}, which was accepted before it was sent`);
        }
      }
    }
  }
  problems.push(...toolProblems(stored, lines), ...revivedTools(stored, lines, cutOff));
  return problems;
}

/** How often a child has ended with this as its last turn: each time it was opened again, once. */
function livesAfter(turn: number, log: StoredLog | undefined): number {
  const own = log === undefined ? [] : ownOf(log);
  const isEdge = (event: SessionEvent, type: 'turn/start' | 'turn/end', at: number): boolean =>
    (event.type === 'turn/start' || event.type === 'turn/end') &&
    event.type === type &&
    event.data.turn === at;
  const end = own.findIndex((event) => isEdge(event, 'turn/end', turn));
  const next = own.findIndex((event) => isEdge(event, 'turn/start', turn + 1));
  const idle = own.slice(end + 1, next === -1 ? own.length : next);
  return 1 + idle.filter(({ type }) => type === 'session/end-seed').length;
}

/** A call that a kill has cut off is over: its tool is not run by any later process. */
function revivedTools(
  { sessions }: Stored,
  lines: readonly string[],
  cutOff: Map<string, number>,
): string[] {
  const timesRun = (callId: string): number =>
    lines.filter((line) => line === `begin ${callId}`).length;
  const problems = [...cutOff].flatMap(([callId, times]) =>
    timesRun(callId) > times ? [`the tool of ${callId} was run after a kill had cut it off`] : [],
  );
  for (const { header, events } of sessions.values()) {
    for (const { type, data } of closersOf(events, header.seedLength ?? 0)) {
      if (type !== 'tool/result') continue;
      const { callId } = (data as { message: { source: { callId: string } } }).message.source;
      cutOff.set(callId, timesRun(callId));
    }
  }
  return problems;
}

/** The ids of reports that calls gave back, and the parent that each was made to. */
export const reportsIn = (lines: readonly string[]): { id: string; parent: string }[] =>
  lines.flatMap((line) => {
    const [, id, parent] = /^reported (\S+) (\S+)$/.exec(line) ?? [];
    return id === undefined || parent === undefined ? [] : [{ id, parent }];
  });

/** A report whose id was returned is in its parent's log; no model has read another id. */
export function reportProblems(
  { sessions }: Stored,
  lines: readonly string[],
  read: ReadonlySet<string>,
): string[] {
  const reports = reportsIn(lines);
  const returned = new Set(reports.map(({ id }) => id));
  return [
    ...reports.flatMap(({ id, parent }) => {
      const log = sessions.get(parent);
      if (fateOf(id, log) !== 'lost') return [];
      return [`report ${id} was returned, and session ${parent} ${log ? 'lost it' : 'is gone'}`];
    }),
    ...[...read].flatMap((id) =>
      returned.has(id) ? [] : [`report ${id} was read, and no call gave it back`],
    ),
  ];
}

/** What models were shown of calls without an outcome is what the log says of them. */
export function readProblems({ sessions }: Stored, results: ReadonlyMap<string, string>): string[] {
  return [...sessions.values()].flatMap(({ events }) =>
    events.flatMap((event) => {
      if (event.type !== 'tool/result') return [];
      const { message, error } = event.data;
      const read = results.get(message.source.callId);
      if (error?.code !== 'TOOL_OUTCOME_UNKNOWN' || read === undefined) return [];
      const [block] = message.content;
      const text = block?.type === 'tool-result' ? JSON.stringify(block.content) : '';
      return read === '' || text.includes(JSON.stringify(read).slice(1, -1))
        ? []
        : [`a model read of ${message.source.callId}: ${read}, not ${text}`];
    }),
  );
}

/** Sessions that a kill has left inside of a turn. */
export const openTurns = ({ sessions }: Stored): string[] =>
  [...sessions].flatMap(([id, { header, events }]) =>
    closersOf(events, header.seedLength ?? 0).length > 0 ? [id] : [],
  );

/** What is taken from one list is taken in the order it was put there. */
function orderProblems(own: readonly SessionEvent[], target: 'next-turn' | 'next-step'): string[] {
  const put = own.flatMap((event) =>
    event.type === 'agent/inbox/spliced' && event.data.target === target ? event.data.inserted : [],
  );
  const place = new Map<string, number>();
  for (const { id } of put) if (!place.has(id)) place.set(id, place.size);
  const told = toldIn(own).flatMap(({ id }) => place.get(id) ?? []);
  return told.some((at, index) => index > 0 && at <= told[index - 1]!)
    ? [`what waited for its ${target} was told in another order`]
    : [];
}

function toolProblems({ sessions }: Stored, lines: readonly string[]): string[] {
  const problems: string[] = [];
  const said = (what: string): string[] =>
    lines.flatMap((line) => (line.startsWith(`${what} `) ? [line.slice(what.length + 1)] : []));
  const [begun, done, handed] = [said('begin'), new Set(said('done')), said('host')];
  for (const call of twice(begun)) problems.push(`the tool of ${call} was run twice`);
  for (const id of twice(handed)) problems.push(`${id} was handed over twice`);
  const own = [...sessions.values()].flatMap(ownOf);
  const told = new Set<string>(toldIn(own).map(({ id }) => id));
  for (const id of handed) if (!told.has(id)) problems.push(`${id} was handed over unkept`);
  const called = new Set<string>();
  for (const event of own) {
    if (event.type === 'tool/call') called.add(event.data.callId);
    if (event.type !== 'tool/result') continue;
    const { message, error } = event.data;
    const { callId } = message.source;
    const isError = message.content.some((block) => block.type === 'tool-result' && block.isError);
    if (error?.code === 'TOOL_NOT_STARTED' && begun.includes(callId)) {
      problems.push(`the tool of ${callId} began, and is said not to have been started`);
    }
    if (!isError && begun.includes(callId) && !done.has(callId)) {
      problems.push(`the tool of ${callId} is said to be done, and is not`);
    }
    const text = JSON.stringify(message.content);
    if (!isError && text.includes(`done ${callId}`) && !done.has(callId)) {
      problems.push(`the tool of ${callId} is said to be done, and never was`);
    }
  }
  for (const call of begun) {
    if (!called.has(call)) problems.push(`the tool of ${call} ran before its call was kept`);
  }
  return problems;
}

/** What is wrong with how a file went on, from one kill to the next. */
export function successionProblems(before: Stored, after: Stored): string[] {
  const problems: string[] = [];
  for (const [id, log] of before.sessions) {
    const say = (what: string): void => void problems.push(`session ${id}: ${what}`);
    const now = after.sessions.get(id);
    if (now === undefined) {
      say('it is gone');
      continue;
    }
    const { events, header } = log;
    if (!isSame(now.events.slice(0, events.length), events)) say('its log has changed');
    const added: readonly Plain[] = now.events.slice(events.length).map(plain);
    if (added.length === 0) continue;
    const closers = closersOf(events, header.seedLength ?? 0);
    const found = added.slice(0, closers.length);
    if (!isSame(found, closers)) {
      say(`it went on with ${JSON.stringify(found)} and not with ${JSON.stringify(closers)}`);
    }
    if (added.length <= closers.length) continue;
    // What it was not told of comes before anything else, and then the mark of where it went on.
    const rest = added.slice(closers.length);
    const notices = rest.findIndex((event) => !isNotice(event));
    const isMarked = [...events, ...closers].at(-1)?.type === 'session/end-seed';
    const next = rest[notices];
    // Behind a mark that stood already, notices can as well be of children that ended since.
    if (next !== undefined && next.type !== 'session/end-seed' && !isMarked) {
      say(`it went on with ${JSON.stringify(next)} and no mark`);
    }
    for (const end of missedBy(id, before)) {
      const isTold = insertedIn(now.events.slice(events.length)).some(
        ({ source }) =>
          source.kind === 'subagent-settled' &&
          source.senderSessionId === end.child &&
          source.turn >= end.turn,
      );
      if (!isTold) say(`it was opened and not told of turn ${end.turn} of ${end.child}`);
    }
  }
  return problems;
}

/** An end of a child that is news to its parent. */
interface Missed {
  readonly child: string;
  readonly turn: number;
  /** The end of the process was its end: in a turn, or before what waited was taken up. */
  readonly isCutOff: boolean;
}

/** Ends of children that a parent's log has no notice of. */
export function missedBy(parent: string, { sessions }: Stored): Missed[] {
  const log = sessions.get(parent);
  if (log === undefined) return [];
  const notices = insertedIn(ownOf(log)).flatMap(({ source }) =>
    source.kind === 'subagent-settled' ? [source as Notice] : [],
  );
  return [...sessions].flatMap(([child, other]) => {
    const own = ownOf(other);
    const isContinuable = own.some(
      (event) => event.type === 'subagent/descriptor' && event.data.mode === 'continuable',
    );
    if (other.header.parentSession !== parent || !isContinuable) return [];
    const isOpen = closersOf(other.events, other.header.seedLength ?? 0).length > 0;
    const start = own.findLast(({ type }) => type === 'turn/start');
    const turn = start?.type === 'turn/start' ? start.data.turn : 0;
    const end = own.findLast(({ type }) => type === 'turn/end');
    const reason = !isOpen && end?.type === 'turn/end' ? end.data.reason.kind : undefined;
    const lists = waitingAfter(own);
    const waiting = [...lists['next-turn'], ...lists['next-step']].filter(
      ({ source }) => source.kind !== 'subagent-settled',
    );
    const isCutOff = isOpen || (waiting.length > 0 && reason !== 'error' && reason !== 'blocked');
    const told = notices.filter((one) => one.senderSessionId === child);
    const isTold = told.some(
      (one) =>
        one.turn > turn ||
        (one.turn === turn && (one.waiting === undefined || one.waiting >= waiting.length)),
    );
    return isTold ? [] : [{ child, turn, isCutOff }];
  });
}

/** As data: what was unpacked has no prototypes to speak of. */
const isSame = (one: unknown, other: unknown): boolean =>
  isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)));

const isNotice = ({ type, data }: Plain): boolean =>
  type === 'agent/inbox/spliced' &&
  (data as { inserted: readonly { source: { kind: string } }[] }).inserted.every(
    ({ source }) => source.kind === 'subagent-settled',
  ) &&
  (data as { removedCount?: number }).removedCount === undefined;

const twice = (values: readonly string[]): string[] => [
  ...new Set(values.filter((value, at) => values.indexOf(value) !== at)),
];
