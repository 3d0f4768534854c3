import { ArgumentError } from '../../protocol/errors.ts';
import type {
  SessionEvent,
  SessionHeader,
  SubagentDescriptor,
} from '../../protocol/session-events.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import type { ModelRoutes } from '../models/routes.ts';
import type { PromptScope } from '../prompt/prompt.ts';
import type { ToolScope } from '../tools/registry.ts';
import type { Agent, AgentOptions } from './agent.ts';
import type { AgentLimits } from './agent-host.ts';
import type { OnMessage } from './host-agent.ts';

/** What belongs to one agent alone, while it is composed and until it ends. */
export interface ChildScope {
  /** Not published yet: it accepts nothing, and runs nothing. */
  readonly agent: Agent;
  readonly header: SessionHeader;
  readonly tools: ToolScope;
  readonly prompt: PromptScope;
  /**
   * Run when the agent ends, last registered first. What is not done within the stop grace is
   * given up: a warning names the agent, and its end fails with `ACTIVATION_TEARDOWN_FAILED`.
   */
  onDispose(undo: () => void | Promise<void>): void;
}

/** What of a new session's header its maker may set. */
export type AgentMeta = Partial<
  Pick<SessionHeader, 'cwd' | 'parentSession' | 'origin' | 'delegationDepth' | 'seedLength'>
>;

/** @inline */
export interface MakeOptions {
  /** Absent: the harness's default model. */
  readonly agentOptions?: AgentOptions;
  /** Ends the making only; once the handle is returned it has no effect. */
  readonly signal?: AbortSignal;
  /**
   * Composes the agent before anyone can see it. What it throws undoes the agent, and so does
   * what `commit` throws.
   */
  readonly setup?: (child: ChildScope) => {
    /** Called in the tick of the publication, right before it. */
    commit(): void;
  } | void;
  readonly limits?: AgentLimits;
  /** Waits while this one is made, and goes on without owning it. */
  readonly startedBy?: Agent;
}

/** What `agents.create` takes; all of it may be left out. */
export interface CreateAgentOptions extends MakeOptions {
  /** Absent: a new unique one. */
  readonly sessionId?: string;
  readonly meta?: AgentMeta;
  /** A balanced log to begin with, contiguous from 0. */
  readonly seed?: readonly SessionEvent[];
  /** The agent ends with this one. */
  readonly owner?: Agent;
  /** Written once, in the agent's first turn. */
  readonly descriptor?: SubagentDescriptor;
  /**
   * Stands in its log from the beginning, right after what the seed gives. Nothing of that log is
   * kept, whatever the agent is told, before whoever makes it calls `sessions.accept`.
   * @internal
   */
  readonly identity?: SubagentDescriptor;
}

/** What `agents.resume` takes; all of it may be left out. */
export type ResumeAgentOptions = MakeOptions;

/** What `agents.createHost` takes; all of it may be left out. */
export interface CreateHostOptions {
  /** Names the host's session: the stored one of this id is opened again. */
  readonly sessionId?: string;
  readonly cwd?: string;
  /**
   * Called with one batch of claimed messages at a time. The batch is spent when it is called,
   * even if it throws; the throw is its turn's error. Absent: read `messages()` of the handle.
   */
  readonly onMessage?: OnMessage;
}

/** What an agent is asked with when it was given no options. */
export type DefaultModel = { readonly provider: string; readonly model: string } | undefined;

const AGENT_OPTIONS = {
  provider: 'text',
  model: 'text',
  maxTokens: 'any',
  subagentDepth: 'any',
} as const satisfies Record<keyof AgentOptions, OptionKind>;
/** The limits of one agent; their numbers are checked where they are used. */
export const AGENT_LIMITS = {
  memoryMb: 'any',
  turnMs: 'any',
  runMs: 'any',
  cpuMs: 'any',
  steps: 'any',
  outputBytes: 'any',
  toolMs: 'any',
} as const satisfies Record<keyof AgentLimits, OptionKind>;
const RESUME = {
  agentOptions: 'object',
  signal: 'signal',
  setup: 'function',
  limits: 'object',
  startedBy: 'object',
} as const satisfies Record<keyof ResumeAgentOptions, OptionKind>;
const CREATE = {
  sessionId: 'text',
  meta: 'object',
  seed: 'list',
  owner: 'object',
  descriptor: 'object',
  identity: 'object',
  ...RESUME,
} as const satisfies Record<keyof CreateAgentOptions, OptionKind>;
const HOST = {
  sessionId: 'text',
  cwd: 'text',
  onMessage: 'function',
} as const satisfies Record<keyof CreateHostOptions, OptionKind>;

/** @throws {ArgumentError} for an option, or a limit, that does not exist or is of another kind */
export function checkMakeOptions(options: MakeOptions, what: 'create' | 'resume'): void {
  assertOptions(`agents.${what}`, options, what === 'create' ? CREATE : RESUME);
  assertOptions('limits', options.limits ?? {}, AGENT_LIMITS);
}

/** @throws {ArgumentError} */
export function checkHostOptions(options: CreateHostOptions): void {
  assertOptions('agents.createHost', options, HOST);
}

/**
 * The options an agent is made with: those it was given, or else the default model's.
 * @throws {ArgumentError} for a provider that is not registered, a model that is no name, or a bad
 *   number
 */
export function checkedAgentOptions(
  given: AgentOptions | undefined,
  defaultModel: DefaultModel,
  models: ModelRoutes,
): AgentOptions {
  // A caller who names no route, not even an empty one, gets the harness's.
  const options: AgentOptions = given ?? { ...defaultModel };
  assertOptions('agentOptions', options, AGENT_OPTIONS);
  const { provider, maxTokens } = options;
  if (maxTokens !== undefined && (!Number.isSafeInteger(maxTokens) || maxTokens < 1)) {
    throw new ArgumentError(`"maxTokens" takes a positive whole number, not ${maxTokens}.`);
  }
  if (provider !== undefined && models.resolve(provider) === undefined) {
    const known = models.names().map((name) => `"${name}"`);
    throw new ArgumentError(
      `There is no model provider "${provider}"; ` +
        (known.length === 0 ? 'none is registered.' : `registered: ${known.join(', ')}.`),
    );
  }
  return options;
}
