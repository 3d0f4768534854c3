import type { ContentBlock } from '../../protocol/content.ts';
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { MessageId } from '../../protocol/ids.ts';
import { MAX_ANSWER_BYTES } from '../../protocol/model-grammar.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import { readOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import type { Activations } from './activations.ts';
import { idOf } from './lineage.ts';
import { hasQueued } from './notices.ts';

/**
 * How a report reaches the parent: `wakeup` is a later turn of its own, `next-step` joins the
 * open turn or opens one, `quiet` waits for whatever comes next.
 */
export type ReportDelivery = 'quiet' | 'wakeup' | 'next-step';

/** What the report of a child is delivered with. */
export interface ReportOptions {
  readonly delivery: ReportDelivery;
  /** Ends the call; once the report is accepted it has no effect. */
  readonly signal?: AbortSignal;
}

const OPTIONS = {
  delivery: 'text',
  signal: 'signal',
} as const satisfies Record<keyof ReportOptions, OptionKind>;
const DELIVERIES: readonly string[] = ['quiet', 'wakeup', 'next-step'];

/** UTF-8 bytes of its content as JSON: as much as one answer of a model may have. */
const MAX_REPORT_BYTES = MAX_ANSWER_BYTES;

/**
 * From the look at the child to the parent's inbox there is no await.
 *
 * @throws {ArgumentError} (rejects) for content that is none or too large, or wrong options
 * @throws {SubagentError} (rejects) `DRAINING`, `UNAUTHORIZED`, `ACTIVATION_CLOSING`,
 *   `PARENT_UNAVAILABLE`, `CAPACITY`
 * @throws {StoreError} (rejects) when it could not be kept, and was withdrawn
 * Whatever the signal was aborted with is passed on.
 */
export async function reportFrom(
  activations: Activations,
  child: Agent,
  content: readonly ContentBlock[] | string,
  options: ReportOptions,
): Promise<{ messageId: MessageId }> {
  const { delivery, signal, blocks } = checked(content, options);
  signal?.throwIfAborted();
  const { agents, admission } = activations.services;
  admission.assertOpen(child);
  const activation = activations.of(child);
  if (activation === undefined) {
    throw new SubagentError(
      'UNAUTHORIZED',
      `"${printed(idOf(child))}" is no resident subagent; it has nobody to report to.`,
    );
  }
  const { id, label, parentId } = activation;
  if (activation.disposal !== undefined) {
    throw new SubagentError('ACTIVATION_CLOSING', `The subagent "${id}" is being released.`);
  }
  const parent = agents.get(parentId);
  if (parent === undefined) throw parentUnavailable(parentId);
  const message = createUserMessage(
    [{ type: 'text', text: `Your subagent "${label}" (id ${id}) reports:\n` }, ...blocks],
    { kind: 'subagent-report', form: 'relay', senderSessionId: id },
  );
  const isQueued = hasQueued(parent, id);
  try {
    if (delivery === 'quiet') {
      if (isQueued) agents.enqueue(parent, message);
      else parent.inject(message);
    } else if (delivery === 'wakeup' || isQueued) parent.followup(message);
    else parent.steer(message);
  } catch (error) {
    // It can be told later, if its parent reads on.
    if (error instanceof SubagentError && error.code === 'CAPACITY') throw error;
    throw parentUnavailable(parentId, error);
  }
  await parent.session.committed();
  return { messageId: message.id };
}

/** @throws {ArgumentError} */
function checked(
  content: readonly ContentBlock[] | string,
  given: ReportOptions,
): ReportOptions & { readonly blocks: readonly ContentBlock[] } {
  const options = readOptions('a report', given, OPTIONS);
  if (!DELIVERIES.includes(options.delivery)) {
    throw new ArgumentError(`A report is delivered as one of: ${DELIVERIES.join(', ')}.`);
  }
  const blocks = createUserMessage(content).content;
  if (Buffer.byteLength(JSON.stringify(blocks)) > MAX_REPORT_BYTES) {
    throw new ArgumentError(`A report has at most ${MAX_REPORT_BYTES} bytes as JSON.`);
  }
  return { ...options, blocks };
}

const parentUnavailable = (id: string, cause?: unknown): SubagentError =>
  new SubagentError(
    'PARENT_UNAVAILABLE',
    `The parent "${id}" takes no report now.`,
    cause === undefined ? undefined : { cause },
  );
