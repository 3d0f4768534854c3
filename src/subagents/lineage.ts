import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';

/** The registry whose exact objects are the authority. */
export interface LiveAgents {
  get(id: SessionId): Agent | undefined;
}

/** Is this the very object that is registered under its id? */
export const isLive = (agents: LiveAgents, agent: Agent | undefined): boolean =>
  agent !== undefined && agents.get(agent.id) === agent;

/**
 * An agent and those above it that are live now, nearest first: by what their headers say of
 * their parents. An ancestor that is gone ends it.
 */
export function lineageOf(agents: LiveAgents, agent: Agent): readonly Agent[] {
  const lineage = new Set<Agent>();
  let next: Agent | undefined = agent;
  while (next !== undefined && !lineage.has(next)) {
    lineage.add(next);
    const { parentSession }: { parentSession?: SessionId } = next.session.header;
    next = parentSession === undefined ? undefined : agents.get(parentSession);
  }
  return [...lineage];
}
