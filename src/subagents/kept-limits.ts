import type { AgentLimits } from '../agent/agent-host.ts';
import { AGENT_LIMIT_CHECKS } from '../base/limit-values.ts';

/** What children have that were given nothing else, with `undefined` where there is no limit. */
export type ChildLimits = {
  readonly [Name in keyof Required<AgentLimits>]: AgentLimits[Name] | undefined;
};

const NAMES = Object.keys(AGENT_LIMIT_CHECKS) as (keyof AgentLimits)[];

/**
 * The limits of a child that is brought back: those of its start, and none above what children
 * have now. Whoever started it could ask for more then; the record of that is not whoever runs
 * the harness now.
 */
export function keptLimits(kept: AgentLimits = {}, now: Partial<ChildLimits> = {}): AgentLimits {
  const entries = NAMES.flatMap((name) => {
    const [own, most] = [kept[name], now[name]];
    if (own === undefined) return [];
    if (most === undefined || most === 'unlimited') return [[name, own] as const];
    return [[name, own === 'unlimited' ? most : Math.min(own, most)] as const];
  });
  return Object.fromEntries(entries);
}
