/**
 * How many children the agents of one tree may have, whoever runs them. A place is taken in the
 * tick in which a start is admitted, so that no other start comes between the look and the count,
 * and is taken back if nothing comes of it.
 */
import { SubagentError } from '../../protocol/errors.ts';
import type { Agent } from '../agent/agent.ts';
import { lineageOf } from './lineage.ts';
import type { LiveAgents } from './lineage.ts';

export interface PlacesOptions {
  readonly agents: LiveAgents;
  /** Descendants of one root that may live at once; absent: any number. */
  readonly maxLive: number | undefined;
  /** Descendants of one root that may ever be made while it lives; absent: any number. */
  readonly maxTotal: number | undefined;
}

/** The place of one child that is being made. */
export interface Place {
  /** It is this agent: the place is taken for as long as that is live. */
  isOf(agent: Agent): void;
  /** It is free: nothing is known to live there any more. Idempotent. */
  free(): void;
  /** As if the start had never been. Idempotent. */
  undo(): void;
}

/** What is counted for one root: the exact agent, as long as that lives. */
interface Tally {
  made: number;
  /** Children that live, or are being made: each says whether it still does. */
  readonly living: Set<() => boolean>;
}

const NOWHERE: Place = { isOf() {}, free() {}, undo() {} };

/** No place is left for a child. */
export class NoPlaceError extends SubagentError {
  /** None will be, as long as the root lives. */
  readonly isFinal: boolean;
  constructor(message: string, isFinal: boolean) {
    super('CAPACITY', message);
    this.isFinal = isFinal;
  }
}

export class Places {
  readonly #options: PlacesOptions;
  readonly #tallies = new WeakMap<Agent, Tally>();

  constructor(options: PlacesOptions) {
    this.#options = options;
  }

  /**
   * For one child of this parent, which lives. Synchronous.
   * @param isNew false of a child that is brought back: it was made before
   * @throws {SubagentError} `CAPACITY`
   */
  take(parent: Agent, isNew: boolean): Place {
    const { agents, maxLive, maxTotal } = this.#options;
    if (maxLive === undefined && maxTotal === undefined) return NOWHERE;
    const root = lineageOf(agents, parent).at(-1) ?? parent;
    const tally = this.#tallyOf(root);
    if (isNew && maxTotal !== undefined && tally.made >= maxTotal) {
      const text =
        `No subagent can be started below "${root.id}" any more: ${maxTotal} were, which is ` +
        'all that limits.maxTotalChildren allows.';
      throw new NoPlaceError(text, true);
    }
    if (maxLive !== undefined && this.#countLiving(tally, maxLive) >= maxLive) {
      const text =
        `No subagent can live below "${root.id}" now besides those that do: ` +
        `limits.maxLiveChildren is ${maxLive}.`;
      throw new NoPlaceError(text, maxLive === 0);
    }
    return this.#place(tally, isNew);
  }

  #place(tally: Tally, isNew: boolean): Place {
    let agent: Agent | undefined;
    const lives = (): boolean =>
      agent === undefined || this.#options.agents.get(agent.id) === agent;
    tally.living.add(lives);
    if (isNew) tally.made++;
    let counts = isNew;
    const free = (): void => void tally.living.delete(lives);
    return {
      isOf: (child) => void (agent = child),
      free,
      undo() {
        free();
        if (counts) tally.made--;
        counts = false;
      },
    };
  }

  #tallyOf(root: Agent): Tally {
    let tally = this.#tallies.get(root);
    if (tally === undefined) this.#tallies.set(root, (tally = { made: 0, living: new Set() }));
    return tally;
  }

  /** Those that are gone say so when they are asked, which is when nothing else is left. */
  #countLiving({ living }: Tally, enough: number): number {
    if (living.size >= enough) {
      for (const lives of living) if (!lives()) living.delete(lives);
    }
    return living.size;
  }
}
