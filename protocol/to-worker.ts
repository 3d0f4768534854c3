import type { StreamId } from './ids.ts';
import type { ModelPart } from './model.ts';

/**
 * Main → worker. The only place a frame down is spelled out. Plain structured clones.
 * @internal
 */
export interface ToWorkerMap {
  /** There is, or was, something to claim. A level: repeating it is harmless. */
  wake: Record<never, never>;
  /** The answer to one `call`: a Comlink message. */
  reply: { message: RpcReply };
  /** A few parts of one host stream. Costs credit. */
  parts: { stream: StreamId; parts: readonly ModelPart[]; bytes: number };
  /** Stop this turn. The cancel cell says so already; this wakes an await. */
  interrupt: { turn: number };
  /** `taken`: `events` frames dealt with. `durable`: events of this session committed. */
  ack: { taken: number; durable: number };
  /** End politely within this many milliseconds. */
  stop: { deadlineMs: number };
}
export type ToWorkerType = keyof ToWorkerMap;
/** @internal */
export type ToWorker = {
  [T in ToWorkerType]: Readonly<{ type: T } & ToWorkerMap[T]>;
}[ToWorkerType];
export type ToWorkerOf<T extends ToWorkerType> = Readonly<{ type: T } & ToWorkerMap[T]>;

/** What Comlink sends back for an `APPLY` whose value is plain data. */
export interface RpcReply {
  readonly id: string;
  readonly type: 'RAW' | 'HANDLER';
  readonly name?: string;
  readonly value: unknown;
}
