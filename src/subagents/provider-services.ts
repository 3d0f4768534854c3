import type { Agents } from '../agent/agents.ts';
import type { SubagentProvider } from './provider.ts';

/**
 * The part of the agents of a harness that a provider makes children with.
 * @inline
 */
export type AgentsService = Pick<Agents, 'create' | 'observers'>;

/** What a harness gives to the providers it makes. */
export interface ProviderServices {
  readonly agents: AgentsService;
}

/** Called once per harness. */
export type ProviderFactory = (services: ProviderServices) => SubagentProvider;
