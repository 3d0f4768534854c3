import type { SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { Activation } from './activation.ts';
import type { Activations } from './activations.ts';
import { noticeOf } from './settlement.ts';
import type { Settlement } from './settlement.ts';

/**
 * Tell the parent what became of a child. It is in the parent's inbox when this returns its
 * promise, which resolves when it is kept; a parent that is gone is told nothing.
 *
 * An idle parent gets a turn for it, a busy one reads it at its next step, and one that is being
 * ended is not woken. It never overtakes a report of the same child that waits for a turn, nor an
 * earlier notice.
 */
export async function deliverNotice(
  activations: Activations,
  activation: Activation,
  settlement: Settlement,
): Promise<void> {
  const { agents, admission } = activations.services;
  const parent = agents.get(activation.parentId);
  if (parent === undefined) return;
  const resident = activations.of(parent);
  const { content, source } = noticeOf(activation, activation.label, settlement);
  const message = createUserMessage(content, source);
  if (admission.isClosed(parent) || resident?.disposal !== undefined) {
    parent.inject(message);
  } else if (parent.status === 'idle' || hasToQueue(parent, activation.id)) {
    activations.account(resident, message.id, () => parent.followup(message));
  } else {
    activations.account(resident, message.id, () => parent.steer(message));
  }
  await parent.session.committed();
}

function hasToQueue({ inbox }: Agent, childId: SessionId): boolean {
  return inbox.nextTurn.some(
    ({ source }) =>
      source.kind === 'subagent-settled' ||
      (source.kind === 'subagent-report' && source.senderSessionId === childId),
  );
}
