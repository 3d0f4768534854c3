/** What has to become of a fault, derived in this one place from its effect and its moment. */
import { kindOf } from './kinds.ts';
import type { Effect, Kind } from './kinds.ts';
import { endingLimit, LIMITS } from './limits.ts';
import { placeOf } from './moments.ts';
import type { Cell } from './moments.ts';

export interface Expectation {
  /** How its end may be told. */
  readonly stopReasons: readonly string[];
  /** One of these codes is told of a failure; empty: any. */
  readonly codes: readonly string[];
  /** From the fault to the moment at which it can be seen. */
  readonly seenAfterMs: number;
  /** It never became an agent. */
  readonly isRefused: boolean;
  /** What it had said is in its output. */
  readonly keepsPartial: boolean;
  /** With `LIMIT_EXCEEDED`, the limit that is named. */
  readonly limit?: string;
}

const OF_A_TURN: Readonly<Record<Effect, readonly string[]>> = {
  // Whatever code was thrown with it.
  thrown: [],
  uncaught: ['WORKER_CRASHED'],
  exit: ['WORKER_EXITED'],
  blocked: ['LIMIT_EXCEEDED'],
  silent: ['LIMIT_EXCEEDED'],
  violation: ['PROTOCOL_VIOLATION', 'WORKER_FLOODED'],
  'port closed': ['WORKER_EXITED'],
  memory: ['WORKER_OUT_OF_MEMORY'],
  harmless: [],
};
const OF_A_START: Readonly<Record<Effect, readonly string[]>> = {
  ...OF_A_TURN,
  thrown: ['WORKER_START_FAILED'],
  uncaught: ['WORKER_START_FAILED', 'WORKER_CRASHED'],
  blocked: ['WORKER_START_TIMEOUT'],
  silent: ['WORKER_START_TIMEOUT'],
};

/** How long the fault goes unseen, because nothing tells it from work. */
function unseenMs({ effect }: Kind, limitMs: number): number {
  switch (effect) {
    case 'blocked':
    case 'silent':
      return limitMs;
    // It has to grow first, and its turn has an end in any case.
    case 'memory':
      return limitMs;
    default:
      return 0;
  }
}

export function expectationOf(cell: Cell): Expectation {
  const kind = kindOf(cell.kind);
  const { effect, alsoCodes = [] } = kind;
  const place = placeOf(cell.moment);
  const { interruptGraceMs, stopGraceMs, startMs } = LIMITS.harness;
  const asUsual = { isRefused: false, keepsPartial: true };
  if (place === 'load' || place === 'factory') {
    const isRefused = effect !== 'harmless';
    const alsoLate = kind.growsSlowly === true ? ['WORKER_START_TIMEOUT'] : [];
    return {
      ...asUsual,
      keepsPartial: false,
      isRefused,
      stopReasons: [isRefused ? 'rejected' : 'completed'],
      codes: isRefused ? [...OF_A_START[effect], ...alsoCodes, ...alsoLate] : [],
      seenAfterMs: unseenMs(kind, startMs),
    };
  }
  // Told to stop before: the first cause is the one that is told.
  if (cell.moment === 'cancel' || cell.moment === 'dispose') {
    const grace = cell.moment === 'cancel' ? interruptGraceMs : stopGraceMs;
    return { ...asUsual, stopReasons: ['aborted'], codes: [], seenAfterMs: grace };
  }
  if (place === 'timer') {
    // In a timer everything that is thrown is caught by nobody, and an idle loop owes no answer.
    const isThrown = effect === 'thrown' || effect === 'uncaught';
    const unseen = effect === 'silent' || effect === 'harmless';
    const mayWait = cell.moment === 'notice' || effect === 'blocked';
    return {
      ...asUsual,
      keepsPartial: false,
      stopReasons:
        unseen && alsoCodes.length === 0
          ? ['completed']
          : mayWait || unseen
            ? ['error', 'completed']
            : ['error'],
      codes: [
        ...(isThrown ? ['WORKER_CRASHED'] : OF_A_TURN[effect]),
        ...(effect === 'blocked' ? ['WORKER_UNRESPONSIVE'] : []),
        ...alsoCodes,
      ],
      seenAfterMs: unseenMs(kind, LIMITS.harness.unresponsiveMs),
    };
  }
  const isToolError = effect === 'thrown' && place === 'tool';
  const finishes = effect === 'harmless' || isToolError;
  const limit = endingLimit(kind);
  const isEnded = effect === 'blocked' || effect === 'silent';
  return {
    ...asUsual,
    stopReasons: finishes ? ['completed'] : kind.mayFinish ? ['completed', 'error'] : ['error'],
    codes: finishes ? [] : [...OF_A_TURN[effect], ...alsoCodes],
    keepsPartial: !finishes && kind.mayFinish !== true,
    ...(isEnded ? { limit: limit.name } : {}),
    seenAfterMs:
      unseenMs(kind, kind.effect === 'memory' ? LIMITS.patient.turnMs : limit.afterMs) +
      (effect === 'blocked' ? interruptGraceMs : 0),
  };
}
