/** What a model is told of a delegation tool: what happens, what comes back, what not to do. */
import type { SubagentProvider } from '../subagents/provider.ts';

/** When a call does not wait for the child, and what then tells of its end. */
export type BackgroundPolicy = 'none' | 'one-shot' | 'continuable';

export interface Wording {
  readonly provider: Pick<SubagentProvider, 'inheritsParentContext'>;
  readonly policy: BackgroundPolicy;
  /** Answers are values of a schema. */
  readonly structured: boolean;
}

const TASK =
  'Give one task to a subagent: another agent that works on it by itself, in its own conversation.';
const OVERLAP =
  'Calls made in one response run at the same time: split independent work into one call per part.';

export function describeTool({ provider, policy, structured }: Wording): string {
  const known = provider.inheritsParentContext
    ? 'It knows this conversation up to your last finished turn, but not the current one.'
    : 'It knows nothing of this conversation.';
  const answer = structured ? 'The answer is JSON.' : 'The answer is the last thing it writes.';
  switch (policy) {
    case 'none':
      return [
        TASK,
        'You wait for its answer; you cannot talk to the subagent meanwhile.',
        known,
        answer,
        OVERLAP,
        FAILURE,
      ].join(' ');
    case 'one-shot':
      return [
        TASK,
        'You wait for its answer, unless you set `run_in_background`: then the call returns a job',
        'id at once and you go on. When the job has ended you get a message with its answer; do',
        'not ask for it over and over. `job_output` waits for the answer where you cannot go on',
        'without it, `job_kill` ends a job that is not needed any more. You cannot talk to the',
        'subagent meanwhile, and it takes no second task.',
        known,
        answer,
        OVERLAP,
        FAILURE,
      ].join(' ');
    case 'continuable':
      return [
        TASK,
        'It runs in the background by default: the call returns the id of the subagent at once and',
        'you go on. When the subagent has finished you get a message with its outcome and its last',
        'words, also after you have ended your turn; so do not wait for it, do not ask how far it',
        'is, and do not do its task yourself. It keeps its conversation: with `send_message` and',
        'its id you give it more work or answer it, at any time.',
        'Set `run_in_background` to false only if you can do nothing without the answer: the call',
        'then waits for it, and that subagent is gone afterwards and takes no message.',
        known,
        OVERLAP,
        FAILURE,
      ].join(' ');
    default:
      return policy satisfies never;
  }
}

const FAILURE =
  'If a call fails, its message says why and holds whatever the subagent had written.';

export function describePrompt({ provider }: Wording): string {
  return provider.inheritsParentContext
    ? 'What to do and what to hand back; facts of the current turn must be repeated here.'
    : 'The whole task: the goal, every fact and path it needs, and what to hand back.';
}

export function describeBackground(policy: 'one-shot' | 'continuable'): string {
  return policy === 'one-shot'
    ? 'Return a job id at once instead of waiting for the answer. Default: false.'
    : 'Return at once and be told when the subagent has finished. Default: true. With false you ' +
        'wait for the answer, and the subagent cannot be sent messages afterwards.';
}

/** The section of the system prompt that comes with a tool whose children go on. */
export const describeSection = (toolName: string): string =>
  [
    `A subagent that you start with \`${toolName}\` works in the background unless you ask to wait.`,
    'When it has finished, you get a notice with its outcome and its final message, by itself: end',
    'your turn when there is nothing else to do, and go on when the notice comes. Do not poll and',
    'do not guess what it will find. A notice that says it failed or was stopped holds what there',
    'was by then: that is no final answer. A subagent that has finished is only idle: send it a',
    'message, rather than starting a new one, when the new work builds on what it knows.',
  ].join(' ');
