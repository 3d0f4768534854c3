import type { ToolResultMessage } from '../../protocol/content.ts';
import type { CallId } from '../../protocol/ids.ts';
import type {
  SessionEvent,
  SessionEventMap,
  SessionEventType,
  SessionHeader,
  TurnEndReason,
} from '../../protocol/session-events.ts';
import type { OpenTurn } from './brackets.ts';
import type { Session } from './session.ts';
import { StoreError } from '../../protocol/errors.ts';
import { MessageId } from '../../protocol/ids.ts';
import { Brackets, TOOL_NOT_STARTED } from './brackets.ts';
import { untoldClaims } from './untold.ts';

/** What the model reads in place of a result that will not come. */
export interface ToolFailure {
  readonly code: string;
  readonly message: string;
}

const OUTCOME_UNKNOWN: ToolFailure = {
  code: 'TOOL_OUTCOME_UNKNOWN',
  message:
    'The process ended while this tool was running. Whether it took effect is unknown: ' +
    'check before calling it again.',
};
const NOT_STARTED: ToolFailure = {
  code: TOOL_NOT_STARTED,
  message: 'This tool was not started: the turn ended before. Call it again if it is needed.',
};

type Draft = {
  [T in SessionEventType]: {
    readonly type: T;
    readonly data: SessionEventMap[T];
    readonly sources?: readonly number[];
  };
}[SessionEventType];

/**
 * The events that close the turn a stored log was cut off in; none for a balanced log. They
 * carry the time of the last event, and equal logs get equal closers. What was claimed for a
 * step that never began waits again: accepted is accepted.
 *
 * @param seedLength how many of the events another session gave
 */
export function crashClosers(
  events: readonly SessionEvent[],
  seedLength = 0,
): readonly SessionEvent[] {
  const brackets = new Brackets();
  for (const event of events) brackets.push(event);
  const { open } = brackets;
  if (open === undefined) return [];
  const time = events.at(-1)?.time ?? 0;
  const drafts = [
    ...untoldClaims(events.slice(seedLength)).map(({ target, messages }): Draft => ({
      type: 'agent/inbox/spliced',
      data: { target, start: 0, inserted: messages },
    })),
    ...closers(open, events.length, { kind: 'interrupted' }, OUTCOME_UNKNOWN),
  ];
  return drafts.map(({ type, data, sources }, index) =>
    Object.freeze({
      type,
      seq: events.length + index,
      time,
      data,
      ...(type === 'tool/result' ? { surfaceOp: 'append' as const } : {}),
      ...(sources === undefined ? {} : { sourceEventSeqs: sources }),
    }),
  ) as unknown as readonly SessionEvent[];
}

/**
 * `crashClosers` of a log as a store has it.
 * @throws {StoreError} `STORE_CORRUPT` when it contradicts itself.
 */
export function storedClosers(
  { id, seedLength }: SessionHeader,
  events: readonly SessionEvent[],
): readonly SessionEvent[] {
  try {
    return crashClosers(events, seedLength);
  } catch (error) {
    const message = `The stored log of session \`${id}\` is damaged.`;
    throw new StoreError('STORE_CORRUPT', message, { cause: error });
  }
}

/**
 * Close the open turn of a live session whose thread is gone: an error result for every call
 * without one, then the step, then the turn. Does nothing when no turn is open.
 */
export function closeOpenTurn(
  session: Session,
  reason: TurnEndReason,
  toolFailure: ToolFailure,
): void {
  const { open } = session;
  if (open === undefined) return;
  for (const { type, data, sources } of closers(open, session.seq, reason, toolFailure)) {
    session.append(type, data, sources === undefined ? undefined : { sources });
  }
}

/**
 * An error result for every call of the open step that has none: one that was made and one that
 * was only asked for. No provider takes a history with a call that nobody answered.
 */
export function closeOpenCalls(session: Session, toolFailure: ToolFailure): void {
  const { open } = session;
  if (open === undefined) return;
  for (const { type, data, sources } of callClosers(open, session.seq, toolFailure)) {
    session.append(type, data, sources === undefined ? undefined : { sources });
  }
}

function closers(
  open: OpenTurn,
  nextSeq: number,
  reason: TurnEndReason,
  failure: ToolFailure,
): readonly Draft[] {
  const { turn, step } = open;
  const drafts: Draft[] = [];
  if (step !== undefined) {
    drafts.push(...callClosers(open, nextSeq, failure));
    drafts.push({ type: 'step/end', data: { turn, step } });
  }
  drafts.push({ type: 'turn/end', data: { turn, reason } });
  return drafts;
}

function callClosers(
  { turn, step, unanswered, unstarted }: OpenTurn,
  nextSeq: number,
  failure: ToolFailure,
): readonly Draft[] {
  if (step === undefined) return [];
  const drafts: Draft[] = [];
  const result = (id: CallId, { code, message }: ToolFailure): Draft & { type: 'tool/result' } => ({
    type: 'tool/result',
    data: {
      turn,
      step,
      message: failedResult(id, nextSeq + drafts.length, message),
      error: { name: 'ToolError', code },
    },
  });
  for (const [id, { seq }] of unanswered) drafts.push({ ...result(id, failure), sources: [seq] });
  for (const id of unstarted.keys()) drafts.push(result(id, NOT_STARTED));
  return drafts;
}

/** The id is made of the call and the place, so that two readings of one log agree. */
function failedResult(id: CallId, seq: number, text: string): ToolResultMessage {
  return {
    id: MessageId(`interrupted-tool-result-${id}-${seq}`),
    role: 'user',
    content: [
      { type: 'tool-result', toolCallId: id, content: [{ type: 'text', text }], isError: true },
    ],
    source: { kind: 'tool', callId: id },
  };
}
