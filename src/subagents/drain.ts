/** Ends of several residencies at once: what is closed, what is selected, what is waited for. */
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { notAnAgent } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { PendingInput } from '../agent/agent-host.ts';
import { teardownFailed } from '../base/teardown.ts';
import type { Activation } from './activation.ts';
import { notYours } from './activations.ts';
import type { Activations } from './activations.ts';
import { idOf, isLive, lineageOf } from './lineage.ts';

/**
 * All of them, for good.
 * @throws {SubagentError} (rejects) `ACTIVATION_TEARDOWN_FAILED`, after all were released
 */
export async function drainAll(activations: Activations, pending: PendingInput): Promise<void> {
  activations.services.admission.closeAll();
  const ends = endTopmost(activations, activations.list(), pending);
  // What is being made is not resident yet, and becomes nothing any more: it ends by itself.
  await activations.giveUp('all');
  await settleAll(ends);
}

/**
 * All below these very agents, which take on nothing new from this tick on. They themselves stay.
 * Drains of one root join.
 * @throws {ArgumentError} (rejects) for anything but a list of agents, before anything is ended
 * @throws {SubagentError} (rejects) `ACTIVATION_TEARDOWN_FAILED`, after all were released
 */
export async function drainDescendants(
  activations: Activations,
  parents: readonly Agent[],
  pending: PendingInput,
): Promise<void> {
  const { agents, admission } = activations.services;
  for (const parent of listOf(parents, 'agents')) {
    const problem = notAnAgent(parent);
    if (problem !== undefined) {
      throw new ArgumentError(`What is below this cannot be drained: ${problem}.`);
    }
  }
  const roots = [...new Set(parents)].filter((parent) => isLive(agents, parent));
  if (roots.length === 0) return;
  // By what was recorded: one between that has left the registry hides nobody.
  const below = activations
    .list()
    .filter((one) => roots.some((root) => one.agent !== root && one.ancestry.has(root)));
  for (const root of roots) {
    const members = below.filter(({ ancestry }) => ancestry.has(root));
    admission.close(
      root,
      members.flatMap(({ agent }) => membersOf(activations, root, agent)),
    );
  }
  const ends = endTopmost(activations, below, pending);
  await activations.giveUp(roots);
  await settleAll(ends);
}

/**
 * Some children of this very parent, and what they own.
 * @throws {ArgumentError} (rejects) for anything but a list of ids
 * @throws {SubagentError} (rejects) `UNAUTHORIZED` before anything is ended;
 *   `ACTIVATION_TEARDOWN_FAILED` after all were released
 */
export async function drainChildren(
  activations: Activations,
  parent: Agent,
  ids: readonly SessionId[],
): Promise<void> {
  if (!isLive(activations.services.agents, parent)) {
    const id = printed(idOf(parent));
    throw new SubagentError('UNAUTHORIZED', `"${id}" is not the live agent of that id.`);
  }
  for (const id of listOf(ids, 'ids of children')) {
    if (typeof id === 'string') continue;
    throw new ArgumentError('A child to be drained is named by a text, its id.');
  }
  const selected = [...new Set(ids)].flatMap((id) => activations.get(id) ?? []);
  for (const { id, parentId, ancestry } of selected) {
    if (parentId !== parent.id || !ancestry.has(parent)) throw notYours(id, parent);
  }
  await settleAll(selected.map((one) => activations.end(one, 'discard')));
}

/**
 * An agent ends, whoever ends it: so does what is below it. Resolves when that is released; a
 * residency waits itself for what it owns, and tells their failures.
 */
export async function endWith(
  activations: Activations,
  agent: Agent,
  pending: PendingInput,
): Promise<void> {
  const activation = activations.of(agent);
  if (activation === undefined) return drainDescendants(activations, [agent], pending);
  // Ended by somebody else: its session was taken over. Not waited for here: it waits for this.
  if (activation.disposal === undefined) activations.endUnattended(activation, pending);
  const owned = activations.endOwned(activation, pending);
  await Promise.allSettled([...owned, activations.giveUp([agent])]);
}

/** @throws {ArgumentError} for anything but a list */
function listOf<T>(given: readonly T[], what: string): readonly T[] {
  if (Array.isArray(given)) return given;
  throw new ArgumentError(`A drain takes a list of ${what}.`);
}

/** A live agent below a root, and what lies between them. */
function membersOf(activations: Activations, root: Agent, agent: Agent): readonly Agent[] {
  const lineage = lineageOf(activations.services.agents, agent);
  const end = lineage.indexOf(root);
  return end === -1 ? [agent] : lineage.slice(0, end);
}

/**
 * Those above first, in this tick. To be waited for are the topmost: they are released last, and
 * tell the failures of what they own.
 */
function endTopmost(
  activations: Activations,
  selected: readonly Activation[],
  pending: PendingInput,
): Promise<void>[] {
  const among = new Set(selected);
  // Looked at before the first of them is ended, which may let go of others.
  const tops = selected.filter(({ owner }) => owner === undefined || !among.has(owner));
  for (const one of [...tops, ...selected]) void activations.end(one, pending);
  return tops.map((one) => activations.end(one, pending));
}

/** Every end is waited for; the failures are told together. */
async function settleAll(ends: readonly Promise<void>[]): Promise<void> {
  const settled = await Promise.allSettled(new Set(ends));
  const failures = new Set(
    settled.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : [])),
  );
  if (failures.size > 0) throw teardownFailed('Subagents', [...failures]);
}
