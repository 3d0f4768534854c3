/** A value that is folded from a session's log, event by event. */
import type { Json } from '../../../protocol/json.ts';
import type { SessionEvent } from '../../../protocol/session-events.ts';

/**
 * States and views are JSON, which is checked where they are made: a type cannot say so of an
 * `interface`.
 */
export interface ProjectionUnit<State = Json, View = Json> {
  /** Names its value in snapshots and checkpoints. */
  readonly key: string;
  /** Grows with each change of what a state means: a kept state of another version is not used. */
  readonly stateVersion: number;
  /** The state before the first event. */
  init(): State;
  /** Pure. Returns the very same state for an event that does not concern it. */
  apply(state: State, event: SessionEvent): State;
  /** Whether a kept value is a state of this version. */
  isState(value: unknown): value is State;
  /** What others see of the state. Absent: it is in no snapshot. */
  readonly wire?: {
    /** The value, from a state. */
    view(state: State): View;
    /** Whether a kept value is a view of this version. Absent: every value is. */
    isView?(value: Json): boolean;
  };
  /**
   * A module whose default export is this unit, or a list with it: `new URL('./unit.js',
   * import.meta.url)`. Logs of sessions that are not live can then be folded off the main thread,
   * if all units with a wire have one. Absent: they are folded on it.
   */
  readonly module?: URL;
}

/** Values of one session, all as of the same event. */
export interface ProjectionSnapshot {
  /** The last event the values know of; -1 before the first. */
  readonly asOfSeq: number;
  readonly values: Readonly<Record<string, Json>>;
}
