/** How a continuable child is told more, resident or brought back from the store. */
import type { ContentBlock, MessageSource } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, StoreError, SubagentError } from '../../protocol/errors.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { SubagentDescriptor } from '../../protocol/session-events.ts';
import type { Agent, AgentOptions } from '../agent/agent.ts';
import { readOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import type { Activation } from './activation.ts';
import { assertParent, notYours, persistence } from './activations.ts';
import { composeChild, readableMessage } from './child-composition.ts';
import type { ContinuableContext } from './continuable.ts';
import { foldSubagentDescriptor } from './descriptor.ts';
import type { ContinuableDescriptor } from './descriptor.ts';
import { keptLimits } from './kept-limits.ts';
import { inOneLine } from './settlement.ts';

/** On whose behalf a message is sent, and how long its sender waits. */
export interface SubagentFollowupOptions {
  /** Stored with the message. Attribution only: it grants nothing. */
  readonly source: MessageSource;
  /**
   * Ends the call until the message is accepted. From then on the store decides: the call is
   * answered when it has, whatever the signal says.
   */
  readonly signal: AbortSignal;
}

const OPTIONS = {
  source: 'object',
  signal: 'signal',
} as const satisfies Record<keyof SubagentFollowupOptions, OptionKind>;

/** What only the runtime says: its own bookkeeping reads them. */
const OURS: readonly string[] = ['subagent-settled', 'subagent-report', 'job-settled'];

/**
 * One more message for a child of this parent, resident or not.
 *
 * @throws {SubagentError} (rejects) `DRAINING`, `UNAUTHORIZED`, `ACTIVATION_CLOSING`,
 *   `PERSISTENCE_UNAVAILABLE`, `NOT_RESUMABLE`, `CAPACITY`, `ACTIVATION_SETUP_REVOKED`
 * @throws {StoreError} (rejects) when it could not be kept
 * @throws {ArgumentError} (rejects) for content without text, or wrong options
 * Whatever the signal was aborted with is passed on.
 */
export async function followup(
  context: ContinuableContext,
  parent: Agent,
  childId: SessionId,
  content: readonly ContentBlock[] | string,
  options: SubagentFollowupOptions,
): Promise<{ messageId: MessageId }> {
  const { source, signal } = checkedOptions(childId, options);
  const { activations } = context;
  const message = readableMessage(content, source);
  for (;;) {
    assertParent(activations, parent, 'tells a child anything');
    signal.throwIfAborted();
    let isRouted = false;
    const routing = activations.lock.run(childId, async () => {
      signal.throwIfAborted();
      isRouted = true;
      const resident = activations.get(childId);
      // Being released: waited for outside of the lock, whatever becomes of it.
      if (resident?.disposal !== undefined) return { released: resident.disposal };
      const activation = resident ?? (await resume(context, parent, childId, signal));
      try {
        return activations.submit(activation, parent, message, signal);
      } catch (error) {
        // Brought back for nothing: it goes again, with all that waited for it.
        if (resident === undefined) await activations.end(activation, 'keep').catch(() => {});
        throw error;
      }
    });
    // Whoever is in front may take long: an abort ends this wait. Once it is this one's turn the
    // abort is its own to see, which leaves nothing behind.
    const waiting = activations.waitFor(parent, signal, () => routing);
    const routed = await waiting.catch((error: unknown) => {
      if (isRouted) return routing;
      throw error;
    });
    if ('kept' in routed) {
      await routed.kept;
      return { messageId: message.id };
    }
    const { released } = routed;
    await activations.waitFor(parent, signal, () => released.catch(() => {}));
  }
}

/**
 * Bring a settled child back from the store. Under its lock.
 * @throws {SubagentError} (rejects) as `followup`; whatever else fails is its `NOT_RESUMABLE`
 */
export async function resume(
  { activations, setups, places, childLimits }: ContinuableContext,
  parent: Agent,
  childId: SessionId,
  signal: AbortSignal,
): Promise<Activation> {
  signal.throwIfAborted();
  activations.assertAdmits(parent);
  const { agents } = activations.services;
  const sessions = persistence(activations);
  const live = agents.get(childId);
  if (live !== undefined) {
    if (live.session.header.parentSession !== parent.id) throw notYours(childId, parent);
    throw notResumable(childId, whyLiveElsewise(live), { isFinal: false });
  }
  const reading = activations.waitFor(parent, signal, () => sessions.inspect(childId, signal));
  const { header, events } = await reading.catch((error: unknown) => {
    signal.throwIfAborted();
    activations.assertAdmits(parent);
    const isUnknown = error instanceof StoreError && error.code === 'SESSION_NOT_FOUND';
    const why = isUnknown ? UNKNOWN : 'its session cannot be read now';
    throw notResumable(childId, why, { isFinal: false, cause: error });
  });
  signal.throwIfAborted();
  activations.assertAdmits(parent);
  // Whose it is comes before what it is: a stranger learns nothing more of it.
  if (header.parentSession !== parent.id) throw notYours(childId, parent);
  const descriptor = descriptorOf(childId, events.slice(header.seedLength ?? 0));
  const { label, provider } = descriptor;
  const place = places.take(parent, false);
  try {
    const activation = await activations.begin({
      childId,
      parent,
      provider,
      label,
      signal,
      build: (ending) =>
        agents.resumeManaged(childId, {
          agentOptions: storedOptions(descriptor),
          limits: keptLimits(descriptor.limits, childLimits),
          startedBy: parent,
          signal: ending,
          setup(child) {
            composeChild(child, descriptor);
            return setups.install(child);
          },
        }),
    });
    place.isOf(activation.agent);
    return activation;
  } catch (error) {
    place.undo();
    signal.throwIfAborted();
    if (error instanceof SubagentError) throw error;
    throw notResumable(childId, 'it could not be brought back', { isFinal: false, cause: error });
  }
}

function checkedOptions(
  childId: SessionId,
  given: SubagentFollowupOptions,
): SubagentFollowupOptions {
  if (typeof childId !== 'string') throw new ArgumentError('A child is named by a text, its id.');
  const options = readOptions('a follow-up', given, OPTIONS);
  for (const key of ['source', 'signal'] as const) {
    if (options[key] === undefined) throw new ArgumentError(`A follow-up needs "${key}".`);
  }
  if (OURS.includes(options.source.kind)) {
    throw new ArgumentError(`The source "${options.source.kind}" is the runtime's own.`);
  }
  return options;
}

function descriptorOf(
  childId: SessionId,
  own: Parameters<typeof foldSubagentDescriptor>[0],
): ContinuableDescriptor {
  let descriptor: SubagentDescriptor | undefined;
  try {
    descriptor = foldSubagentDescriptor(own);
  } catch (cause) {
    const why = 'the record of how it was made is damaged';
    throw notResumable(childId, why, { isFinal: true, cause });
  }
  if (descriptor?.mode === 'continuable') return descriptor;
  const why =
    descriptor === undefined ? 'nothing says how it was made' : 'it was made for one task only';
  throw notResumable(childId, why, { isFinal: true });
}

const UNKNOWN =
  'the store holds no session of that id. It is another id, or that of another store: another ' +
  'file, or `:memory:`, which ends with its harness';

/** A continuable child that is live is resident, unless somebody opened it in another way. */
function whyLiveElsewise({ session }: Agent): string {
  const own = session.eventsFrom(session.header.seedLength ?? 0);
  return own.some(({ type, data }) => type === 'subagent/descriptor' && data.mode === 'continuable')
    ? 'it was opened by itself, and can be told more once that is disposed'
    : 'it is a one-shot child, which has one task and takes no more';
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

/** @param why.isFinal a later attempt cannot go otherwise: models read this text */
function notResumable(
  childId: SessionId,
  why: string,
  { isFinal, cause }: { readonly isFinal: boolean; readonly cause?: unknown },
): SubagentError {
  const advice = isFinal ? ' Do not try this id again.' : '';
  const reason =
    cause === undefined || why === UNKNOWN
      ? ''
      : ` (${inOneLine(toErrorRecord(cause)).replace(/\.$/u, '')})`;
  return new SubagentError(
    'NOT_RESUMABLE',
    `"${childId}" cannot be told anything: ${why}${reason}.${advice}`,
    cause === undefined ? undefined : { cause },
  );
}
