/**
 * What a stored log means, written down once more and without a look at the code that keeps it:
 * lists are replayed, and everything else is found by looking back from the end.
 */
import type { Message, UserMessage } from '../../protocol/content.ts';
import type { InboxTarget, RequestHeader, SessionEvent } from '../../protocol/session-events.ts';

export type Waiting = Record<InboxTarget, UserMessage[]>;

/** An event without the number and the time it gets. */
export interface Plain {
  readonly type: string;
  readonly data: unknown;
  readonly sourceEventSeqs?: readonly number[];
}

export const UNKNOWN_TEXT =
  'The process ended while this tool was running. Whether it took effect is unknown: ' +
  'check before calling it again.';
export const NOT_STARTED_TEXT =
  'This tool was not started: the turn ended before. Call it again if it is needed.';

/** What waits after these events; `seedLength` of them belong to another agent. */
export function waitingAfter(events: readonly SessionEvent[], seedLength = 0): Waiting {
  const lists: Waiting = { 'next-turn': [], 'next-step': [] };
  for (const { type, data } of events.slice(seedLength)) {
    if (type !== 'agent/inbox/spliced') continue;
    const list = lists[data.target];
    lists[data.target] = [
      ...list.slice(0, data.start),
      ...data.inserted,
      ...list.slice(data.start + (data.removedCount ?? 0)),
    ];
  }
  return lists;
}

/** The turn that has no end: where it begins, and where its open step does. */
function openPart(events: readonly SessionEvent[]): { turn: number; step?: number } | undefined {
  const turn = events.findLastIndex(({ type }) => type === 'turn/start');
  if (turn === -1 || events.slice(turn).some(({ type }) => type === 'turn/end')) return undefined;
  const step = events.findLastIndex(({ type }) => type === 'step/start');
  if (step < turn || events.slice(step).some(({ type }) => type === 'step/end')) return { turn };
  return { turn, step };
}

/** What its owner's next life adds to a log to close it, in order. */
export function closersOf(events: readonly SessionEvent[], seedLength = 0): readonly Plain[] {
  const open = openPart(events);
  if (open === undefined) return [];
  const start = events[open.turn] as SessionEvent & { type: 'turn/start' };
  const { turn } = start.data;
  const closers: Plain[] = [];
  for (const { target, messages } of claimedForNothing(events, seedLength, open.turn)) {
    closers.push({ type: 'agent/inbox/spliced', data: { target, start: 0, inserted: messages } });
  }
  if (open.step !== undefined) {
    const { step } = (events[open.step] as SessionEvent & { type: 'step/start' }).data;
    const inStep = events.slice(open.step);
    const answered = inStep.flatMap((event) =>
      event.type === 'tool/result' ? [event.data.message.source.callId] : [],
    );
    const called = inStep.flatMap((event) => (event.type === 'tool/call' ? [event] : []));
    const asked = inStep.flatMap((event) =>
      event.type === 'assistant/message'
        ? event.data.message.content.flatMap((block) =>
            block.type === 'tool-call' ? [block.id] : [],
          )
        : [],
    );
    const fail = (callId: string, code: string, text: string, call?: number): void => {
      const id = `interrupted-tool-result-${callId}-${events.length + closers.length}`;
      const content = [
        {
          type: 'tool-result',
          toolCallId: callId,
          content: [{ type: 'text', text }],
          isError: true,
        },
      ];
      closers.push({
        type: 'tool/result',
        data: {
          turn,
          step,
          message: { id, role: 'user', content, source: { kind: 'tool', callId } },
          error: { name: 'ToolError', code },
        },
        ...(call === undefined ? {} : { sourceEventSeqs: [call] }),
      });
    };
    for (const { data, seq } of called) {
      if (answered.includes(data.callId)) continue;
      fail(data.callId, 'TOOL_OUTCOME_UNKNOWN', UNKNOWN_TEXT, seq);
    }
    for (const callId of new Set(asked)) {
      if (answered.includes(callId) || called.some(({ data }) => data.callId === callId)) continue;
      fail(callId, 'TOOL_NOT_STARTED', NOT_STARTED_TEXT);
    }
    closers.push({ type: 'step/end', data: { turn, step } });
  }
  closers.push({ type: 'turn/end', data: { turn, reason: { kind: 'interrupted' } } });
  return closers;
}

/** What the open turn took after its last step had begun: no step was told of it. */
function claimedForNothing(
  events: readonly SessionEvent[],
  seedLength: number,
  turnAt: number,
): { target: InboxTarget; messages: readonly UserMessage[] }[] {
  const stepAt = events.findLastIndex(({ type }) => type === 'step/start');
  return events.slice(Math.max(turnAt, stepAt, seedLength)).flatMap((event) => {
    if (event.type !== 'agent/inbox/spliced' || event.data.outcome !== undefined) return [];
    const { target, start, removedCount = 0 } = event.data;
    const before = waitingAfter(events.slice(0, event.seq), seedLength)[target];
    const messages = before.slice(start, start + removedCount);
    return messages.length === 0 ? [] : [{ target, messages }];
  });
}

/** What is after the closers in every log that is opened again. */
export function resumed(events: readonly SessionEvent[], seedLength = 0): readonly Plain[] {
  const closed = [...events, ...closersOf(events, seedLength)];
  return closed.at(-1)?.type === 'session/end-seed'
    ? closed
    : [...closed, { type: 'session/end-seed', data: {} }];
}

/** What the model is shown. */
export function historyOf(events: readonly Plain[]): readonly Message[] {
  return events.flatMap(({ type, data }) => {
    if (type === 'user/message') return [data as Message];
    if (type === 'tool/result') return [(data as { message: Message }).message];
    if (type !== 'assistant/message') return [];
    const { message } = data as { message: Message };
    return message.content.length > 0 ? [message] : [];
  });
}

const lastData = (events: readonly Plain[], type: string): unknown =>
  events.findLast((event) => event.type === type)?.data;

export const lastTurnOf = (events: readonly Plain[]): number =>
  (lastData(events, 'turn/start') as { turn: number } | undefined)?.turn ?? 0;

export const lastHeaderOf = (events: readonly Plain[]): RequestHeader | undefined =>
  (lastData(events, 'request/header') as { header: RequestHeader } | undefined)?.header;

export const lastContextOf = (events: readonly Plain[]): unknown =>
  lastData(events, 'request/context');

export const plain = ({ type, data, ...more }: SessionEvent): Plain => ({
  type,
  data,
  ...('sourceEventSeqs' in more ? { sourceEventSeqs: more.sourceEventSeqs as number[] } : {}),
});
