import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';

/** The registry whose exact objects are the authority. */
export interface LiveAgents {
  get(id: SessionId): Agent | undefined;
}

/** The id that something says it has. Whatever it is, asking it does not throw. */
export function idOf(agent: unknown): SessionId | undefined {
  try {
    return (agent as Agent | null | undefined)?.id;
  } catch {
    return undefined;
  }
}

/** Is this the very object that is registered under its id? */
export function isLive(agents: LiveAgents, agent: Agent | undefined): boolean {
  const id = idOf(agent);
  return id !== undefined && agents.get(id) === agent;
}

/**
 * An agent and those above it that are live now, nearest first: by what their headers say of
 * their parents. An ancestor that is gone ends it.
 */
export function lineageOf(agents: LiveAgents, agent: Agent): readonly Agent[] {
  const lineage = new Set<Agent>();
  let next: Agent | undefined = agent;
  while (next !== undefined && !lineage.has(next)) {
    lineage.add(next);
    const parentId = parentIdOf(next);
    next = parentId === undefined ? undefined : agents.get(parentId);
  }
  return [...lineage];
}

/** What only passes for an agent belongs to nobody. */
function parentIdOf(agent: Agent): SessionId | undefined {
  try {
    return agent.session.header.parentSession;
  } catch {
    return undefined;
  }
}
