import { elapsed } from '../base/clock.ts';
import type { Clock } from '../base/clock.ts';
import type { RestartIntensity } from './limits.ts';

/** How often the threads of one agent have died of late, and whether it goes on in another. */
export class Restarts {
  readonly #intensity: RestartIntensity | undefined;
  readonly #clock: Clock;
  #deaths: readonly number[] = [];

  /** @param intensity absent: it never goes on by itself */
  constructor(intensity: RestartIntensity | undefined, clock: Clock) {
    this.#intensity = intensity;
    this.#clock = clock;
  }

  /** One more death, now. True when what waits for the agent runs in another thread. */
  died(): boolean {
    if (this.#intensity === undefined) return false;
    const { max, withinMs } = this.#intensity;
    const now = elapsed(this.#clock);
    const recent = [...this.#deaths.filter((at) => now - at < withinMs), now];
    // No more of them can count than one beyond the most.
    this.#deaths = recent.slice(-max - 1);
    return recent.length <= max;
  }
}
