import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { notAnAgent } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import { AGENT_LIMITS } from '../agent/create-options.ts';
import { assertOptions } from '../base/assert-options.ts';
import { whenSettled } from '../base/deferred.ts';
import { copyOfObjectJsonSchema } from '../tools/json-schema.ts';
import { assertMaxDepth, childDepth } from './depth.ts';
import { snapshotDescriptor } from './descriptor.ts';
import type { SubagentLifecycle } from './lifecycle.ts';
import type {
  ResolvedSubagentStartRequest,
  SubagentRun,
  SubagentStartRequest,
} from './provider.ts';
import type { Place, Places } from './places.ts';
import type { RemoteRuns } from './remote-runs.ts';
import type { ProviderRegistry } from './registry.ts';
import { readResult } from './returned-result.ts';
import { readRun } from './returned-run.ts';
import { copyOfPrompt, readRequest } from './start-request.ts';

/** What a start is decided with. */
export interface OneShotContext {
  /** The registry whose exact object a parent has to be. */
  readonly agents: { get(id: SessionId): Agent | undefined };
  readonly providers: ProviderRegistry;
  readonly lifecycle: SubagentLifecycle;
  readonly remote: RemoteRuns;
  /** Throws when the parent may start nothing, because it is being ended. */
  assertAdmits(parent: Agent): void;
  /** Holds for every child, whatever its provider can do. */
  readonly maxDepth: number | undefined;
  readonly places: Places;
}

/** Request fields that need a flag of the provider, in the order they are refused. */
const NEEDS = [
  ['outputSchema', 'outputSchema'],
  ['maxDepth', 'depthLimit'],
  ['toolFilter', 'toolFilter'],
  ['persona', 'persona'],
] as const;

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
  const request = readRequest(given);
  const { parent, label, signal, maxDepth } = request;
  assertLive(context, parent);
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
  const outputSchema =
    request.outputSchema === undefined ? undefined : copyOfObjectJsonSchema(request.outputSchema);
  const descriptor = snapshotDescriptor({ mode: 'one-shot', provider: name, label });
  if (signal === undefined) {
    throw new ArgumentError('Cannot start a child: the request has no AbortSignal as its signal.');
  }
  const prompt = copyOfPrompt(request.prompt);
  childDepth(parent, context.maxDepth);

  const place = context.places.take(parent, true);
  try {
    const resolved = {
      ...request,
      ...(outputSchema === undefined ? {} : { outputSchema }),
      prompt,
      descriptor,
    };
    return await publish(context, resolved, await provider.start(resolved), place);
  } catch (error) {
    place.undo();
    throw error;
  }
}

/** What a provider answered with: told of if it is a run, and else let go of. */
async function publish(
  context: OneShotContext,
  { parent, descriptor: { provider: name, label } }: ResolvedSubagentStartRequest,
  returned: SubagentRun,
  place: Place,
): Promise<SubagentRun> {
  const { id, localAgent, result, dispose, problem } = readRun(returned);
  if (problem !== undefined || dispose === undefined) {
    // Whatever it made, nobody else can let go of it.
    whenSettled(result, ignore, ignore);
    if (dispose !== undefined) await context.remote.release(parent, { id: printed(id), dispose });
    throw new ArgumentError(`The provider "${name}" returned no run: ${problem}.`);
  }
  if (localAgent === undefined) {
    // Its parent may have ended while it was started, or be about to: then nobody comes by for it
    // any more.
    if (context.remote.isEnding(parent) || context.agents.get(parent.id) !== parent) {
      whenSettled(result, ignore, ignore);
      await context.remote.release(parent, { id, dispose });
      throw new SubagentError('UNAUTHORIZED', `The agent "${parent.id}" ended meanwhile.`);
    }
    context.remote.add(parent, { id, result, dispose });
    // All that is known of it here: what it still holds after its result is its provider's.
    whenSettled(result, place.free, place.free);
  } else {
    place.isOf(localAgent);
  }
  const isLocal = localAgent !== undefined;
  const end = context.lifecycle.start(parent, { provider: name, id, local: isLocal }, label);
  // Reactions run later, so even a result that was settled already is told after its start.
  const tell = (value: unknown): void => {
    const { stopReason, output, diagnostic } = readResult(value);
    end(stopReason, output, diagnostic);
  };
  // A failure itself is the holder's, who has the promise.
  whenSettled(result, tell, () => end('error'));
  return returned;
}

const ignore = (): void => {};

/** @throws {SubagentError} `UNAUTHORIZED`, whatever was given for an agent. */
function assertLive({ agents }: OneShotContext, parent: Agent): void {
  let problem: string;
  try {
    const id: SessionId | undefined = parent?.id;
    if (id !== undefined && agents.get(id) === parent) return;
    problem = notAnAgent(parent) ?? `"${printed(id)}" is not live here: it has ended, or never was`;
  } catch {
    // Accessors of what is no agent of ours.
    problem = 'it cannot be read';
  }
  throw new SubagentError('UNAUTHORIZED', `Cannot start a child of this parent: ${problem}.`);
}
