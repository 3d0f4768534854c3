/** What a model is told of a call that was refused: what happened, and what it can do next. */
import { HarnessError, SubagentDepthError } from '../../protocol/errors.ts';
import type { ErrorCode } from '../../protocol/errors.ts';
import { NoPlaceError } from '../subagents/places.ts';

type Advice = Readonly<Partial<Record<ErrorCode, string>>>;

const ENDING = 'You are being ended yourself: finish with what you have.';

const FINAL = 'Do the task yourself.';

/** For a start. */
export const START_ADVICE: Advice = {
  CAPACITY: 'Do the task yourself, or start it again once one of your subagents has finished.',
  NO_PROVIDER: 'Subagents of this kind are not available now. Do the task yourself.',
  PERSISTENCE_UNAVAILABLE: 'Do the task yourself.',
  CONTINUATION_UNAVAILABLE: 'Do the task yourself.',
  ACTIVATION_SETUP_REVOKED: 'Nothing was started: call again.',
  DRAINING: ENDING,
  ACTIVATION_CLOSING: ENDING,
};

/** For a message to a subagent. */
export const SEND_ADVICE: Advice = {
  UNAUTHORIZED:
    '`list_agents` shows the subagents you started; only to them can you send messages, not to ' +
    'those below them.',
  NOT_RESUMABLE: 'Start a new subagent for this work if it still has to be done.',
  CAPACITY: 'Send it again later, once your subagents have done some of their work.',
  ACTIVATION_SETUP_REVOKED: 'Send it again.',
  DRAINING: ENDING,
  ACTIVATION_CLOSING: ENDING,
};

/** For an interrupt. */
export const INTERRUPT_ADVICE: Advice = {
  UNAUTHORIZED:
    '`list_agents` with scope "descendants" shows whom you can interrupt: the agents below you.',
};

/** For a report to the parent. */
export const REPORT_ADVICE: Advice = {
  PARENT_UNAVAILABLE:
    'Go on without it: your last message is handed over in any case, put it in there.',
  CAPACITY: 'Go on without it, and put it into your last message.',
  UNAUTHORIZED: 'There is nobody to report to: put it into your last message.',
  DRAINING: ENDING,
  ACTIVATION_CLOSING: ENDING,
};

/** For what is done with a job. */
export const JOB_ADVICE: Advice = {
  UNAUTHORIZED:
    'Job ids are those that your own calls returned, in this process; one that ended long ago is ' +
    'forgotten.',
};

/**
 * The error of the call, with the same code. What is no error of ours, the reason of an abort
 * among them, is told as it is.
 */
export function withAdvice(error: unknown, headline: string, advice: Advice): unknown {
  if (!(error instanceof HarnessError)) return error;
  if (error instanceof SubagentDepthError) {
    return new HarnessError(
      'DEPTH_EXCEEDED',
      `You cannot delegate from here: a subagent would be at depth ${error.attemptedDepth}, and ` +
        `${error.maxDepth} is the limit. Do the task yourself.`,
      { cause: error },
    );
  }
  const isFinal = error instanceof NoPlaceError && error.isFinal;
  const next = isFinal ? FINAL : advice[error.code];
  return new HarnessError(
    error.code,
    [headline, error.message, ...(next === undefined ? [] : [next])].join(' '),
    { cause: error },
  );
}
