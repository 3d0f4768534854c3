/** Loaded by URL as well, in a thread that folds logs: it imports nothing that a thread lacks. */
import type { ProjectionUnit } from '../session/projections/projection.ts';
import { isPlainObject } from '../../protocol/json.ts';

/** How long a child has worked, in milliseconds of main's clock. */
export type SubagentTiming = {
  /** All turns of its own that have ended. */
  readonly settledMs: number;
  /** The open turn: when it began, and its latest event. */
  readonly active?: { readonly since: number; readonly through: number };
};

type State = SubagentTiming & {
  /** A descriptor was there: before, nothing is known to be the child's own. */
  readonly isTold: boolean;
};

/**
 * Time since the last descriptor. What was before it belongs to the log the child began with; but
 * a turn that is open at the descriptor is the child's own, and counts from its start.
 */
export const subagentTiming: ProjectionUnit<State, SubagentTiming> = {
  key: 'subagentTiming',
  stateVersion: 2,
  init: () => ({ settledMs: 0, isTold: false }),
  apply(state, event) {
    const { active, settledMs, isTold } = state;
    const { type, time } = event;
    if (type === 'turn/start') {
      return { settledMs, active: { since: time, through: time }, isTold };
    }
    if (type === 'subagent/descriptor') {
      const through = active && { since: active.since, through: Math.max(active.since, time) };
      return { settledMs: 0, ...(through && { active: through }), isTold: true };
    }
    if (active === undefined) return state;
    const through = Math.max(active.since, time);
    if (type === 'turn/end') {
      return { settledMs: isTold ? settledMs + through - active.since : 0, isTold };
    }
    if (through === active.through) return state;
    return { settledMs, active: { since: active.since, through }, isTold };
  },
  isState: (value): value is State =>
    isTiming(value) && typeof (value as { isTold?: unknown }).isTold === 'boolean',
  wire: {
    view({ settledMs, active, isTold }) {
      return { settledMs, ...(isTold && active !== undefined ? { active } : {}) };
    },
    isView: isTiming,
  },
  module: new URL(import.meta.url),
};

export default subagentTiming;

function isTiming(value: unknown): value is SubagentTiming {
  if (!isPlainObject(value) || !isDuration(value['settledMs'])) return false;
  const { active } = value;
  if (active === undefined) return true;
  return isPlainObject(active) && isTime(active['since']) && isTime(active['through']);
}

const isTime = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value);
const isDuration = (value: unknown): boolean => isTime(value) && (value as number) >= 0;
