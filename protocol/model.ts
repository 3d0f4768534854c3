import type { ContentBlock, Message, Usage } from './content.ts';
import type { CallId } from './ids.ts';
import type { Json } from './json.ts';
import type { ToolSpec } from './tool.ts';

/** One model request, complete: what a model is shown is exactly this. */
export interface ModelRequest {
  readonly provider: string;
  readonly model: string;
  readonly messages: readonly Message[];
  /** Absent, not empty, when there is nothing to say. */
  readonly system?: string;
  /** In canonical order; absent, not empty, when there is none. */
  readonly tools?: readonly ToolSpec[];
  readonly temperature?: number;
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  /** The session this request is made for, so that a provider can keep its cache warm. */
  readonly sessionId?: string;
}

/** Why a request failed. Data: a model's failure is never thrown. */
export interface Failure {
  readonly message: string;
  /** `NO_ADAPTER`, `AUTH`, `RATE_LIMIT`, `SERVER`, `TIMEOUT`, `TRANSPORT`, `ABORTED`, … */
  readonly code: string;
  readonly status?: number;
  /** How long the provider asked us to wait, in milliseconds. */
  readonly providerRetryAfterMs?: number;
  readonly requestId?: string;
}

/**
 * One part of a model's answer. Grammar: deltas only on an open block of their kind; `block-end`
 * carries the whole block and wins over its deltas; `usage` at most once, before `finish`;
 * `finish` is last and mandatory; no block is open at a `stop`, `tool-calls` or `max-tokens`.
 */
export type ModelPart =
  | {
      readonly type: 'block-start';
      readonly index: number;
      readonly blockType: 'text' | 'reasoning' | 'tool-call';
    }
  | { readonly type: 'text-delta'; readonly index: number; readonly text: string }
  | { readonly type: 'reasoning-delta'; readonly index: number; readonly text: string }
  | {
      readonly type: 'tool-call-delta';
      readonly index: number;
      readonly id: CallId;
      readonly name?: string;
      readonly argumentsDelta: string;
    }
  | { readonly type: 'block-end'; readonly index: number; readonly block: ContentBlock }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'finish'; readonly reason: FinishReason; readonly replayState?: Json };

/** Why a model stopped. `error` comes with a failure. */
export type FinishReason =
  | { readonly kind: 'stop' }
  | { readonly kind: 'tool-calls' }
  | { readonly kind: 'max-tokens' }
  | { readonly kind: 'aborted'; readonly failure: Failure }
  | { readonly kind: 'error'; readonly failure: Failure };

/** When a failed request is made again, inside the same step. */
export interface RetryPolicy {
  readonly maxRetries: number;
  readonly retryableCodes: readonly string[];
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** Part of the delay that is random, 0 to 1. */
  readonly jitterRatio: number;
}

/**
 * Contract: `stream` yields parts in the grammar above and honours `signal` (it stops, and lets
 * go of its connection). It may throw: the caller turns that into a `finish` part. It must not
 * keep the request or change it.
 */
export interface ModelAdapter {
  /** Ask the model once. What it says is yielded as it comes, and an end comes last. */
  stream(
    request: ModelRequest,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<ModelPart>;
  /** Absent: the default policy. `{ maxRetries: 0 }`-like: never. */
  readonly retryPolicy?: RetryPolicy;
}
