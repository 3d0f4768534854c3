import { deepFreeze } from '../../protocol/json.ts';
import type { AgentHooks } from '../agent/hooks.ts';
import type { OpenTurn } from './open-turn.ts';
import type { Residency } from './residency.ts';
import type { ServedAgent } from './served-agent.ts';
import { whileRunning } from './while-running.ts';

type Context<T extends keyof AgentHooks> = AgentHooks[T]['context'];

/**
 * Ask the hooks of one kind about an open turn. They are shown data that they cannot change:
 * what they want otherwise they decide. A hook may wait for a child of its agent, so the agent
 * counts as waiting meanwhile.
 *
 * Rejects with what a hook throws, and when the turn or its thread ends meanwhile.
 */
export async function askHooks<T extends keyof AgentHooks>(
  type: T,
  { agent, residency, turn }: { agent: ServedAgent; residency: Residency; turn: OpenTurn },
  about: Omit<Context<T>, 'agent' | 'turn' | 'signal'>,
  last: () => AgentHooks[T]['decision'],
): Promise<AgentHooks[T]['decision']> {
  if (!agent.hooks.has(type, agent.agent)) return last();
  const context = Object.freeze({
    ...deepFreeze(about),
    agent: agent.agent,
    turn: turn.number,
    signal: turn.signal,
  }) as unknown as Context<T>;
  const answered = agent.asking();
  try {
    return await whileRunning(turn, residency, () => agent.hooks.run(type, context, last));
  } finally {
    answered();
  }
}
