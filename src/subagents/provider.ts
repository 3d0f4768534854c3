import type { ContentBlock } from '../../protocol/content.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type {
  ObjectJsonSchema,
  SessionEvent,
  SubagentDescriptor,
} from '../../protocol/session-events.ts';
import type { AgentLimits } from '../agent/agent-host.ts';
import type { Agent, AgentOptions } from '../agent/agent.ts';
import type { ToolFilter } from '../tools/registry.ts';

/**
 * What a provider can do for a one-shot child. The service compares it with the request before
 * it calls the provider, so that nothing asked for is silently left out. Each flag stands for
 * the request field of its name; `depthLimit` for `maxDepth`.
 */
export interface SubagentCapabilities {
  readonly outputSchema: boolean;
  readonly depthLimit: boolean;
  readonly toolFilter: boolean;
  readonly persona: boolean;
}

/** A provider that can do none of it. */
export const NO_START_CAPABILITIES: SubagentCapabilities = Object.freeze({
  outputSchema: false,
  depthLimit: false,
  toolFilter: false,
  persona: false,
});

export type { ToolFilter as ToolRestriction } from '../tools/registry.ts';

/** A caller's order for one one-shot child. */
export interface SubagentStartRequest {
  /** A short name for people, kept in the child's log. */
  readonly label?: string;
  /** What the child is told, as its first user message. */
  readonly prompt: string | readonly ContentBlock[];
  /**
   * Who delegates: the registry's exact object. Working directory, lineage, depth and the
   * defaults of `agentOptions` come from it.
   */
  readonly parent: Agent;
  /**
   * The one way to cancel. Before the run is returned it makes `start` reject, with nothing
   * left behind; afterwards it stops the child's work and the result says `aborted`.
   */
  readonly signal: AbortSignal;
  /** What the child has different from its parent. */
  readonly agentOptions?: AgentOptions;
  /** The child must answer with a value of this schema: {@link SubagentResult.structured}. */
  readonly outputSchema?: ObjectJsonSchema;
  /**
   * The greatest depth this child may have, counted from the root: a non-negative safe integer.
   * Can only be stricter than the limit of the harness.
   */
  readonly maxDepth?: number;
  /** Hides inherited tools: not shown to the child's model, and unknown when called. */
  readonly toolFilter?: ToolFilter;
  /** Replaces the deployment's persona for this child alone; the same `{{…}}` rules. */
  readonly persona?: string;
  /** Limits of a child that runs here. A provider whose children run elsewhere has no use for it. */
  readonly limits?: AgentLimits;
}

/** Durable identity of a child that has a session. */
export type SubagentDescriptorData = SubagentDescriptor;

/** What a provider is given: checked, and with the record it has to keep in the child's log. */
export interface ResolvedSubagentStartRequest extends SubagentStartRequest {
  /** Blocks, also of what was given as a text. */
  readonly prompt: ContentBlock[];
  /** Belongs to the provider: it shares nothing with the caller's request. */
  readonly descriptor: SubagentDescriptorData;
}

/** Reasons a run ends with. Open: providers may merge in more. */
export interface SubagentStopReasonMap {
  completed: 'completed';
  /** Stopped through the request's signal or by disposal. */
  aborted: 'aborted';
  /** The model, its transport, or the child's thread failed. */
  error: 'error';
  /** The model reached its token limit first. */
  'max-tokens': 'max-tokens';
  /** The child declined. */
  refusal: 'refusal';
}
/** Readers treat a reason they do not know as a failure. */
export type SubagentStopReason = SubagentStopReasonMap[keyof SubagentStopReasonMap];

/** How a one-shot run came out. Partial unless `stopReason` is `completed`. */
export interface SubagentResult {
  /**
   * Content of the child's last assistant message that has any; without one, the text it
   * streamed; `[]` when there is neither.
   */
  readonly output: ContentBlock[];
  /** Present only when a schema was asked for and a valid value was handed in. */
  readonly structured?: unknown;
  readonly stopReason: SubagentStopReason;
  /**
   * Why it failed, or who refused it and why, as `CODE: message` (a hook that kept the child from
   * a step: `BLOCKED: reason`), in at most 4096 bytes of UTF-8.
   */
  readonly diagnostic?: string;
}

/**
 * One published one-shot child. It belongs to whoever started it, who awaits `result` and
 * always disposes. It takes no further message and cannot be resumed.
 */
export interface SubagentRun {
  /** Of a local run, the child's session id; otherwise unique below its parent. */
  readonly id: SessionId;
  /** The registry's own object while the child is live here; `undefined` for a remote run. */
  readonly localAgent: Agent | undefined;
  /**
   * Settles once, when the child has nothing left to run. A child's failure is a stop reason;
   * it rejects only for a fault of the machinery that no reason expresses.
   */
  readonly result: Promise<SubagentResult>;
  /**
   * Cancel what is left, wait until nothing of the child happens any more, let go of it.
   * Idempotent. Rejects only when the release itself failed.
   */
  dispose(): Promise<void>;
}

/** An order to prepare one durable child, whose id is reserved already. */
export interface ContinuableCreateRequest {
  readonly sessionId: SessionId;
  /** Whose finished turns the child may begin with. */
  readonly parent: Agent;
  /** Ends the preparation only. */
  readonly signal: AbortSignal;
}

/** Data, never an agent or a handle. */
export interface ContinuableCreateSpec {
  /** Finished turns of the parent, contiguous from 0; absent for a fresh child. */
  readonly seed?: readonly SessionEvent[];
}

/**
 * One way to run child agents, by name. Contract: starts may overlap, and cancelling, failing
 * or disposing one run changes nothing for another. What `start` built before it rejects, it
 * has already undone.
 */
export interface SubagentProvider {
  readonly name: string;
  readonly capabilities: SubagentCapabilities;
  /**
   * Whether a child sees its parent's finished turns. Said to the model; nothing is checked
   * with it, and it is not about tools or authority.
   */
  readonly inheritsParentContext: boolean;
  /**
   * Make a one-shot child. Fulfils when the child is published; from then on the run is the
   * caller's. A session-backed child gets `request.descriptor` into its first turn.
   */
  start(request: ResolvedSubagentStartRequest): Promise<SubagentRun>;
  /**
   * What a durable child of this provider begins with. Having this method is the capability.
   * Whoever asks makes the child, tells it, ends it and resumes it; preparations may overlap.
   */
  prepareContinuable?(request: ContinuableCreateRequest): Promise<ContinuableCreateSpec>;
}
