/** What a seed decides before anything runs: how large, how fast, how unlucky. */
import type { SessionId } from '../../protocol/ids.ts';
import { Dice } from '../interleavings/plan.ts';

/** Kinds of actions between which the scheduler chooses. */
export type Kind =
  | 'main'
  | 'tell'
  | 'thread'
  | 'store'
  | 'wait'
  | 'timer'
  | 'exit'
  | 'act'
  | 'fault';

export interface Plan {
  readonly seed: number;
  /** Things that the user of the harness does. */
  readonly acts: number;
  /** Things that go wrong by themselves; some runs have none. */
  readonly faults: number;
  readonly weights: Readonly<Record<Kind, number>>;
  readonly maxThreads: number;
  readonly warm: number;
  readonly maxDepth: number;
  readonly turnMs: number;
  readonly memoryMb: number;
  readonly maxLiveChildren: number | undefined;
  readonly maxTotalChildren: number | undefined;
  readonly maxPending: number | undefined;
  /** Of one turn of a child. */
  readonly steps: number | undefined;
  readonly outputBytes: number | undefined;
  readonly toolMs: number | undefined;
  /** Of one life of a child. */
  readonly runMs: number | undefined;
  /** Somebody takes part in what agents do. */
  readonly hasHooks: boolean;
  readonly restarts: { readonly max: number; readonly withinMs: number } | undefined;
  /** How often all but main may be late at once. */
  readonly lates: number;
  /** All that can end by itself does, before the harness is disposed. */
  readonly isPatient: boolean;
  /** A host without a loop is the parent of all. */
  readonly hasHost: boolean;
  /** Delegations that models decide on. */
  readonly delegations: number;
  readonly answers: number;
}

/** Of the session of the root. */
export const ROOT = 'root' as SessionId;
export const STOP_GRACE_MS = 1_000;
export const INTERRUPT_GRACE_MS = 1_500;

/** What makes a run smaller, when a failure is looked for. */
export interface Cut {
  readonly acts?: number;
  readonly faults?: number;
  readonly delegations?: number;
}

export function planOf(seed: number, cut: Cut = {}): { plan: Plan; dice: Dice } {
  const dice = new Dice(seed);
  const weight = (): number => dice.pick([1, 3, 10]);
  const isCalm = dice.chance(0.3);
  const acts = 2 + dice.int(dice.pick([6, 12, 24]));
  const faults = isCalm ? 0 : 1 + dice.int(dice.pick([2, 4]));
  const delegations = dice.int(6);
  const plan: Plan = {
    seed,
    weights: {
      main: 3 * weight(),
      tell: 2 * weight(),
      thread: 2 * weight(),
      store: 2 * weight(),
      wait: weight(),
      timer: weight() / 4,
      exit: weight(),
      act: weight() / 3,
      fault: weight() / 6,
    },
    maxThreads: dice.pick([1, 2, 3, 4, 64]),
    warm: dice.pick([0, 0, 1, 2]),
    maxDepth: dice.pick([1, 2, 3]),
    turnMs: dice.pick([600_000, 600_000, 4_000]),
    memoryMb: dice.pick([256, 64]),
    maxLiveChildren: dice.chance(0.2) ? 1 + dice.int(4) : undefined,
    maxTotalChildren: dice.chance(0.2) ? 1 + dice.int(6) : undefined,
    maxPending: dice.chance(0.2) ? 1 + dice.int(3) : undefined,
    steps: dice.chance(0.15) ? 1 + dice.int(3) : undefined,
    outputBytes: dice.chance(0.1) ? 1_000 + dice.int(6_000) : undefined,
    toolMs: dice.chance(0.15) ? 500 + dice.int(3_000) : undefined,
    runMs: dice.chance(0.1) ? 2_000 + dice.int(8_000) : undefined,
    hasHooks: dice.chance(0.4),
    restarts: dice.chance(0.25) ? { max: 1 + dice.int(2), withinMs: 60_000 } : undefined,
    lates: isCalm ? 0 : dice.pick([0, 0, 1, 3]),
    isPatient: dice.chance(0.6),
    hasHost: dice.chance(0.25),
    acts: Math.min(acts, cut.acts ?? acts),
    faults: Math.min(faults, cut.faults ?? faults),
    delegations: Math.min(delegations, cut.delegations ?? delegations),
    answers: 40,
  };
  return { plan, dice };
}
