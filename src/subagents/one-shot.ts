import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { losslessCopy } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import { notAnAgent } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import { AGENT_LIMITS } from '../agent/create-options.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import type { Logger } from '../base/logger.ts';
import { takeBack } from '../base/take-back.ts';
import { assertObjectJsonSchema } from '../tools/json-schema.ts';
import { assertMaxDepth, childDepth } from './depth.ts';
import { snapshotDescriptor } from './descriptor.ts';
import type { SubagentEnd, SubagentLifecycle } from './lifecycle.ts';
import type { SubagentResult, SubagentRun, SubagentStartRequest } from './provider.ts';
import type { RemoteRuns } from './remote-runs.ts';
import type { ProviderRegistry } from './registry.ts';

/** What a start is decided with. */
export interface OneShotContext {
  /** The registry whose exact object a parent has to be. */
  readonly agents: { get(id: SessionId): Agent | undefined };
  readonly providers: ProviderRegistry;
  readonly lifecycle: SubagentLifecycle;
  readonly remote: RemoteRuns;
  readonly logger: Logger;
  /** Throws when the parent may start nothing, because it is being ended. */
  assertAdmits(parent: Agent): void;
  /** Holds for every child, whatever its provider can do. */
  readonly maxDepth: number | undefined;
}

/** Request fields that need a flag of the provider, in the order they are refused. */
const NEEDS = [
  ['outputSchema', 'outputSchema'],
  ['maxDepth', 'depthLimit'],
  ['toolFilter', 'toolFilter'],
  ['persona', 'persona'],
] as const;

const REQUEST = {
  label: 'any',
  prompt: 'any',
  parent: 'any',
  signal: 'signal',
  agentOptions: 'object',
  outputSchema: 'any',
  maxDepth: 'any',
  toolFilter: 'object',
  persona: 'text',
  limits: 'object',
} as const satisfies Record<keyof SubagentStartRequest, OptionKind>;

/**
 * Check a request, have the provider make the child, and tell of it. All that can be refused
 * here is refused before the provider is called, and that happens in the tick of this call: a
 * caller who aborts right after it is still in time.
 */
export async function startOneShot(
  context: OneShotContext,
  name: string,
  given: SubagentStartRequest,
): Promise<SubagentRun> {
  if (typeof name !== 'string') throw new ArgumentError('A provider is named by a text.');
  // Read once: what is checked is what the provider gets.
  const request = typeof given === 'object' && given !== null ? { ...given } : given;
  assertOptions('a start request', request, REQUEST);
  const { parent, label, signal, maxDepth, outputSchema } = request;
  if (parent?.id === undefined || context.agents.get(parent.id) !== parent) {
    const problem =
      notAnAgent(parent) ?? `"${printed(parent.id)}" is not live here: it has ended, or never was`;
    throw new SubagentError('UNAUTHORIZED', `Cannot start a child of this parent: ${problem}.`);
  }
  context.assertAdmits(parent);
  assertOptions('limits', request.limits ?? {}, AGENT_LIMITS);
  const provider = context.providers.get(name);
  if (provider === undefined) {
    const names = context.providers.names().map((known) => `"${known}"`);
    const known = names.length === 0 ? 'there is none' : `there are: ${names.join(', ')}`;
    throw new SubagentError(
      'NO_PROVIDER',
      `Cannot start a child: no provider is named "${name}"; ${known}.`,
    );
  }
  for (const [field, flag] of NEEDS) {
    if (request[field] === undefined || provider.capabilities[flag]) continue;
    throw new SubagentError(
      'UNSUPPORTED_CAPABILITY',
      `Cannot start a child: the provider "${name}" does not support ${flag}, which "${field}" asks for.`,
    );
  }
  if (maxDepth !== undefined) assertMaxDepth(maxDepth);
  if (outputSchema !== undefined) assertObjectJsonSchema(outputSchema);
  const descriptor = snapshotDescriptor({ mode: 'one-shot', provider: name, label });
  if (signal === undefined) {
    throw new ArgumentError('Cannot start a child: the request has no AbortSignal as its signal.');
  }
  if (!Array.isArray(request.prompt)) {
    throw new ArgumentError('Cannot start a child: its prompt is no list of content blocks.');
  }
  childDepth(parent, context.maxDepth);

  const returned: unknown = await provider.start({ ...detached(request), descriptor });
  const problem = runProblem(returned);
  if (problem !== undefined) {
    const { dispose, result } = (returned ?? {}) as Partial<SubagentRun>;
    // Whatever it made, nobody else can let go of it.
    void Promise.allSettled([result]);
    if (typeof dispose === 'function') {
      await takeBack(context.logger, () => dispose.call(returned));
    }
    throw new ArgumentError(`The provider "${name}" returned no run: ${problem}.`);
  }
  const run = returned as SubagentRun;
  const { id, localAgent, result } = run;
  if (localAgent === undefined) {
    // Its parent may have ended while it was started: then nobody comes by for it any more.
    if (context.agents.get(parent.id) !== parent) {
      void Promise.allSettled([result]);
      await takeBack(context.logger, () => run.dispose());
      throw new SubagentError('UNAUTHORIZED', `The agent "${parent.id}" ended meanwhile.`);
    }
    context.remote.add(parent, run);
  }
  const end = context.lifecycle.start(parent, {
    provider: name,
    id,
    local: localAgent !== undefined,
  });
  // Reactions run later, so even a result that was settled already is told after its start.
  Promise.resolve(result)
    .then((value) => end(...outcomeOf(value)))
    // The failure itself is the holder's, who has the promise.
    .catch(() => end('error'));
  return run;
}

/** A caller may go on with its own objects: what is read after this tick is a copy of them. */
function detached(request: SubagentStartRequest): SubagentStartRequest {
  const { agentOptions, outputSchema, toolFilter, limits } = request;
  return {
    ...request,
    ...(agentOptions === undefined ? {} : { agentOptions: { ...agentOptions } }),
    ...(outputSchema === undefined
      ? {}
      : { outputSchema: losslessCopy(outputSchema) as ObjectJsonSchema }),
    ...(toolFilter === undefined ? {} : { toolFilter: copyOfLists(toolFilter) }),
    ...(limits === undefined ? {} : { limits: { ...limits } }),
  };
}

/** Whatever the lists are: whoever applies the filter says what is wrong with it. */
function copyOfLists<T extends object>(filter: T): T {
  const copies = Object.entries(filter).map(([key, list]: [string, unknown]) => [
    key,
    Array.isArray(list) ? [...(list as unknown[])] : list,
  ]);
  return Object.fromEntries(copies) as T;
}

/** What keeps a provider's answer from being a run, or `undefined`. */
function runProblem(returned: unknown): string | undefined {
  if (typeof returned !== 'object' || returned === null) {
    return `it is ${returned === null ? 'null' : typeof returned}`;
  }
  const { id, localAgent, result, dispose } = returned as Partial<SubagentRun>;
  if (typeof id !== 'string' || id === '') return 'it has no id';
  if (typeof result?.then !== 'function') return 'its result is no promise';
  if (typeof dispose !== 'function') return 'it cannot be disposed';
  return localAgent === undefined || localAgent?.id === id
    ? undefined
    : 'its agent is not the one of its id';
}

/** What a result says of its end, even one that is not what a provider has to give. */
function outcomeOf(value: SubagentResult | undefined): Parameters<SubagentEnd> {
  const { stopReason, output } = value ?? {};
  return [
    typeof stopReason === 'string' ? stopReason : 'error',
    Array.isArray(output) ? output : [],
  ];
}
