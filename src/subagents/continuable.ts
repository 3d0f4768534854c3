/** How continuable children are started, told more, and brought back from the store. */
import type { ContentBlock, MessageSource } from '../../protocol/content.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import type { SubagentDescriptor } from '../../protocol/session-events.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent, AgentOptions } from '../agent/agent.ts';
import { AGENT_LIMITS } from '../agent/create-options.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { newId } from '../base/ids.ts';
import type { Activations } from './activations.ts';
import { notYours } from './activations.ts';
import { childMeta, childOptions, composeChild } from './child-composition.ts';
import { assertMaxDepth, childDepth } from './depth.ts';
import { foldSubagentDescriptor, snapshotDescriptor } from './descriptor.ts';
import type { SubagentProvider, SubagentStartRequest } from './provider.ts';
import type { ProviderRegistry } from './registry.ts';
import type { Setups } from './setup.ts';

/** What a continuable child is started with. */
export interface ContinuableStartSpec {
  readonly provider: string;
  /** A short name for people and for the parent's model. */
  readonly label: string;
  /** Absent: a new unique one. */
  readonly childId?: string;
  readonly request: Omit<SubagentStartRequest, 'label' | 'signal' | 'outputSchema'>;
  /** Ends the start; once the ids are returned it has no effect. */
  readonly signal: AbortSignal;
}

export interface ContinuableStart {
  readonly childId: SessionId;
  readonly messageId: MessageId;
}

export interface SubagentFollowupOptions {
  /** Stored with the message. Attribution only: it grants nothing. */
  readonly source: MessageSource;
  /** Ends the call; once the id is returned it has no effect. */
  readonly signal: AbortSignal;
}

export interface ContinuableContext {
  readonly activations: Activations;
  readonly providers: ProviderRegistry;
  readonly setups: Setups;
  readonly maxDepth: number | undefined;
}

const SPEC = {
  provider: 'text',
  label: 'text',
  childId: 'text',
  request: 'object',
  signal: 'signal',
} as const satisfies Record<keyof ContinuableStartSpec, OptionKind>;
const REQUEST = {
  prompt: 'list',
  parent: 'object',
  agentOptions: 'object',
  maxDepth: 'any',
  toolFilter: 'object',
  persona: 'text',
  limits: 'object',
} as const satisfies Record<keyof ContinuableStartSpec['request'], OptionKind>;

/**
 * Make a continuable child and have it accept its task. Up to the provider everything is checked
 * in the tick of the call; from its publication to the acceptance there is no await.
 */
export async function startContinuable(
  context: ContinuableContext,
  given: ContinuableStartSpec,
): Promise<ContinuableStart> {
  const spec = checkedSpec(given);
  const { activations, maxDepth } = context;
  const { agents } = activations.services;
  const { label, signal, request } = spec;
  const { parent, persona, toolFilter } = request;
  activations.assertAdmits(parent);
  const sessions = persistence(activations);
  if (request.maxDepth !== undefined) assertMaxDepth(request.maxDepth);
  const childId = sessionId(spec.childId ?? newId());
  const assertFree = (): void => {
    if (agents.get(childId) !== undefined || sessions.get(childId) !== undefined) {
      throw duplicate(childId);
    }
  };
  assertFree();
  const depth = childDepth(parent, smaller(request.maxDepth, maxDepth));
  const options = childOptions(parent, request.agentOptions, depth);
  const descriptor = snapshotDescriptor({
    mode: 'continuable',
    provider: spec.provider,
    label,
    agentProvider: options.provider,
    agentModel: options.model,
    maxTokens: options.maxTokens,
    persona,
    toolFilter,
  });
  const message = createUserMessage(request.prompt, { kind: 'user' });
  signal.throwIfAborted();
  const prepare = preparationOf(context.providers, spec.provider);
  const { seed } = (await prepare({ sessionId: childId, parent, signal })) ?? {};
  signal.throwIfAborted();
  activations.assertAdmits(parent);
  const activation = await activations.lock.run(childId, async () => {
    signal.throwIfAborted();
    activations.assertAdmits(parent);
    assertFree();
    if (spec.childId !== undefined) {
      const isStored = await sessions.isStored(childId);
      signal.throwIfAborted();
      activations.assertAdmits(parent);
      assertFree();
      if (isStored) throw duplicate(childId);
    }
    const begun = await activations.begin({
      childId,
      parent,
      provider: spec.provider,
      label,
      signal,
      build: (ending) =>
        agents.createManaged({
          sessionId: childId,
          meta: {
            ...childMeta(parent, depth),
            ...(seed === undefined ? {} : { seedLength: seed.length }),
          },
          ...(seed === undefined ? {} : { seed }),
          identity: descriptor,
          startedBy: parent,
          agentOptions: options,
          signal: ending,
          ...(request.limits === undefined ? {} : { limits: request.limits }),
          setup(child) {
            composeChild(child, request);
            return context.setups.install(child);
          },
        }),
    });
    try {
      activations.submit(begun, parent, message, signal);
    } catch (error) {
      await activations.end(begun, 'discard').catch(() => {});
      throw error;
    }
    return begun;
  });
  await activations.kept(activation);
  return { childId, messageId: message.id };
}

/** One more message for a child of this parent, resident or not. */
export async function followup(
  context: ContinuableContext,
  parent: Agent,
  childId: SessionId,
  content: readonly ContentBlock[] | string,
  { source, signal }: SubagentFollowupOptions,
): Promise<{ messageId: MessageId }> {
  const { activations } = context;
  const message = createUserMessage(content, source);
  for (;;) {
    activations.assertAdmits(parent);
    signal.throwIfAborted();
    const routed = await activations.lock.run(childId, async () => {
      const resident = activations.get(childId);
      // Being released: waited for outside of the lock, whatever becomes of it.
      if (resident?.disposal !== undefined) return { released: resident.disposal };
      const activation = resident ?? (await resume(context, parent, childId, signal));
      try {
        activations.submit(activation, parent, message, signal);
      } catch (error) {
        // Brought back for nothing: it goes again.
        if (resident === undefined) await activations.end(activation, 'keep').catch(() => {});
        throw error;
      }
      return { activation };
    });
    if ('activation' in routed) {
      await activations.kept(routed.activation);
      return { messageId: message.id };
    }
    await routed.released.catch(() => {});
  }
}

/** Bring a settled child back from the store. Under its lock. */
async function resume(
  context: ContinuableContext,
  parent: Agent,
  childId: SessionId,
  signal: AbortSignal,
): ReturnType<Activations['begin']> {
  const { activations, setups } = context;
  const { agents } = activations.services;
  const sessions = persistence(activations);
  if (agents.get(childId) !== undefined) {
    throw notResumable(childId, 'it is live, and no continuable subagent');
  }
  const stored = await sessions.inspect(childId, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw notResumable(childId, 'it is unavailable', error);
  });
  signal.throwIfAborted();
  activations.assertAdmits(parent);
  const { header, events } = stored;
  if (header.parentSession !== parent.id) throw notYours(childId, parent);
  const descriptor = descriptorOf(childId, events.slice(header.seedLength ?? 0));
  const { label, provider, persona, toolFilter } = descriptor;
  try {
    return await activations.begin({
      childId,
      parent,
      provider,
      label,
      signal,
      build: (ending) =>
        agents.resumeManaged(childId, {
          agentOptions: storedOptions(descriptor),
          startedBy: parent,
          signal: ending,
          setup(child) {
            composeChild(child, {
              ...(persona === undefined ? {} : { persona }),
              ...(toolFilter === undefined ? {} : { toolFilter }),
            });
            return setups.install(child);
          },
        }),
    });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SubagentError) throw error;
    throw notResumable(childId, 'it could not be brought back', error);
  }
}

type ContinuableDescriptor = Extract<SubagentDescriptor, { mode: 'continuable' }>;

function descriptorOf(
  childId: SessionId,
  own: Parameters<typeof foldSubagentDescriptor>[0],
): ContinuableDescriptor {
  let descriptor: SubagentDescriptor | undefined;
  try {
    descriptor = foldSubagentDescriptor(own);
  } catch (error) {
    throw notResumable(childId, 'the record of how it was made is damaged', error);
  }
  if (descriptor?.mode === 'continuable') return descriptor;
  throw notResumable(
    childId,
    descriptor === undefined ? 'nothing says how it was made' : 'it was made for one task only',
  );
}

/** Only what the descriptor says; nothing is invented for a child without a route. */
function storedOptions({
  agentProvider,
  agentModel,
  maxTokens,
}: ContinuableDescriptor): AgentOptions {
  return {
    ...(agentProvider === undefined ? {} : { provider: agentProvider }),
    ...(agentModel === undefined ? {} : { model: agentModel }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
  };
}

/** @throws {SubagentError} `PERSISTENCE_UNAVAILABLE` */
function persistence({ services }: Activations): NonNullable<typeof services.sessions> {
  if (services.sessions !== undefined) return services.sessions;
  throw new SubagentError(
    'PERSISTENCE_UNAVAILABLE',
    'A child can be continued only where sessions are kept.',
  );
}

function checkedSpec(given: ContinuableStartSpec): ContinuableStartSpec {
  const spec = typeof given === 'object' && given !== null ? { ...given } : given;
  assertOptions('a continuable start', spec, SPEC);
  for (const key of ['provider', 'label', 'request', 'signal'] as const) {
    if (spec[key] === undefined) throw new ArgumentError(`A continuable start needs "${key}".`);
  }
  const request = { ...spec.request };
  assertOptions('the request of a continuable start', request, REQUEST);
  assertOptions('limits', request.limits ?? {}, AGENT_LIMITS);
  if (spec.childId === '') throw new ArgumentError('The id of a child cannot be empty.');
  return { ...spec, request };
}

function preparationOf(
  providers: ProviderRegistry,
  name: string,
): NonNullable<SubagentProvider['prepareContinuable']> {
  const provider = providers.get(name);
  if (provider === undefined) {
    throw new SubagentError('NO_PROVIDER', `Cannot start a child: no provider is named "${name}".`);
  }
  if (provider.prepareContinuable === undefined) {
    throw new SubagentError(
      'UNSUPPORTED_CAPABILITY',
      `Cannot start a child: the provider "${name}" makes no continuable children.`,
    );
  }
  return provider.prepareContinuable.bind(provider);
}

const duplicate = (childId: SessionId): SubagentError =>
  new SubagentError('DUPLICATE_CHILD', `There is a session "${childId}" already.`);

function notResumable(childId: SessionId, why: string, cause?: unknown): SubagentError {
  return new SubagentError(
    'NOT_RESUMABLE',
    `"${childId}" cannot be told anything: ${why}. Do not try this id again.`,
    cause === undefined ? undefined : { cause },
  );
}

const smaller = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined ? other : other === undefined ? one : Math.min(one, other);
