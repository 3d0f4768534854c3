/** What was seen of one fault: facts, with no opinion. */
import type { Cell } from './moments.ts';

/** How the agent at fault came out, as whoever waits for it was told. */
export interface Told {
  readonly by: 'result' | 'notice' | 'tool result' | 'turn' | 'rejection' | 'event';
  readonly stopReason: string;
  /** The code of the failure, and those of its causes. */
  readonly codes: readonly string[];
  readonly text: string;
}

export interface Observation {
  readonly cell: Cell;
  /** How often the body was begun in its thread. */
  readonly injected: number;
  /** Everything that was told of its end: one word, or nobody knows what to believe. */
  readonly told: readonly Told[];
  /** From the moment at which the fault could be seen to the word of its end. */
  readonly settleMs: number | undefined;
  /** As the child's own events tell, where it was published. */
  readonly lifecycle: { readonly starts: number; readonly ends: number };
  /** Of its log, as it is stored. */
  readonly log:
    | { readonly turnStarts: number; readonly turnEnds: number; readonly lastEnd: string }
    | undefined;
  /** What it had said before. */
  readonly output: string;
  /** Those above it: how each came out. */
  readonly parents: readonly string[];
  readonly siblings: { readonly wanted: readonly string[]; readonly got: readonly string[] };
  /** What it answers afterwards, when it is told something harmless. */
  readonly afterwards: string;
  /** Beyond what was there before, after everything had its time. */
  readonly left: Readonly<Record<string, number>>;
  /** Of `checkStore`. */
  readonly findings: readonly string[];
  /** Of main: what nobody caught, and properties of `Object.prototype`. */
  readonly uncaught: readonly string[];
  readonly polluted: readonly string[];
  /** Messages that were accepted while the store was busy, and those that it has. */
  readonly accepted: number;
  readonly kept: number;
  /** Of the whole harness, where that was the moment. */
  readonly disposeMs: number | undefined;
  readonly elapsedMs: number;
}

/** What was seen from outside meanwhile. */
export interface Probing {
  readonly asked: number;
  readonly unanswered: number;
  readonly worstMs: number;
}
