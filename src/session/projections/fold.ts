/**
 * One unit over one log. Lazy: it folds what there is when it is asked, and remembers how far it
 * came. A unit that throws, or whose state is no JSON, has failed for this log: it is pure, so
 * nothing but a fold from the start could tell anything else.
 */
import type { Json } from '../../../protocol/json.ts';
import type { SessionEvent } from '../../../protocol/session-events.ts';
import type { ProjectionUnit } from './projection.ts';
import { ProjectionError } from '../../../protocol/errors.ts';
import { applied, detachedState, failed, started, viewOf } from './unit.ts';

/** Where to go on from: a state of this unit, and the last event it knows of. */
export interface FoldStart {
  readonly state: Json;
  readonly seq: number;
}

/** Of a kept state: what is larger as JSON text is not kept. */
export const MAX_ROW_BYTES = 64 * 1_024;

export class Fold {
  readonly unit: ProjectionUnit;
  readonly #of: string;
  #seq: number;
  #changedAt = -1;
  #state: Json = null;
  /** The state is one that was detached: it is frozen, so it is still what it was. */
  #isDetached = false;
  #fits: boolean | undefined;
  #failure: ProjectionError | undefined;

  /** @param of the id of the session, for messages */
  constructor(unit: ProjectionUnit, of: string, start?: FoldStart) {
    this.unit = unit;
    this.#of = of;
    this.#seq = start?.seq ?? -1;
    if (start === undefined) this.#attempt(() => (this.#state = started(unit, of)));
    else {
      this.#state = start.state;
      this.#isDetached = true;
    }
  }

  /** The last event that was folded; -1 before the first. */
  get seq(): number {
    return this.#seq;
  }

  /** The last event with which the state became another; -1 for none that was folded here. */
  get changedAt(): number {
    return this.#changedAt;
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** Fold the next events. Returns whether the state is another one now. Never throws. */
  push(events: Iterable<SessionEvent>): boolean {
    if (this.#failure !== undefined) return false;
    const before = this.#state;
    this.#attempt(() => {
      for (const event of events) {
        const next = applied(this.unit, this.#state, event, this.#of);
        this.#seq = event.seq;
        if (next === this.#state) continue;
        this.#state = next;
        this.#isDetached = false;
        this.#changedAt = event.seq;
      }
    });
    return this.#state !== before && this.#failure === undefined;
  }

  /**
   * Detached and frozen; the same object until the state changes.
   * @throws {ProjectionError} when the unit has failed
   */
  state(): Json {
    if (this.#failure === undefined && !this.#isDetached) {
      this.#fits = undefined;
      this.#attempt(() => {
        // From here on the unit itself goes on from the frozen one: it cannot change what was told.
        this.#state = detachedState(this.unit, this.#state, this.#of);
        this.#isDetached = true;
      });
    }
    if (this.#failure !== undefined) throw this.#failure;
    return this.#state;
  }

  /** @throws {ProjectionError} when the unit has failed, or its view cannot be made */
  view(): Json {
    return viewOf(this.unit, this.state(), this.#of);
  }

  /** What a checkpoint keeps; `undefined` when the unit has failed or its state is too large. */
  row(): { readonly ver: number; readonly val: Json } | undefined {
    try {
      const val = this.state();
      this.#fits ??= Buffer.byteLength(JSON.stringify(val)) <= MAX_ROW_BYTES;
      return this.#fits ? { ver: this.unit.stateVersion, val } : undefined;
    } catch {
      // A checkpoint is only a short cut: who needs the value is told of the failure.
      return undefined;
    }
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#failure =
        error instanceof ProjectionError
          ? error
          : failed(this.unit, this.#of, 'its log could not be read', error);
    }
  }
}
