import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { notAnAgent } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { Activations } from './activations.ts';
import { idOf, isLive } from './lineage.ts';

/** On whose behalf a child is interrupted: a user who names its parent, or an agent above it. */
export type SubagentInterruptAuthority =
  | { readonly kind: 'user'; readonly parentSessionId: SessionId }
  | { readonly kind: 'ancestor'; readonly agent: Agent };

/**
 * Stop the open turn of a child. Returns at once: what waits for the child, its residency and its
 * own children stay. A child that is not resident, or is being released, has nothing to stop.
 *
 * @throws {ArgumentError} for a target or an authority that is none
 * @throws {SubagentError} `UNAUTHORIZED`
 */
export function interrupt(
  activations: Activations,
  target: SessionId,
  given: SubagentInterruptAuthority,
): void {
  if (typeof target !== 'string' || target === ('' as SessionId)) {
    throw new ArgumentError(
      'The subagent to interrupt is named by its id, a text that is not empty.',
    );
  }
  const authority = readOnce(given);
  // A caller is looked at before the target is: what it learns of an id depends on nothing else.
  if (authority.kind === 'ancestor') {
    const { agent } = authority;
    if (!isLive(activations.services.agents, agent)) {
      refuse(whyNotLive(agent));
    }
    if (agent.id === target) refuse('an agent cannot interrupt itself');
  }
  const activation = activations.get(target);
  if (activation === undefined) return;
  if (authority.kind === 'ancestor') {
    if (!activation.ancestry.has(authority.agent)) refuse(`"${target}" is not below it`);
  } else if (activation.parentId !== authority.parentSessionId) {
    refuse(`"${target}" is no subagent of "${authority.parentSessionId}"`);
  }
  if (activation.disposal !== undefined) return;
  const kind = authority.kind === 'ancestor' ? 'parent' : 'user';
  // What the child does next tells itself when it has become idle.
  activation.agent.cancel({ kind }, { keepInbox: true });
}

/** What is checked is what counts. */
function readOnce(given: unknown): SubagentInterruptAuthority {
  try {
    const { kind, agent, parentSessionId } = given as Record<string, unknown>;
    if (kind === 'ancestor') return { kind, agent: agent as Agent };
    if (kind === 'user' && typeof parentSessionId === 'string') {
      return { kind, parentSessionId: parentSessionId as SessionId };
    }
  } catch {
    // It is nothing, or does not let itself be looked at.
  }
  throw new ArgumentError(
    'An interrupt takes { kind: "user", parentSessionId } or { kind: "ancestor", agent }.',
  );
}

function whyNotLive(agent: unknown): string {
  try {
    return notAnAgent(agent) ?? `"${printed(idOf(agent))}" is not the live agent of that id`;
  } catch {
    // Accessors of what is no agent of ours.
    return 'what it names cannot be read';
  }
}

function refuse(why: string): never {
  throw new SubagentError('UNAUTHORIZED', `This child cannot be interrupted so: ${why}.`);
}
