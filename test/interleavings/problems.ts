/** What must be so after a run, whoever ended it and when. */
import { getEventListeners } from 'node:events';
import type { HarnessError } from '../../protocol/errors.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { logProblems } from './log-problems.ts';
import { ENDERS, HANDED_IN } from './plan.ts';
import type { Act } from './plan.ts';
import type { Walk } from './walk.ts';

const AGENT_EVENTS = [
  'agent/created',
  'agent/status',
  'agent/inbox/inserted',
  'agent/inbox/discarded',
  'agent/inbox/claimed',
  'agent/error',
  'agent/disposed',
] as const;

/** How many listen for what agents do. Whoever begins to listen for a run must end with it. */
export function listeners({ harness }: Walk): number {
  const { observers } = harness.agents;
  return AGENT_EVENTS.reduce((sum, type) => sum + observers.listenerCount(type), 0);
}

/** Carry the plan out and say what is wrong with what came of it. */
export async function problemsOf(walk: Walk): Promise<string[]> {
  const problems: string[] = [];
  const check = (isSo: boolean, otherwise: string): void => {
    if (!isSo) problems.push(otherwise);
  };
  await walk.run();
  const { harness, plan, children } = walk;
  const isDone = (...acts: readonly Act[]): boolean =>
    walk.done.some(({ act }) => acts.includes(act));

  problems.push(...edgeProblems(walk), ...(walk.plan.way === 'called' ? [] : endProblems(walk)));
  const isHarnessGone = isDone('dispose the harness');
  const isParentGone = isHarnessGone || isDone('dispose the parent');
  const left = isParentGone ? [] : [walk.parent];
  check(same(harness.agents.list(), left), 'an agent is left');
  check(same(harness.sessions.list(), left.map(sessionOf)), 'a session is left');
  check(same(walk.disposed, isParentGone ? walk.disposed : children), 'a child was not ended');
  check(new Set(walk.disposed).size === walk.disposed.length, 'an agent was ended twice');
  check(walk.tools.running === 0, 'a tool is running');
  check(walk.streaming === 0, 'a model is streaming');
  check(walk.late.length === 0, `after it was ended there began: ${walk.late.join()}`);
  check(walk.heardAfter === 0, 'the signal is heard after the result');
  check(getEventListeners(walk.controller.signal, 'abort').length === 0, 'the signal is heard');
  for (const thread of walk.threads.all) {
    const isOfParent = thread.init?.sessionId === walk.parent.id;
    if (isOfParent && !isParentGone) continue;
    check(thread.ports === undefined || thread.ports.isClosed, 'a thread is left');
  }
  if (walk.rejection !== undefined && !isHarnessGone) {
    const stored = (await harness.sessionPersistence.list()).map(({ id }) => id);
    check(!stored.some((id) => id !== walk.parent.id), 'a start that failed left its log');
  }

  const sessions = [walk.parent, ...children].map(sessionOf);
  const lengths = sessions.map(({ seq }) => seq);
  await walk.quiet();
  const isUnchanged = sessions.every(({ seq }, at) => seq === lengths[at]);
  check(isUnchanged, 'something was logged after the end');
  await walk.end();
  for (const { id, session } of [walk.parent, ...children]) {
    const what = id === walk.parent.id ? 'parent' : 'child';
    problems.push(
      ...logProblems(session.events, what === 'child').map((text) => `${what}: ${text}`),
    );
  }
  check(harness.agents.list().length === 0, 'the harness has an agent');
  check(walk.tools.running === 0 && walk.streaming === 0, 'something runs without a harness');
  check(walk.warnings.length === 0, `it was warned of: ${walk.warnings.join(' ')}`);
  check(plan.way === 'called' || children.length <= 1, 'there were several children');
  return problems;
}

/** A start has one end; what was never returned was never told. */
function edgeProblems({ starts, ends, result, rejection, plan }: Walk): string[] {
  const problems: string[] = [];
  const ids = (infos: readonly { runId: string }[]): string => infos.map((i) => i.runId).join();
  if (ids(starts) !== ids(ends)) problems.push('starts and ends do not pair');
  if (plan.way === 'called') return problems;
  if (starts.length !== (rejection === undefined ? 1 : 0)) {
    problems.push(`${starts.length} starts were told`);
  }
  if (result !== undefined && ends[0]?.stopReason !== result.stopReason) {
    problems.push(`the end was told as ${ends[0]?.stopReason}`);
  }
  return problems;
}

/** Whether the run came out in a way that fits what was done to it. */
function endProblems({ plan, done, result, rejection, reason }: Walk): string[] {
  const acts = done.map(({ act }) => act);
  if (rejection !== undefined) {
    const { code, cause } = rejection as HarnessError;
    const isExplained =
      (acts.includes('abort') && (rejection === reason || cause === reason)) ||
      (acts.includes('withdraw the provider') && code === 'NO_PROVIDER') ||
      (acts.includes('dispose the parent') && GONE.includes(code)) ||
      (acts.includes('dispose the harness') && GONE.includes(code));
    return isExplained ? [] : [`the start was rejected with ${String(rejection)}`];
  }
  if (result === undefined) return ['there is neither a result nor a rejection'];
  const { stopReason } = result;
  const early = done.find(({ act, isEarly }) => isEarly && BEFORE_IT.includes(act));
  if (early !== undefined) return [`it ran after "${early.act}", which was before it`];
  const ended = done.find(({ act }) => ENDERS.includes(act));
  const problems: string[] = [];
  if (ended === undefined) {
    if (stopReason !== plan.natural) problems.push(`nobody interfered, and it was ${stopReason}`);
  } else if (ended.finishes < plan.script.length) {
    if (stopReason !== 'aborted') problems.push(`it was ended early, and it was ${stopReason}`);
  } else if (stopReason !== 'aborted' && stopReason !== plan.natural) {
    problems.push(`it was ended late, and it was ${stopReason}`);
  }
  const isHandedIn = JSON.stringify(result.structured) === JSON.stringify(HANDED_IN);
  if (plan.way !== 'structured' && 'structured' in result) problems.push('it handed something in');
  if (plan.way === 'structured' && stopReason === 'completed' && !isHandedIn) {
    problems.push('it completed without what it was to hand in');
  }
  return problems;
}

const GONE: readonly string[] = ['UNAUTHORIZED', 'DRAINING'];
const BEFORE_IT: readonly Act[] = ['abort', 'dispose the parent', 'dispose the harness'];

const sessionOf = ({ session }: Agent): Agent['session'] => session;
const same = <T>(one: readonly T[], other: readonly T[]): boolean =>
  one.length === other.length && one.every((item, at) => item === other[at]);
