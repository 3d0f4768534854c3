import { SubagentError } from '../../protocol/errors.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import { Patience } from '../base/patience.ts';
import { Scope } from '../base/scope.ts';

/**
 * What is to be undone with one agent. Code of callers, which may never be done: it is waited for
 * no longer than the agent's own thread, from the tick in which its end is decided. Then a
 * warning names the agent, its end tells of the failure, and what still comes is dropped.
 */
export class AgentScope extends Scope {
  readonly #id: string;
  readonly #patience: Patience;
  readonly #logger: Logger;

  constructor(id: string, patience: Patience, logger: Logger) {
    super();
    this.#id = id;
    this.#patience = patience;
    this.#logger = logger;
  }

  /** The end of its agent is decided. Idempotent. */
  expectEnd(): void {
    this.#patience.begin(this);
  }

  override dispose(): Promise<void> {
    this.expectEnd();
    return super.dispose();
  }

  protected override async waitFor(done: void | Promise<void>): Promise<void> {
    // Most are done when they return: no timer is set for those.
    if (done === undefined) return;
    try {
      await this.#patience.await(this, Promise.resolve(done));
    } catch (error) {
      if (error instanceof Late) {
        const fields = { agent: this.#id, error: toErrorRecord(error) };
        this.#logger.warn(fields, 'What was to be undone with an agent was not done in time.');
      }
      throw error;
    }
  }
}

class Late extends SubagentError {}

/** How long agents of one program wait for what their setups registered. */
export const setupPatience = (clock: Clock, ms: number): Patience =>
  new Patience(clock, ms, (within) => {
    const text = `What a setup registered with onDispose was not done within ${within} ms.`;
    return new Late('ACTIVATION_TEARDOWN_FAILED', text);
  });
