import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';
import { AGENT_LIMITS } from '../agent/create-options.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { assertObjectJsonSchema } from '../tools/json-schema.ts';
import { assertMaxDepth, childDepth } from './depth.ts';
import { snapshotDescriptor } from './descriptor.ts';
import type { SubagentLifecycle } from './lifecycle.ts';
import type { SubagentRun, SubagentStartRequest } from './provider.ts';
import type { ProviderRegistry } from './registry.ts';

/** What a start is decided with. */
export interface OneShotContext {
  /** The registry whose exact object a parent has to be. */
  readonly agents: { get(id: SessionId): Agent | undefined };
  readonly providers: ProviderRegistry;
  readonly lifecycle: SubagentLifecycle;
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
  signal: 'any',
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
  request: SubagentStartRequest,
): Promise<SubagentRun> {
  if (typeof name !== 'string') throw new ArgumentError('A provider is named by a text.');
  assertOptions('A start request', request, REQUEST);
  const { parent, label, signal, maxDepth, outputSchema } = request;
  if (parent?.id === undefined || context.agents.get(parent.id) !== parent) {
    const isHandle = (parent as { agent?: unknown } | undefined)?.agent !== undefined;
    throw new SubagentError(
      'UNAUTHORIZED',
      isHandle
        ? 'Cannot start a child: its parent is a handle; give the agent itself, `handle.agent`.'
        : `Cannot start a child: its parent "${parent?.id}" is not the live agent of that id.`,
    );
  }
  assertOptions('limits', request.limits ?? {}, AGENT_LIMITS);
  const provider = context.providers.get(name);
  if (provider === undefined) {
    throw new SubagentError('NO_PROVIDER', `Cannot start a child: no provider is named "${name}".`);
  }
  for (const [field, flag] of NEEDS) {
    if (request[field] === undefined || provider.capabilities[flag]) continue;
    throw new SubagentError(
      'UNSUPPORTED_CAPABILITY',
      `Cannot start a child: the provider "${name}" does not support ${flag}.`,
    );
  }
  if (maxDepth !== undefined) assertMaxDepth(maxDepth);
  if (outputSchema !== undefined) assertObjectJsonSchema(outputSchema);
  const descriptor = snapshotDescriptor({ mode: 'one-shot', provider: name, label });
  if (typeof signal?.addEventListener !== 'function') {
    throw new ArgumentError('Cannot start a child: the request has no AbortSignal as its signal.');
  }
  childDepth(parent, context.maxDepth);

  const run = await provider.start({ ...request, descriptor });
  const { id, localAgent, result } = run;
  const end = context.lifecycle.start(parent, {
    provider: name,
    id,
    local: localAgent !== undefined,
  });
  // Reactions run later, so even a result that was settled already is told after its start.
  result.then(
    ({ stopReason, output }) => end(stopReason, output),
    // The failure itself is the holder's, who has the promise.
    () => end('error'),
  );
  return run;
}
