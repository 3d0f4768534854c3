import { isNotice } from '../../protocol/content.ts';
import type { ContentBlock, JobSettledMessageSource } from '../../protocol/content.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import { shortened } from '../subagents/settlement.ts';
import type { JobView } from './job.ts';

const OUTCOMES: Readonly<Record<string, string>> = {
  completed: 'has finished',
  killed: 'was stopped before it finished',
  failed: 'failed',
};
const LEAD_INS: Readonly<Record<string, string>> = {
  completed: 'Its answer:',
  killed: 'What is known of it:',
  failed: 'What is known of it:',
};
/** UTF-16 units of a summary, and of a label in it, which leaves room for what happened. */
const SUMMARY_CHARS = 120;
const LABEL_CHARS = 40;

/**
 * Tell an agent what became of a job of its: accepted when this returns. An idle one gets a turn
 * for it, a busy one reads it at its next step, one that takes on nothing any more is not woken.
 *
 * @throws whatever keeps the agent from accepting it
 */
export function deliverJobNotice(agent: Agent, job: JobView, isAdmitted: boolean): void {
  const { content, source } = noticeOf(job);
  const message = createUserMessage(content, source);
  if (!isAdmitted) agent.inject(message);
  else if (agent.status === 'idle' || awaitsTurnOfNotices(agent)) agent.followup(message);
  else agent.steer(message);
}

/** An idle agent is running from its first notice on, before that has opened its turn. */
const awaitsTurnOfNotices = ({ session, inbox }: Agent): boolean =>
  session.open === undefined && inbox.nextTurn.some(({ source }) => isNotice(source));

function noticeOf({ jobId, label, status, text = '' }: JobView): {
  content: ContentBlock[];
  source: JobSettledMessageSource;
} {
  const name = `Your background job "${shortened(label.trim().replace(/\s+/gu, ' '), LABEL_CHARS)}"`;
  const outcome = OUTCOMES[status] ?? 'has ended';
  return {
    content: [
      { type: 'text', text: `${name} (job ${jobId}) ${outcome}. ${LEAD_INS[status] ?? ''}\n` },
      { type: 'text', text },
    ],
    source: {
      kind: 'job-settled',
      form: 'notice',
      summary: shortened(`${name} ${outcome}.`, SUMMARY_CHARS),
      jobId,
    },
  };
}
