import type { AssistantMessage, Usage } from './content.ts';
import type { ErrorRecord } from './error-record.ts';
import type { HostServiceName } from './host-services.ts';
import type { StreamId } from './ids.ts';
import type { Failure, ModelPart, RetryPolicy } from './model.ts';
import type { ToolSpec } from './tool.ts';

/**
 * Worker → main. The only place a frame up is spelled out. Each crosses as packed bytes.
 * @internal
 */
export interface ToMainMap {
  /**
   * On the thread's own port, first and only: it runs, and this is its real heap limit. `tid` is
   * what the system calls the thread, where there is a `/proc` to tell.
   */
  up: { protocol: number; heapLimitBytes: number; node: string; tid?: number };
  /**
   * Modules are loaded; waits for its first wake. `tools` are those of its modules, and
   * `retryPolicy` that of its model, if that has one of its own.
   */
  ready: { tools: readonly ToolSpec[]; retryPolicy?: RetryPolicy };
  /** What happened, in order; `from` numbers the first of them. Costs credit. */
  events: { from: number; events: readonly WorkerEvent[] };
  /** One call of `HostServices`: a Comlink message. */
  call: { message: RpcCall };
  /** `parts` frames dealt with. */
  ack: { taken: number };
  /** The loop has ended as it was asked to. */
  stopped: { reason: string };
  /** The thread cannot go on. `turn` is the turn it left open. */
  fault: { error: ErrorRecord; turn?: number };
}
export type ToMainType = keyof ToMainMap;
/** @internal */
export type ToMain = { [T in ToMainType]: Readonly<{ type: T } & ToMainMap[T]> }[ToMainType];
export type ToMainOf<T extends ToMainType> = Readonly<{ type: T } & ToMainMap[T]>;

/** The one shape of a Comlink message that main lets through to its dispatcher. */
export interface RpcCall {
  readonly id: string;
  readonly type: 'APPLY';
  readonly path: readonly [HostServiceName];
  readonly argumentList: readonly { readonly type: 'RAW'; readonly value: unknown }[];
}

/**
 * What the loop tells of its open step. Main turns each into session events: it adds seq, time
 * and sources, fills in the recorded cancel cause, and refuses what does not fit the open turn.
 * @internal
 */
export interface WorkerEventMap {
  /** A part of a model that runs in this thread. */
  'assistant/chunk': { turn: number; step: number; stream: StreamId; chunk: ModelPart };
  /** One finished request. `parts` of the stream's parts made this message. */
  'assistant/message': {
    turn: number;
    step: number;
    stream: StreamId;
    parts: number;
    message: AssistantMessage;
    usage?: Usage;
    interrupted?: true;
  };
  'step/end': { turn: number; step: number };
  'turn/end': { turn: number; reason: WorkerTurnEnd };
}

/** Why it was stopped or blocked is main's to say; the loop only says that it was. */
export type WorkerTurnEnd =
  | { readonly kind: 'completed' | 'max-tokens' | 'blocked' | 'aborted' }
  | { readonly kind: 'error'; readonly error: Failure };

export type WorkerEventType = keyof WorkerEventMap;
/** @internal */
export type WorkerEvent = {
  [T in WorkerEventType]: Readonly<{ type: T; data: Readonly<WorkerEventMap[T]> }>;
}[WorkerEventType];
export type WorkerEventOf<T extends WorkerEventType> = Readonly<{
  type: T;
  data: Readonly<WorkerEventMap[T]>;
}>;

/** Grows with every change that one side alone would misread. */
export const PROTOCOL_VERSION = 2;

/** Sizes main accepts, in bytes, checked before anything is decoded. */
export const MAX_FRAME_BYTES = 1024 * 1024;
export const MAX_CONTROL_FRAME_BYTES = 64 * 1024;
/** Events of one frame: a few milliseconds of main, which takes it as a whole. */
export const MAX_FRAME_EVENTS = 500;
