import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from './agent.ts';

/** The live agents. An entry's identity, not its id, is what authorises. */
export class Directory {
  readonly #agents = new Map<SessionId, Agent>();

  /** @throws {ArgumentError} when another live agent has this id. */
  add(agent: Agent): void {
    if (this.#agents.has(agent.id)) {
      throw new ArgumentError(`An agent "${agent.id}" is live already.`);
    }
    this.#agents.set(agent.id, agent);
  }

  /** Only the very agent leaves; a later one of the same id stays. */
  remove(agent: Agent): void {
    if (this.isLive(agent)) this.#agents.delete(agent.id);
  }

  get(id: SessionId): Agent | undefined {
    return this.#agents.get(id);
  }

  /** Is this the very object that is registered under its id? */
  isLive(agent: Agent): boolean {
    return this.#agents.get(agent.id) === agent;
  }

  /** In the order of their publication. */
  list(): readonly Agent[] {
    return [...this.#agents.values()];
  }
}
