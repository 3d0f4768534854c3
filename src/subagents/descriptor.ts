import { ArgumentError } from '../../protocol/errors.ts';
import { deepFreeze, isPlainObject, losslessCopy } from '../../protocol/json.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Session } from '../session/session.ts';
import type { AgentLimits } from '../agent/agent-host.ts';
import { DESCRIPTOR_VERSION, descriptorProblem } from '../session/descriptor-shape.ts';
import type { SubagentDescriptorData, ToolRestriction } from './provider.ts';

/** That of a child that can be told more than one thing. */
export type ContinuableDescriptor = Extract<SubagentDescriptorData, { mode: 'continuable' }>;

/** What a descriptor is made from; a field that is absent or undefined stays out of it. */
export type DescriptorInput =
  | {
      readonly mode: 'one-shot';
      readonly provider: string;
      readonly label?: string | undefined;
    }
  | {
      readonly mode: 'continuable';
      readonly provider: string;
      readonly label: string;
      readonly agentProvider?: string | undefined;
      readonly agentModel?: string | undefined;
      readonly maxTokens?: number | undefined;
      readonly persona?: string | undefined;
      readonly toolFilter?: ToolRestriction | undefined;
      readonly limits?: AgentLimits | undefined;
    };

/**
 * A detached, frozen descriptor of the current version.
 *
 * @throws {ArgumentError} when the input is not losslessly JSON or not what its fields take.
 */
export function snapshotDescriptor(input: DescriptorInput): SubagentDescriptorData {
  const given: Record<string, unknown> = defined({
    version: DESCRIPTOR_VERSION,
    ...input,
  });
  for (const key of ['toolFilter', 'limits']) {
    if (isPlainObject(given[key])) given[key] = defined(given[key]);
  }
  // Nothing was asked for.
  if (isPlainObject(given['limits']) && Object.keys(given['limits']).length === 0) {
    delete given['limits'];
  }
  let copy: unknown;
  try {
    copy = losslessCopy(given);
  } catch (error) {
    throw new ArgumentError('The description of a child is not losslessly JSON.', { cause: error });
  }
  return deepFreeze(parseDescriptor(copy)) as SubagentDescriptorData;
}

/** For whoever fills in an option, absent and undefined are the same. */
function defined(value: object): Record<string, unknown> {
  const copy = { ...value } as Record<string, unknown>;
  for (const key of Object.keys(copy)) if (copy[key] === undefined) delete copy[key];
  return copy;
}

/**
 * The first descriptor among some events of one child's own. Give it the own suffix: a log
 * that was seeded may hold an ancestor's.
 *
 * @returns `undefined` when there is none, or it is of a version not known here.
 * @throws {ArgumentError} when it is of this version and malformed.
 */
export function foldSubagentDescriptor(
  events: readonly SessionEvent[],
): SubagentDescriptorData | undefined {
  const event = events.find(({ type }) => type === 'subagent/descriptor');
  return event === undefined ? undefined : parseDescriptor(event.data);
}

/**
 * Whoever this session belongs to was started for one answer, and ends with it. A child that goes
 * on says so from its first event on; any other gets its descriptor in its first turn.
 */
export function isOneShotChild(session: Pick<Session, 'header' | 'eventsFrom'>): boolean {
  const { origin, seedLength = 0 } = session.header;
  if (origin !== 'subagent') return false;
  // What a seed holds is of another session.
  return foldSubagentDescriptor(session.eventsFrom(seedLength))?.mode !== 'continuable';
}

/**
 * Read a stored descriptor.
 *
 * @returns `undefined` for another version: not ours to judge.
 * @throws {ArgumentError} naming the first field that is wrong.
 */
function parseDescriptor(payload: unknown): SubagentDescriptorData | undefined {
  if (!isPlainObject(payload)) return refuse('must be an object');
  const problem = descriptorProblem(payload);
  if (problem !== undefined) return refuse(problem);
  if (payload['version'] !== DESCRIPTOR_VERSION) return undefined;
  return payload as unknown as SubagentDescriptorData;
}

function refuse(what: string): never {
  throw new ArgumentError(`A subagent descriptor ${what}.`);
}
