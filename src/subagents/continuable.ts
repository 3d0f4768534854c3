/** How a continuable child is started: from the caller's spec to a task that is accepted and kept. */
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { UserMessage } from '../../protocol/content.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import { losslessCopy } from '../../protocol/json.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Agent } from '../agent/agent.ts';
import { AGENT_LIMITS } from '../agent/create-options.ts';
import { readOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { newId } from '../base/ids.ts';
import { checkAgentLimits } from '../base/limit-values.ts';
import { originOf } from '../session/session.ts';
import type { Activations } from './activations.ts';
import { assertParent, persistence } from './activations.ts';
import { childMeta, childOptions, composeChild, readableMessage } from './child-composition.ts';
import { assertMaxDepth, childDepth } from './depth.ts';
import { snapshotDescriptor } from './descriptor.ts';
import type { ContinuableDescriptor } from './descriptor.ts';
import type { ChildLimits } from './kept-limits.ts';
import type { Place, Places } from './places.ts';
import type { ContinuableCreateSpec, SubagentProvider, SubagentStartRequest } from './provider.ts';
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
  /**
   * Ends the start until its task is accepted. From then on the store decides: the call is answered
   * when it has, whatever the signal says.
   */
  readonly signal: AbortSignal;
}

/** The child, and its task: the first message in its inbox. */
export interface ContinuableStart {
  readonly childId: SessionId;
  readonly messageId: MessageId;
}

export interface ContinuableContext {
  readonly activations: Activations;
  readonly providers: ProviderRegistry;
  readonly setups: Setups;
  readonly maxDepth: number | undefined;
  /** What children have that were given nothing else. Absent: nobody says. */
  readonly childLimits?: ChildLimits | undefined;
  readonly places: Places;
}

const NAME_CHARS = 256;
const SPEC = {
  provider: 'text',
  label: 'text',
  childId: 'text',
  request: 'object',
  signal: 'signal',
} as const satisfies Record<keyof ContinuableStartSpec, OptionKind>;
const REQUEST = {
  prompt: 'any',
  parent: 'any',
  agentOptions: 'object',
  maxDepth: 'any',
  toolFilter: 'object',
  persona: 'text',
  limits: 'object',
} as const satisfies Record<keyof ContinuableStartSpec['request'], OptionKind>;

/** What is decided of a child before anybody is asked for anything. It shares nothing with the caller. */
interface Plan {
  readonly childId: SessionId;
  readonly parent: Agent;
  readonly descriptor: ContinuableDescriptor;
  readonly depth: number;
  readonly agentOptions: ReturnType<typeof childOptions>;
  readonly signal: AbortSignal;
}

/**
 * Make a continuable child and have it accept its task. Up to the call of the provider everything
 * is checked in the tick of this call. A rejection leaves nothing behind.
 *
 * @throws {SubagentError} (rejects) `DRAINING`, `UNAUTHORIZED`, `ACTIVATION_CLOSING`,
 *   `PERSISTENCE_UNAVAILABLE`, `DUPLICATE_CHILD`, `NO_PROVIDER`, `UNSUPPORTED_CAPABILITY`,
 *   `ACTIVATION_SETUP_REVOKED`, `CAPACITY`
 * @throws {SubagentDepthError} (rejects) when the child would be too deep
 * @throws {StoreError} (rejects) when its task could not be kept
 * @throws {ArgumentError} (rejects) for anything else that is wrong with the spec
 * Whatever the signal was aborted with, and what the provider or a setup throws, is passed on.
 */
export async function startContinuable(
  context: ContinuableContext,
  given: ContinuableStartSpec,
): Promise<ContinuableStart> {
  const spec = checkedSpec(given);
  const { activations, maxDepth } = context;
  const { label, provider, signal, request } = spec;
  const { parent, persona, toolFilter } = request;
  const message = readableMessage(request.prompt);
  assertParent(activations, parent, 'has children');
  persistence(activations);
  if (request.maxDepth !== undefined) assertMaxDepth(request.maxDepth);
  const childId = sessionId(spec.childId ?? newId());
  if (isLive(activations, childId)) throw duplicate(childId);
  const depth = childDepth(parent, smaller(request.maxDepth, maxDepth));
  const agentOptions = childOptions(parent, request.agentOptions, depth);
  const descriptor = snapshotDescriptor({
    mode: 'continuable',
    provider,
    label,
    agentProvider: agentOptions.provider,
    agentModel: agentOptions.model,
    maxTokens: agentOptions.maxTokens,
    persona,
    toolFilter,
    limits: request.limits,
  }) as ContinuableDescriptor;
  const plan: Plan = { childId, parent, descriptor, depth, agentOptions, signal };
  signal.throwIfAborted();
  const place = context.places.take(parent, true);
  try {
    const messageId = await admitted(context, plan, message, place);
    return { childId, messageId };
  } catch (error) {
    place.undo();
    throw error;
  }
}

/** The child has its place: make it, and give it its task. A rejection leaves nothing of it behind. */
async function admitted(
  context: ContinuableContext,
  plan: Plan,
  message: UserMessage,
  place: Place,
): Promise<MessageId> {
  const { activations, providers } = context;
  const { childId, parent, signal } = plan;
  const { provider } = plan.descriptor;
  const sessions = persistence(activations);
  // Data is all it can bring, so one that does not look at the signal is let go of.
  const prepare = preparationOf(providers, provider);
  const prepared = await activations.waitFor(parent, signal, () =>
    prepare({ sessionId: childId, parent, signal }),
  );
  const seed = seedOf(provider, prepared);
  const assertWanted = (): void => {
    signal.throwIfAborted();
    activations.assertAdmits(parent);
  };
  const { activation, kept } = await activations.lock.run(childId, async () => {
    assertWanted();
    const begun = await begin(context, plan, seed).catch(async (error: unknown) => {
      // Whoever makes the agent refuses an id that is live, or stored, by now: also one that was
      // taken by somebody who knows nothing of this lock.
      if (!(error instanceof ArgumentError)) throw error;
      const isTaken =
        isLive(activations, childId) ||
        (await activations.waitFor(parent, signal, () => sessions.isStored(childId)));
      throw isTaken ? duplicate(childId) : error;
    });
    place.isOf(begun.agent);
    // From here to the acceptance there is no await. What happened since its publication, a drain
    // or an abort by a listener, is seen here, and the child goes again without a trace.
    try {
      const submitted = activations.submit(begun, parent, message, signal);
      // Its log, which was held back, and this message are one transaction.
      sessions.accept(begun.agent.session);
      // Whoever is to be told of it must be found again, although it was never told anything yet.
      if (parent.session.header.parentSession === undefined) sessions.accept(parent.session);
      return { activation: begun, ...submitted };
    } catch (error) {
      await activations.end(begun, 'discard').catch(() => {});
      throw error;
    }
  });
  try {
    await kept;
  } catch (error) {
    // Nothing of it is stored. It is gone when the caller hears of it.
    await activations.end(activation, 'discard').catch(() => {});
    throw error;
  }
  return message.id;
}

const isLive = ({ services: { agents, sessions } }: Activations, childId: SessionId): boolean =>
  agents.get(childId) !== undefined || sessions?.get(childId) !== undefined;

function begin(
  { activations, setups }: ContinuableContext,
  { childId, parent, descriptor, depth, agentOptions, signal }: Plan,
  seed: readonly SessionEvent[] | undefined,
): ReturnType<Activations['begin']> {
  const { provider, label, limits } = descriptor;
  return activations.begin({
    childId,
    parent,
    provider,
    label,
    signal,
    build: (ending) =>
      activations.services.agents.createManaged({
        sessionId: childId,
        meta: {
          ...childMeta(parent, depth),
          ...(seed === undefined ? {} : { seedLength: seed.length }),
        },
        ...(seed === undefined ? {} : { seed }),
        identity: descriptor,
        startedBy: parent,
        agentOptions,
        signal: ending,
        ...(limits === undefined ? {} : { limits }),
        setup(child) {
          composeChild(child, descriptor);
          return setups.install(child);
        },
      }),
  });
}

function checkedSpec(given: ContinuableStartSpec): ContinuableStartSpec {
  const spec = readOptions('a continuable start', given, SPEC);
  for (const key of ['provider', 'label', 'request', 'signal'] as const) {
    if (spec[key] === undefined) throw new ArgumentError(`A continuable start needs "${key}".`);
  }
  const request = readOptions('the request of a continuable start', spec.request, REQUEST);
  const limits = request.limits && readOptions('limits', request.limits, AGENT_LIMITS);
  checkAgentLimits(limits ?? {});
  const { childId = 'new', label } = spec;
  if (childId === '' || childId.length > NAME_CHARS) {
    throw new ArgumentError(`The id of a child takes 1 to ${NAME_CHARS} characters.`);
  }
  if (label.trim() === '' || label.length > NAME_CHARS) {
    throw new ArgumentError(`The label of a child takes 1 to ${NAME_CHARS} characters.`);
  }
  return { ...spec, request: { ...request, ...(limits === undefined ? {} : { limits }) } };
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

/**
 * What the child begins with, or `undefined` for a fresh one. Whether it is a log, whoever makes
 * the session says.
 * @throws {ArgumentError} for an answer that is none, or that a later change could reach
 */
function seedOf(
  provider: string,
  answer: ContinuableCreateSpec | undefined,
): readonly SessionEvent[] | undefined {
  const what = `the answer of the provider "${provider}"`;
  const { seed = [] } = readOptions<ContinuableCreateSpec>(what, answer, { seed: 'list' });
  if (seed.length === 0) return undefined;
  // The turns of a session are shared as they are: frozen, and known by their very array.
  if (originOf(seed) !== undefined) return seed;
  try {
    return losslessCopy(seed) as unknown as readonly SessionEvent[];
  } catch (error) {
    throw new ArgumentError(`The seed of the provider "${provider}" is not losslessly JSON.`, {
      cause: error,
    });
  }
}

const duplicate = (childId: SessionId): SubagentError =>
  new SubagentError('DUPLICATE_CHILD', `There is a session "${childId}" already.`);

const smaller = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined ? other : other === undefined ? one : Math.min(one, other);
