import { SubagentError } from '../../protocol/errors.ts';
import type { Agent, AgentHandle } from './agent.ts';
import type { PendingInput } from './agent-host.ts';

/** What is known of one live agent besides itself. */
export interface Entry {
  readonly handle: AgentHandle;
  readonly children: Set<AgentHandle>;
  /** Children that are being made. */
  readonly makings: Set<Promise<void>>;
  /** Aborted when it is being disposed: it owns nothing new. */
  readonly ending: AbortController;
  dispose(pending: PendingInput): Promise<void>;
}

export const ownerGone = (owner: Agent): SubagentError =>
  new SubagentError('UNAUTHORIZED', `The agent "${owner.id}" is not live; it can own no child.`);
