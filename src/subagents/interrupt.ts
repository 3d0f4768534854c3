import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';
import type { Activations } from './activations.ts';
import { isLive } from './lineage.ts';

/** On whose behalf a child is interrupted: a user who names its parent, or an agent above it. */
export type SubagentInterruptAuthority =
  | { readonly kind: 'user'; readonly parentSessionId: SessionId }
  | { readonly kind: 'ancestor'; readonly agent: Agent };

/**
 * Stop the open turn of a child. Returns at once: what waits for the child, its residency and its
 * own children stay. A child that is not resident, or is being released, has nothing to stop.
 *
 * @throws {SubagentError} `UNAUTHORIZED`
 */
export function interrupt(
  activations: Activations,
  target: SessionId,
  authority: SubagentInterruptAuthority,
): void {
  const isAncestor = authority?.kind === 'ancestor';
  if (!isAncestor && authority?.kind !== 'user') {
    throw new ArgumentError('An interrupt takes an authority of the kind "user" or "ancestor".');
  }
  // A caller is looked at before the target is: what it learns of an id depends on nothing else.
  if (isAncestor) {
    if (!isLive(activations.services.agents, authority.agent)) {
      refuse(`"${authority.agent?.id}" is not the live agent of that id`);
    }
    if (authority.agent.id === target) refuse('an agent cannot interrupt itself');
  }
  const activation = activations.get(target);
  if (activation === undefined) return;
  if (isAncestor) {
    if (!activation.ancestry.has(authority.agent)) refuse(`"${target}" is not below it`);
  } else if (activation.parentId !== authority.parentSessionId) {
    refuse(`"${target}" is no subagent of "${authority.parentSessionId}"`);
  }
  if (activation.disposal !== undefined) return;
  activation.agent.cancel({ kind: isAncestor ? 'parent' : 'user' }, { keepInbox: true });
  // An interrupted child without anything that waits has nothing more to do.
  activations.review(activation);
}

function refuse(why: string): never {
  throw new SubagentError('UNAUTHORIZED', `This child cannot be interrupted so: ${why}.`);
}
