/** One call of a listing: when it is over early, and when others get a turn. */
import { setImmediate as nextTick } from 'node:timers/promises';
import { SubagentError } from '../../protocol/errors.ts';
import { raceSignal } from '../base/deferred.ts';

export class ListingCall {
  /** The caller's; every read is given it. */
  readonly signal: AbortSignal | undefined;
  readonly #isOver: () => boolean;

  /** @param isOver whether what is read by is closed: then reads fail that say nothing of a child */
  constructor(signal: AbortSignal | undefined, isOver: () => boolean) {
    this.signal = signal;
    this.#isOver = isOver;
  }

  /** @throws {SubagentError} `CANCELLED`, `DRAINING` */
  check(): void {
    if (this.signal?.aborted === true) {
      throw new SubagentError('CANCELLED', 'The listing was cancelled by its caller.', {
        cause: this.signal.reason,
      });
    }
    if (this.#isOver()) {
      throw new SubagentError('DRAINING', 'Cannot list children: the harness is being disposed.');
    }
  }

  /**
   * Wait for something that may be aborted meanwhile: then neither its value nor its failure
   * counts, whichever of the two was first.
   * @throws {SubagentError} `CANCELLED`, `DRAINING`
   * Whatever else `begin` fails with is passed on.
   */
  async read<T>(begin: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    this.check();
    let value: T;
    try {
      value = await raceSignal(begin(this.signal), this.signal);
    } catch (error) {
      this.check();
      throw error;
    }
    this.check();
    return value;
  }

  /** Others get a turn. @throws {SubagentError} `CANCELLED`, `DRAINING` */
  async breathe(): Promise<void> {
    await nextTick();
    this.check();
  }
}

/** Who is told of between two turns of others. */
export const LISTED_AT_ONCE = 200;
/** The same of what takes next to nothing for each. */
export const PLACED_AT_ONCE = 1_000;
