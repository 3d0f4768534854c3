import { printed } from '../../protocol/error-record.ts';
import { SubagentError } from '../../protocol/errors.ts';
import type { Agent } from '../agent/agent.ts';
import { idOf, lineageOf } from './lineage.ts';
import type { LiveAgents } from './lineage.ts';

/**
 * Who may still get new children or messages. Closing is per exact root object, until that very
 * object has left the registry: another agent of its id is another matter.
 */
export class Admission {
  readonly #agents: LiveAgents;
  readonly #closed = new Map<Agent, WeakSet<Agent>>();
  #isDraining = false;

  constructor(agents: LiveAgents) {
    this.#agents = agents;
  }

  /** For everybody, for good. */
  closeAll(): void {
    this.#isDraining = true;
  }

  /** For this agent and all below it. Idempotent. */
  close(root: Agent, members: Iterable<Agent>): void {
    let known = this.#closed.get(root);
    if (known === undefined) this.#closed.set(root, (known = new WeakSet()));
    for (const member of members) known.add(member);
  }

  /** The agent has left the registry: nobody can act as it any more. */
  forget(agent: Agent): void {
    this.#closed.delete(agent);
  }

  isClosed(agent: Agent): boolean {
    if (this.#isDraining) return true;
    if (this.#closed.size === 0) return false;
    const lineage = lineageOf(this.#agents, agent);
    for (const [root, members] of this.#closed) {
      if (members.has(agent) || lineage.includes(root)) return true;
    }
    return false;
  }

  /** @throws {SubagentError} `DRAINING` */
  assertOpen(agent: Agent): void {
    if (!this.isClosed(agent)) return;
    throw new SubagentError(
      'DRAINING',
      `What belongs to the agent "${printed(idOf(agent))}" is being ended, or was ended for good: nothing new is taken on there.`,
    );
  }
}
