/** When a fault happens, to whom, and in which company; and which kinds make sense there. */
import { KINDS } from './kinds.ts';
import type { Kind, Place } from './kinds.ts';

export const MOMENTS = [
  'load',
  'factory',
  'idle',
  'turn',
  'tool',
  'cancel',
  'parent-waits',
  'notice',
  'store',
  'dispose',
  'resume',
] as const;
export type Moment = (typeof MOMENTS)[number];
export type Mode = 'one-shot' | 'continuable';

export interface Cell {
  readonly kind: string;
  readonly moment: Moment;
  readonly mode: Mode;
  /** How deep the agent stands whose thread it is. 0: a root, which nobody delegates to. */
  readonly depth: number;
  readonly siblings: number;
}

interface MomentRules {
  readonly what: string;
  readonly place: Place;
  readonly depths: readonly number[];
  readonly modes: readonly Mode[];
}

const BOTH: readonly Mode[] = ['one-shot', 'continuable'];
const RULES: Readonly<Record<Moment, MomentRules>> = {
  load: { what: 'its modules are loaded', place: 'load', depths: [0, 1, 2, 3], modes: BOTH },
  factory: { what: 'a module is asked for', place: 'factory', depths: [0, 1, 2], modes: BOTH },
  // Only roots are resident while they have nothing to do: a child that is idle is released.
  idle: { what: 'it is idle', place: 'timer', depths: [0], modes: ['continuable'] },
  turn: { what: 'its model answers', place: 'model', depths: [0, 1, 2, 3], modes: BOTH },
  tool: { what: 'its tool runs', place: 'tool', depths: [0, 1, 2, 3], modes: BOTH },
  cancel: { what: 'it is told to stop', place: 'tool', depths: [0, 1], modes: BOTH },
  // A call in the foreground: the parents are in the middle of their turns.
  'parent-waits': { what: 'parents wait', place: 'tool', depths: [2, 3], modes: ['one-shot'] },
  // Told of a child of its own, which only those have that go on.
  notice: { what: 'it is told a notice', place: 'timer', depths: [0, 1], modes: ['continuable'] },
  store: { what: 'the store writes', place: 'tool', depths: [0, 1, 2], modes: BOTH },
  dispose: { what: 'everything ends', place: 'tool', depths: [0, 1], modes: BOTH },
  // What is never told anything again is not brought back.
  resume: { what: 'it is brought back', place: 'load', depths: [1], modes: ['continuable'] },
};

export const placeOf = (moment: Moment): Place => RULES[moment].place;

/** Why a kind is not played at a moment; `undefined` when it is. */
export function whyNot(kind: Kind, moment: Moment): string | undefined {
  const { place } = RULES[moment];
  if (kind.only !== undefined && !kind.only.includes(place)) {
    return `it needs a ${kind.only.join(' or a ')}`;
  }
  if (kind.fault === 'not contained') {
    return moment === 'tool' ? undefined : 'what leaves the thread does so at any moment';
  }
  if (kind.limit !== undefined && (moment === 'cancel' || moment === 'dispose')) {
    return 'it is ended by something else than its limit';
  }
  // What a degraded process does is looked at where the fault has the whole turn to do it.
  if (kind.fault === 'degrades' && !['turn', 'tool', 'dispose'].includes(moment)) {
    return 'it degrades the process alike at any moment';
  }
  return undefined;
}

/** Every cell without siblings and with seven. */
export function cellsOf(kind: Kind, moment: Moment): readonly Cell[] {
  if (whyNot(kind, moment) !== undefined) return [];
  const { depths, modes } = RULES[moment];
  const alone = kind.fault !== 'contained';
  const cells: Cell[] = [];
  for (const depth of alone ? [1] : depths) {
    // A root whose run is over has nothing left for what it is told afterwards.
    if (depth === 0 && kind.limit?.name === 'runMs') continue;
    // A root is neither; it goes on.
    for (const mode of depth === 0
      ? (['continuable'] as const)
      : alone
        ? modes.slice(0, 1)
        : modes) {
      for (const siblings of alone ? [0] : [0, 7]) {
        cells.push({ kind: kind.name, moment, mode, depth, siblings });
      }
    }
  }
  return cells;
}

/** The matrix. */
export const allCells = (): readonly Cell[] =>
  KINDS.flatMap((kind) => MOMENTS.flatMap((moment) => cellsOf(kind, moment)));

export const nameOf = ({ kind, moment, mode, depth, siblings }: Cell): string =>
  `${kind} ${moment} ${mode} depth=${depth} siblings=${siblings}`;
