import type { ContentBlock, MessageSource, UserMessage } from '../../protocol/content.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import type { Session } from '../session/session.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { frozenCopy } from '../../protocol/json.ts';
import { newId } from '../base/ids.ts';

/**
 * What an agent is asked with. What is absent comes from the harness, or from the parent of a
 * child.
 */
export interface AgentOptions {
  /** A name under `models` of the harness. */
  readonly provider?: string;
  readonly model?: string;
  /** A positive safe integer. */
  readonly maxTokens?: number;
  /** Deepens the recorded depth; can never lower it. */
  readonly subagentDepth?: number;
}

/** Whether a turn is open, or about to be: what waits for a waking message only is `idle`. */
export type AgentStatus = 'idle' | 'running';

/** What waits for an agent, in order. A waking message makes it run, or `Agent.wake`. */
export interface InboxView {
  readonly nextTurn: readonly UserMessage[];
  readonly nextStep: readonly UserMessage[];
  readonly hasPending: boolean;
}

/**
 * One agent, as the main thread may use it. The object itself is the authority: who holds the
 * registry's exact object may act as that agent; an equal id is not enough.
 *
 * Delivery is accepted in the call and committed with its tick; `sessions.flush(session)` waits
 * for that. A message accepted before a call that throws stays accepted.
 */
export interface Agent {
  readonly id: SessionId;
  readonly session: Session;
  readonly options: AgentOptions;
  readonly status: AgentStatus;
  readonly inbox: InboxView;
  /**
   * One message, one later turn of its own, in order. Wakes an idle agent.
   * @throws {SubagentError} `CAPACITY` when as many wait as `limits.maxPending` allows; also of
   *   `steer` and `inject`
   */
  followup(message: UserMessage): void;
  /** Joins the running turn at its next step, or opens a turn. Wakes an idle agent. */
  steer(message: UserMessage): void;
  /** Context for the next step that comes anyway. Wakes nobody. */
  inject(message: UserMessage): void;
  /**
   * Run what waits in the inbox now, without telling the agent anything: also what an interrupt
   * or a failure parked, what an earlier life left, and what was injected. Nothing happens when
   * nothing waits.
   *
   * An idle agent is running from this call on; what is not committed yet joins once it is. While
   * a turn is open, whatever of it that turn does not take runs after it. A `cancel` that comes
   * later parks it again, and so does a turn that fails.
   * @throws {SubagentError} `DRAINING` before the agent is published and once it is being ended
   */
  wake(): void;
  /**
   * Stop the open turn; the first cause of a turn wins. Without `keepInbox` all that waits is
   * discarded, durably, even when the agent is idle. Returns at once.
   */
  cancel(cause: CancelCause, options?: { readonly keepInbox?: boolean }): void;
  /** Resolves when the loop has nothing to run. Never rejects; says nothing of one message. */
  whenIdle(): Promise<void>;
}

/** Ownership of one agent. Only the holder can dispose. */
export interface AgentHandle {
  readonly agent: Agent;
  /** Idempotent; all callers await the one teardown, which reaches quiescence. */
  dispose(): Promise<void>;
  /** As `dispose`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** What can be observed of agents. Listeners are contained. */
export interface AgentEvents {
  /** The one event whose listener may veto: a synchronous throw undoes the creation. */
  'agent/created': { readonly agent: Agent };
  'agent/status': { readonly agent: Agent; readonly status: AgentStatus };
  'agent/inbox/inserted': { readonly agent: Agent; readonly message: UserMessage };
  'agent/inbox/discarded': { readonly agent: Agent; readonly message: UserMessage };
  'agent/inbox/claimed': {
    readonly agent: Agent;
    readonly message: UserMessage;
    readonly turn: number;
  };
  /** A turn failed, or the agent's thread ended while none was open. */
  'agent/error': { readonly agent: Agent; readonly turn?: number; readonly error: AgentFailure };
  'agent/disposed': { readonly agent: Agent };
}

/** What went wrong with a turn or a thread: its code, and a sentence for people. */
export interface AgentFailure {
  readonly code: string;
  readonly message: string;
}

/** Below what a log can hold, so that what was made can be told. */
const MAX_MESSAGE_DEPTH = 900;

/**
 * A message for an agent. Text becomes one text block.
 * @throws {ArgumentError} when the content is not a list of blocks of JSON data.
 */
export function createUserMessage(
  content: string | readonly ContentBlock[],
  source: MessageSource = { kind: 'user' },
): UserMessage {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  if (!reads(() => Array.isArray(blocks) && blocks.every(isBlock))) {
    throw new ArgumentError(
      'A message takes text, or a list of content blocks such as { type: "text", text: "Hi" }.',
    );
  }
  if (!reads(() => typeof (source as MessageSource | null)?.kind === 'string')) {
    throw new ArgumentError('The source of a message is an object such as { kind: "user" }.');
  }
  try {
    const message = { id: newId(), role: 'user', content: blocks, source };
    return frozenCopy(message, MAX_MESSAGE_DEPTH) as unknown as UserMessage;
  } catch (error) {
    const text = `The content of a message must be JSON data of at most ${MAX_MESSAGE_DEPTH} levels.`;
    throw new ArgumentError(text, { cause: error });
  }
}

/** What cannot be read is not so. */
function reads(isSo: () => boolean): boolean {
  try {
    return isSo();
  } catch {
    return false;
  }
}

/** Kinds that are not known here are let through: whoever reads them decides. */
function isBlock(block: unknown): boolean {
  const { type, text } = (block ?? {}) as { type?: unknown; text?: unknown };
  if (type === 'text' || type === 'reasoning') return typeof text === 'string';
  return typeof type === 'string' && type !== '';
}

/** What keeps a value from being an agent, or `undefined`. Says nothing of whether it is live. */
export function notAnAgent(value: unknown): string | undefined {
  try {
    const { agent, followup, session } = (value ?? {}) as Record<string, unknown>;
    if (typeof followup === 'function' && typeof session === 'object') return undefined;
    return agent === undefined
      ? 'it is no agent'
      : 'it is a handle; give the agent itself, `handle.agent`';
  } catch {
    // Accessors, or a proxy that answers nothing.
    return 'it cannot be read';
  }
}

/** @throws {ArgumentError} when a listener is to be for something that is no agent */
export function assertHeard(type: string, agent: unknown): void {
  const problem = agent === undefined ? undefined : notAnAgent(agent);
  if (problem === undefined) return;
  throw new ArgumentError(`A listener of "${type}" cannot be for this agent: ${problem}.`);
}

const CAUSES: readonly string[] = ['user', 'parent', 'hook', 'disposed', 'limit'];

/** @throws {ArgumentError} when this is no cause to cancel a turn for */
export function checkCause(cause: CancelCause): void {
  if (CAUSES.includes((cause as CancelCause | undefined)?.kind as string)) return;
  throw new ArgumentError(
    `A turn is cancelled for a cause such as { kind: "user" }; its kind is one of: ${CAUSES.join(', ')}.`,
  );
}
