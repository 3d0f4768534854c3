import { toErrorRecord } from '../../protocol/error-record.ts';
import type { Agent } from '../agent/agent.ts';
import type { Logger } from '../base/logger.ts';
import type { SubagentRun } from './provider.ts';

/**
 * Runs without an agent here, by their parent, until their result is there. A child of this
 * process ends with its parent because it belongs to it; of any other only its run is known, so
 * that is what is disposed.
 */
export class RemoteRuns {
  readonly #runs = new Map<Agent, Set<SubagentRun>>();
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(parent: Agent, run: SubagentRun): void {
    let runs = this.#runs.get(parent);
    if (runs === undefined) this.#runs.set(parent, (runs = new Set()));
    runs.add(run);
    const forget = (): void => {
      runs.delete(run);
      if (runs.size === 0 && this.#runs.get(parent) === runs) this.#runs.delete(parent);
    };
    Promise.resolve(run.result).then(forget, forget);
  }

  /** The parent is ending: so are its runs. Resolves when they are released; never rejects. */
  async endOf(parent: Agent): Promise<void> {
    const runs = [...(this.#runs.get(parent) ?? [])];
    const ends = await Promise.allSettled(runs.map(async (run) => run.dispose()));
    for (const end of ends) {
      if (end.status === 'fulfilled') continue;
      const fields = { parent: parent.id, error: toErrorRecord(end.reason) };
      this.#logger.warn(fields, 'A run could not be disposed with its parent.');
    }
  }
}
