import { toErrorRecord } from '../../protocol/error-record.ts';
import type { Agent } from '../agent/agent.ts';
import type { Clock } from '../base/clock.ts';
import { deferred, whenSettled } from '../base/deferred.ts';
import type { Logger } from '../base/logger.ts';
import { durationOf } from '../base/limit-values.ts';

/** A run without an agent here, or what a provider gave in place of one. */
export interface RemoteRun {
  readonly id: string;
  readonly result: PromiseLike<unknown>;
  dispose(): Promise<void>;
}

/** What a provider's own release may take beyond the time that a child of ours has to stop. */
const MARGIN_MS = 1_000;

/**
 * Runs without an agent here, by their parent, until their result is there. A child of this
 * process ends with its parent because it belongs to it; of any other only its run is known, so
 * that is what is disposed.
 */
export class RemoteRuns {
  readonly #runs = new WeakMap<Agent, Set<RemoteRun>>();
  readonly #ending = new WeakSet<Agent>();
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #waitMs: number;

  constructor(o: { readonly logger: Logger; readonly clock: Clock; readonly stopGraceMs: number }) {
    this.#logger = o.logger;
    this.#clock = o.clock;
    this.#waitMs = durationOf(o.stopGraceMs, MARGIN_MS);
  }

  /**
   * The end of this parent has begun: nobody comes by any more for a run that is added. It is
   * registered until its end is over, so being registered says nothing of that.
   */
  isEnding(parent: Agent): boolean {
    return this.#ending.has(parent);
  }

  add(parent: Agent, run: RemoteRun): void {
    let runs = this.#runs.get(parent);
    if (runs === undefined) this.#runs.set(parent, (runs = new Set()));
    runs.add(run);
    const forget = (): void => void runs.delete(run);
    whenSettled(run.result, forget, forget);
  }

  /**
   * The parent is ending: so are its runs. Resolves when they are released, or were given up;
   * never rejects.
   */
  async endOf(parent: Agent): Promise<void> {
    this.#ending.add(parent);
    const runs = [...(this.#runs.get(parent) ?? [])];
    await Promise.all(runs.map((run) => this.release(parent, run)));
  }

  /** Dispose a run that nobody else will. Waits for it only so long, and never rejects. */
  async release(parent: Agent, run: Pick<RemoteRun, 'id' | 'dispose'>): Promise<void> {
    const isLate = deferred<true>();
    // Of a process that has nothing else to do, too: it is waiting for this.
    const timer = this.#clock.after(this.#waitMs, () => isLate.resolve(true), true);
    const fields = { parent: parent.id, run: run.id };
    try {
      // In a function of its own: a provider's dispose may throw before it returns its promise.
      const disposal = (async () => run.dispose())();
      if ((await Promise.race([disposal, isLate.promise])) !== true) return;
      this.#logger.warn(fields, 'A run was not disposed in time: it is left to its provider.');
    } catch (error) {
      this.#logger.warn({ ...fields, error: toErrorRecord(error) }, 'A run could not be disposed.');
    } finally {
      timer.cancel();
    }
  }
}
