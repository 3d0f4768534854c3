import { isNotice } from '../../protocol/content.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { Agents } from '../agent/agents.ts';
import type { Activation } from './activation.ts';
import type { Admission } from './admission.ts';
import { noticeOf } from './settlement.ts';
import type { Settlement } from './settlement.ts';

/** Who else is resident. */
interface Residents {
  readonly services: { readonly agents: Agents; readonly admission: Admission };
  of(agent: Agent): Activation | undefined;
}

/**
 * Tell the parent what became of a child. It is in the parent's inbox when this returns its
 * promise, which resolves when it is kept; a parent that is gone is told nothing.
 *
 * An idle parent gets a turn for it, a busy one reads it at its next step, and one that is being
 * ended is not woken. It never overtakes what the same child reported, nor an earlier notice that
 * opens the parent's next turn: there it waits in the same list, behind that.
 */
export async function deliverNotice(
  residents: Residents,
  { id, label, agent, parentId }: Activation,
  settlement: Settlement,
): Promise<void> {
  const { agents, admission } = residents.services;
  const parent = agents.get(parentId);
  if (parent === undefined) return;
  const resident = residents.of(parent);
  const { content, source } = noticeOf({ id, label, lastTurn: agent.session.lastTurn }, settlement);
  const message = createUserMessage(content, source);
  const isQueued = hasToQueue(parent, id);
  // From the look at the parent to its inbox there is no await: what ends it comes before or after.
  if (admission.isClosed(parent) || resident?.disposal !== undefined) {
    if (isQueued) agents.enqueue(parent, message);
    else parent.inject(message);
  } else if (isQueued || parent.status === 'idle') {
    parent.followup(message);
  } else {
    parent.steer(message);
  }
  await parent.session.committed();
}

function hasToQueue(parent: Agent, childId: SessionId): boolean {
  if (hasQueued(parent, childId)) return true;
  // An idle parent is running from its first notice on, before that has opened a turn.
  if (parent.session.open !== undefined) return false;
  return parent.inbox.nextTurn.some(({ source }) => isNotice(source));
}

/**
 * A report or a notice of this child waits in its parent for a turn of its own. What joins the
 * next step comes before that: so whatever the child says meanwhile has to wait in the same list.
 */
export const hasQueued = ({ inbox }: Agent, childId: SessionId): boolean =>
  inbox.nextTurn.some(
    ({ source }) =>
      (source.kind === 'subagent-report' || source.kind === 'subagent-settled') &&
      source.senderSessionId === childId,
  );
