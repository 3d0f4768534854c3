import type { ContentBlock } from '../../protocol/content.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { MessageId } from '../../protocol/ids.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { Activations } from './activations.ts';

/**
 * How a report reaches the parent: `wakeup` is a later turn of its own, `next-step` joins the
 * open turn or opens one, `quiet` waits for whatever comes next.
 */
export type ReportDelivery = 'quiet' | 'wakeup' | 'next-step';

/** What the report of a child is delivered with. */
export interface ReportOptions {
  readonly delivery: ReportDelivery;
  readonly signal?: AbortSignal;
}

const DELIVERIES: readonly string[] = ['quiet', 'wakeup', 'next-step'];

/** From the look at the child to the parent's inbox there is no await. */
export async function reportFrom(
  activations: Activations,
  child: Agent,
  content: readonly ContentBlock[],
  { delivery, signal }: ReportOptions,
): Promise<{ messageId: MessageId }> {
  if (!DELIVERIES.includes(delivery)) {
    throw new ArgumentError(`A report is delivered as one of: ${DELIVERIES.join(', ')}.`);
  }
  signal?.throwIfAborted();
  const { agents, admission } = activations.services;
  admission.assertOpen(child);
  const activation = activations.of(child);
  if (activation === undefined) {
    throw new SubagentError(
      'UNAUTHORIZED',
      `"${child.id}" is no resident subagent; it has nobody to report to.`,
    );
  }
  if (activation.disposal !== undefined) {
    throw new SubagentError('ACTIVATION_CLOSING', `The subagent "${child.id}" is being released.`);
  }
  const parent = agents.get(activation.parentId);
  if (parent === undefined) throw parentUnavailable(activation.parentId);
  const message = createUserMessage(
    [
      { type: 'text', text: `Your subagent "${activation.label}" (id ${child.id}) reports:` },
      ...content,
    ],
    { kind: 'subagent-report', form: 'relay', senderSessionId: child.id },
  );
  const resident = activations.of(parent);
  try {
    if (delivery === 'quiet') parent.inject(message);
    else if (delivery === 'wakeup') {
      activations.account(resident, message.id, () => parent.followup(message));
    } else {
      activations.account(resident, message.id, () => parent.steer(message));
    }
  } catch (error) {
    throw parentUnavailable(parent.id, error);
  }
  await parent.session.committed();
  return { messageId: message.id };
}

const parentUnavailable = (id: string, cause?: unknown): SubagentError =>
  new SubagentError(
    'PARENT_UNAVAILABLE',
    `The parent "${id}" takes no report now.`,
    cause === undefined ? undefined : { cause },
  );
