/** What became of one residency of a continuable child, and the words in which its parent is told. */
import { isNotice, textOf } from '../../protocol/content.ts';
import type {
  ContentBlock,
  SubagentSettledMessageSource,
  UserMessage,
} from '../../protocol/content.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { AgentFailure } from '../agent/agent.ts';
import { foldConsumedWork } from '../session/consumed-work.ts';
import { finalOutput } from '../session/output.ts';
import { splice } from '../session/waiting.ts';
import type { Waiting } from '../session/waiting.ts';
import type { Activation } from './activation.ts';
import { boundDiagnostic } from './diagnostic.ts';
import type { SubagentStopReason } from './provider.ts';

export interface Outcome {
  readonly stopReason: SubagentStopReason;
  readonly output: readonly ContentBlock[];
  /** Why it failed, or why it declined: `CODE: message` in one line, within the bound of a run's. */
  readonly diagnostic?: string;
}

/** How many of the messages it was given were not told to it, and what became of those. */
export interface Fates {
  /** They stay in the store, and run first when it is told something again. */
  readonly waiting: number;
  /** They waited, and were thrown away. */
  readonly discarded: number;
  /** A turn took them up, and ended before a step of it told them. */
  readonly untold: number;
}

export interface Settlement extends Outcome, Fates {
  /** It did not end by itself: its process did. */
  readonly isCutOff?: boolean;
}

/** For one that could not be released: what it said before cannot be relied on. */
export const failedBy = (failure: AgentFailure): Outcome => ({
  stopReason: 'error',
  output: [],
  diagnostic: inOneLine(failure),
});
export const NO_FATES: Fates = { waiting: 0, discarded: 0, untold: 0 };

/** What somebody chose to tell it; notices of the runtime are not counted as messages. */
const isTold = ({ source }: UserMessage): boolean => !isNotice(source);

/** Read from the child's own log of this residency; nothing of an earlier one counts. */
export function outcomeOf(activation: Activation): Outcome {
  const { agent, handle, boundary, hasAccepted, failure } = activation;
  const events = agent.session.eventsFrom(boundary);
  const stopReason = stopReasonOf(events, {
    isCut: handle.hasTurn,
    hasFailed: handle.parkedBy === 'failure',
    hasAccepted,
  });
  return { stopReason, output: finalOutput(events) ?? [], ...whyOf(events, stopReason, failure) };
}

/** @param failure the last one that was told of the child, which its log may not have */
export function whyOf(
  events: readonly SessionEvent[],
  stopReason: SubagentStopReason,
  failure?: AgentFailure,
): Pick<Outcome, 'diagnostic'> {
  const ended = foldConsumedWork(events).end?.data.reason;
  if (stopReason === 'refusal') {
    if (ended?.kind !== 'blocked' || ended.reason === undefined) return {};
    return { diagnostic: inOneLine({ code: 'BLOCKED', message: ended.reason }) };
  }
  if (stopReason !== 'error') return {};
  const why = ended?.kind === 'error' ? ended.error : failure;
  return why === undefined ? {} : { diagnostic: inOneLine(why) };
}

/** For people and models that read it between other words. */
export const inOneLine = ({ code, message }: AgentFailure): string =>
  boundDiagnostic(`${code}: ${message}`.trim().replace(/\s+/gu, ' '));

/** Read from the same part of the log, when nothing is added to it any more. */
export function fatesOf({ agent, boundary, waitedBefore, withdrawn }: Activation): Fates {
  return foldFates(agent.session.eventsFrom(boundary), waitedBefore, withdrawn);
}

/**
 * Every message ends in one of three ways: a step told it, or it waits, or it never will be told.
 *
 * @param before what waited when these events begin
 * @param withdrawn never kept, so nobody counts on them
 */
export function foldFates(
  events: readonly SessionEvent[],
  before: Waiting,
  withdrawn: ReadonlySet<MessageId> = new Set(),
): Fates {
  const waiting = { 'next-turn': [...before['next-turn']], 'next-step': [...before['next-step']] };
  const untold = new Set<MessageId>();
  let taken: MessageId[] = [];
  let discarded = 0;
  const takenUp = (): void => {
    for (const id of taken) untold.add(id);
    taken = [];
  };
  for (const event of events) {
    switch (event.type) {
      case 'step/start':
        taken = [];
        break;
      case 'turn/end':
        takenUp();
        break;
      case 'agent/inbox/spliced': {
        const { inserted, outcome } = event.data;
        const removed = splice(waiting, event.data).filter(isTold);
        if (outcome === undefined) taken.push(...removed.map(({ id }) => id));
        // With something put in its place it is an edit, not a drop.
        else if (inserted.length === 0) {
          discarded += removed.filter(({ id }) => !withdrawn.has(id)).length;
        }
        // It was put back, and waits again.
        for (const { id } of inserted) {
          untold.delete(id);
          taken = taken.filter((one) => one !== id);
        }
        break;
      }
      default:
    }
  }
  takenUp();
  const left = [...waiting['next-turn'], ...waiting['next-step']].filter(isTold);
  return { waiting: left.length, discarded, untold: untold.size };
}

interface Circumstances {
  /** Something it was given was not told to it. */
  readonly isCut: boolean;
  /** What kept that from it was a failure, such as of its thread between two turns. */
  readonly hasFailed: boolean;
  readonly hasAccepted: boolean;
}

export function stopReasonOf(
  events: readonly SessionEvent[],
  { isCut, hasFailed, hasAccepted }: Circumstances,
): SubagentStopReason {
  const { end, droppedUnrun } = foldConsumedWork(events);
  const kind = end?.data.reason.kind;
  // Something it was given after that turn was kept from it by a failure.
  if (hasFailed && isCut) return kind === 'blocked' ? 'refusal' : 'error';
  switch (kind) {
    case 'max-tokens':
    case 'error':
      return kind;
    case 'blocked':
      return 'refusal';
    case 'aborted':
    case 'interrupted':
      return 'aborted';
    case 'completed':
    case undefined:
      if (droppedUnrun || isCut) return 'aborted';
      return kind === undefined && !hasAccepted ? 'aborted' : 'completed';
    // Open for new kinds: an unknown one is a failure.
    default:
      return 'error';
  }
}

const OUTCOMES: ReadonlyMap<string, string> = new Map([
  ['completed', 'has finished'],
  ['aborted', 'was stopped before it finished'],
  ['max-tokens', 'ran out of room for its answer before it finished'],
  ['refusal', 'declined what it was asked'],
  ['error', 'failed before it finished'],
]);

/** UTF-16 units of a summary, and of a label in it, which leaves room for what happened. */
const SUMMARY_CHARS = 120;
const LABEL_CHARS = 40;

/**
 * The notice for the parent: what happened and what comes next, then what the child said last.
 */
export function noticeOf(
  {
    id,
    label,
    lastTurn,
  }: { readonly id: SessionId; readonly label: string; readonly lastTurn: number },
  settlement: Settlement,
): { content: ContentBlock[]; source: SubagentSettledMessageSource } {
  const { stopReason, output, diagnostic, waiting, discarded, untold, isCutOff } = settlement;
  const outcome =
    isCutOff === true
      ? 'was cut off when the process ended'
      : (OUTCOMES.get(stopReason) ?? `ended abnormally (${stopReason}) before it finished`);
  const why = diagnostic === undefined ? '' : ` (${diagnostic})`;
  const next =
    waiting === 0
      ? 'and is idle until you send it more work.'
      : `and is idle. ${messages(waiting, 'waits', 'wait')} for it still: what you send it next ` +
        `wakes it, and runs after ${waiting === 1 ? 'that one' : 'those'}.`;
  const thrown =
    discarded === 0
      ? ''
      : ` ${messages(discarded, 'that waited for it was', 'that waited for it were')} thrown away ` +
        'and will not run.';
  const lost =
    untold === 0
      ? ''
      : ` ${messages(untold, 'that it had taken up was', 'that it had taken up were')} not told to ` +
        'it and will not run.';
  const name = `Your subagent "${shortened(label, LABEL_CHARS)}"`;
  const said = `${outcome}${why}, ${next}${thrown}${lost}`;
  return {
    content: [
      { type: 'text', text: `${name} (id ${id}) ${said}\n` },
      { type: 'text', text: leadIn(stopReason, output) },
      ...output,
    ],
    source: {
      kind: 'subagent-settled',
      form: 'notice',
      summary: shortened(`${name} ${said}`, SUMMARY_CHARS),
      senderSessionId: id,
      turn: lastTurn,
      stopReason,
      waiting,
    },
  };
}

function leadIn(stopReason: SubagentStopReason, output: readonly ContentBlock[]): string {
  if (output.length === 0) return 'It left no closing message.';
  // Reasoning and calls are no words for somebody else.
  if (textOf(output).trim() === '') return 'It left no closing message in words.';
  return stopReason === 'completed'
    ? 'Its closing message:\n'
    : 'What it had said by then, which is not a final answer:\n';
}

const messages = (count: number, one: string, many: string): string =>
  count === 1 ? `1 message ${one}` : `${count} messages ${many}`;

/** At most this many UTF-16 units, without half of a character at the end. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 2);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, isHalf ? most - 2 : most - 1)}…`;
}
