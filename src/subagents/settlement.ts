/** What became of one residency of a continuable child, and the words in which its parent is told. */
import type { ContentBlock, SubagentSettledMessageSource } from '../../protocol/content.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { foldConsumedWork } from '../session/consumed-work.ts';
import { finalOutput } from '../session/output.ts';
import type { Activation } from './activation.ts';
import type { SubagentStopReason } from './provider.ts';

export interface Settlement {
  readonly stopReason: SubagentStopReason;
  readonly output: readonly ContentBlock[];
  /** Messages that stay in the store, and run first when it is told something again. */
  readonly waiting: number;
  /** Waiting messages that were thrown away. */
  readonly discarded: number;
}

/** Read from the child's own log of this residency; nothing of an earlier one counts. */
export function settlementOf(activation: Activation): Settlement {
  const { agent, boundary, discarded, hasAccepted, accepted } = activation;
  const events = agent.session.eventsFrom(boundary);
  const waiting = agent.inbox.nextTurn.length + agent.inbox.nextStep.length;
  return {
    stopReason: stopReasonOf(events, accepted.size > 0, hasAccepted),
    output: finalOutput(events) ?? [],
    waiting,
    discarded,
  };
}

/** Its release failed: what it said before cannot be relied on. */
export const failedSettlement = ({ waiting, discarded }: Settlement): Settlement => ({
  stopReason: 'error',
  output: [],
  waiting,
  discarded,
});

/** @param isCut something it was given was not told to it */
function stopReasonOf(
  events: readonly SessionEvent[],
  isCut: boolean,
  hasAccepted: boolean,
): SubagentStopReason {
  const { end, droppedUnrun } = foldConsumedWork(events);
  const kind = end?.data.reason.kind;
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
      return droppedUnrun || isCut ? 'aborted' : 'completed';
    case undefined:
      return droppedUnrun || isCut || !hasAccepted ? 'aborted' : 'completed';
    // Open for new kinds: an unknown one is a failure.
    default:
      return 'error';
  }
}

const OUTCOMES: Readonly<Record<string, string>> = {
  completed: 'has finished, and is idle until you send it more work',
  aborted: 'was stopped before it finished',
  'max-tokens': 'ran out of room for its answer before it finished',
  refusal: 'declined what it was asked',
  error: 'failed before it finished',
};

/** UTF-16 units of a summary. */
const SUMMARY_CHARS = 120;

/** The notice for the parent: what happened, then what the child said last. */
export function noticeOf(
  { id, agent }: Activation,
  label: string,
  settlement: Settlement,
): { content: ContentBlock[]; source: SubagentSettledMessageSource } {
  const { stopReason, output, waiting, discarded } = settlement;
  const outcome = OUTCOMES[stopReason] ?? `ended abnormally (${stopReason}) before it finished`;
  const sentences = [`Your subagent "${label}" (id ${id}) ${outcome}.`];
  if (waiting > 0)
    sentences.push(`${messages(waiting)} for it still; the next one you send runs after them.`);
  if (discarded > 0)
    sentences.push(
      `${discarded} that waited for it ${discarded === 1 ? 'was' : 'were'} thrown away.`,
    );
  const text = sentences.join(' ');
  const summary = text.length <= SUMMARY_CHARS ? text : `${text.slice(0, SUMMARY_CHARS - 1)}…`;
  const content: ContentBlock[] = [{ type: 'text', text }];
  if (output.length === 0) {
    content.push({ type: 'text', text: 'It left no closing message.' });
  } else {
    content.push({ type: 'text', text: 'The last it said:' }, ...output);
  }
  return {
    content,
    source: {
      kind: 'subagent-settled',
      form: 'notice',
      summary,
      senderSessionId: id,
      turn: agent.session.lastTurn,
    },
  };
}

const messages = (count: number): string =>
  count === 1 ? '1 message waits' : `${count} messages wait`;
