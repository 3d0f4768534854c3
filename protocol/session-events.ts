import type { AssistantMessage, ToolResultMessage, Usage, UserMessage } from './content.ts';
import type { CallId, SessionId } from './ids.ts';
import type { Json, JsonObject } from './json.ts';
import type { Failure, ModelPart } from './model.ts';
import type { ToolSpec } from './tool.ts';

/** Why a turn was told to stop. The first cause of a turn wins and is the one in its log. */
export type CancelCause =
  | { readonly kind: 'user' }
  | { readonly kind: 'parent' }
  | { readonly kind: 'hook'; readonly reason: string }
  | { readonly kind: 'disposed' }
  | { readonly kind: 'limit'; readonly limit: string };

/** Open for new kinds: an unknown one is a failure. */
export type TurnEndReason =
  | { readonly kind: 'completed' }
  | { readonly kind: 'max-tokens' }
  /** A hook refused what was to be said in the next step, and may say why. */
  | { readonly kind: 'blocked'; readonly reason?: string }
  | { readonly kind: 'aborted'; readonly reason: CancelCause }
  | { readonly kind: 'error'; readonly error: Failure }
  | { readonly kind: 'interrupted' };

/** What one request was made with, besides its messages. */
export interface RequestHeader {
  readonly config: {
    readonly provider: string;
    readonly model: string;
    readonly temperature?: number;
    readonly maxTokens?: number;
    readonly stop?: readonly string[];
  };
  readonly system?: string;
  readonly tools?: readonly ToolSpec[];
}

/** Durable record of how a child was made. */
export type SubagentDescriptor =
  | {
      readonly version: 1;
      readonly mode: 'one-shot';
      readonly provider: string;
      readonly label?: string;
    }
  | {
      readonly version: 1;
      readonly mode: 'continuable';
      readonly provider: string;
      readonly label: string;
      readonly agentProvider?: string;
      readonly agentModel?: string;
      readonly maxTokens?: number;
      readonly persona?: string;
      readonly toolFilter?: {
        readonly allow?: readonly string[];
        readonly deny?: readonly string[];
      };
      /** Those that it was started with, for each of its lives. */
      readonly limits?: {
        readonly memoryMb?: number | 'unlimited';
        readonly turnMs?: number;
        readonly runMs?: number;
        readonly cpuMs?: number;
        readonly steps?: number;
        readonly outputBytes?: number | 'unlimited';
        readonly toolMs?: number;
      };
    };

/** Where a message waits: for a turn of its own, or for the next step. */
export type InboxTarget = 'next-turn' | 'next-step';

/** One payload per event type: the only place an event is spelled out. */
export interface SessionEventMap {
  'turn/start': { turn: number };
  'turn/end': { turn: number; reason: TurnEndReason };
  'step/start': { turn: number; step: number };
  'step/end': { turn: number; step: number };
  'user/message': UserMessage;
  /** Every part of a model stream as it came, usage and finish included. */
  'assistant/chunk': { turn: number; step: number; chunk: ModelPart };
  'assistant/message': {
    turn: number;
    step: number;
    message: AssistantMessage;
    usage?: Usage;
    /** The visible prefix of a stream that was cancelled. */
    interrupted?: true;
  };
  'tool/call': { turn: number; step: number; callId: CallId; name: string; arguments: string };
  'tool/result': {
    turn: number;
    step: number;
    message: ToolResultMessage;
    error?: { name: string; code: string };
    meta?: Json;
  };
  'request/header': { header: RequestHeader; reason: 'initial' | 'resume' | 'change' };
  'request/context': { provider: string; model: string; contextWindow?: number };
  'session/end-seed': Record<string, never>;
  'agent/inbox/spliced': {
    target: InboxTarget;
    start: number;
    removedCount?: number;
    inserted: readonly UserMessage[];
    outcome?: 'canceled';
  };
  'subagent/descriptor': SubagentDescriptor;
  'llm/retry': {
    retryId: string;
    turn: number;
    step: number;
    provider: string;
    retry: number;
    maxRetries: number;
    delayMs: number;
    failure: Failure;
  };
  'llm/retry-started': { retryId: string; turn: number; step: number; retry: number };
}

/** The name of an event of a log. */
export type SessionEventType = keyof SessionEventMap;

/**
 * Types that join the model's history and carry where they came from.
 * @inline
 */
export type SurfaceEventType = 'user/message' | 'assistant/message' | 'tool/result';

interface Envelope<T extends SessionEventType> {
  readonly type: T;
  /** Its index in the log: contiguous from 0. */
  readonly seq: number;
  /** Milliseconds since the epoch, by main's clock. */
  readonly time: number;
  readonly data: Readonly<SessionEventMap[T]>;
}

/**
 * One event of a log: its `type`; `seq`, its number, contiguous from 0; `time`, milliseconds since
 * 1970 by the clock of the main thread; and `data` as `SessionEventMap` has it.
 */
export type SessionEventOf<T extends SessionEventType> = T extends SurfaceEventType
  ? Envelope<T> & {
      readonly surfaceOp: 'append';
      /** Earlier events this one was made from; dense and unique. */
      readonly sourceEventSeqs?: readonly number[];
    }
  : Envelope<T>;

/** Any event of a log; `type` says which. */
export type SessionEvent = { [T in SessionEventType]: SessionEventOf<T> }[SessionEventType];

/** Storage metadata beside a log; immutable. */
export interface SessionHeader {
  readonly version: 0;
  readonly id: SessionId;
  readonly createdAt: number;
  /** Absolute path of the workspace. */
  readonly cwd?: string;
  readonly parentSession?: SessionId;
  /** How many leading events another session's log gave. */
  readonly seedLength?: number;
  /** A coarse mark for listing; proves nothing. */
  readonly origin?: 'subagent';
  readonly delegationDepth?: number;
}

/** A JSON Schema with an object at its root, inside the enforced subset. */
export type ObjectJsonSchema = JsonObject & { readonly type: 'object' };
