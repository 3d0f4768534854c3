/** One turn while it is open: its step, the requests of that, and the first cause to stop it. */
import type { StreamId } from '../../protocol/ids.ts';
import type { Failure, FinishReason, RetryPolicy } from '../../protocol/model.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import type { ToolSpec } from '../../protocol/tool.ts';

/** A model stream of the open step: the events its parts became. */
export interface OpenStream {
  readonly seqs: number[];
  readonly provider: string;
  readonly model: string;
  readonly retryPolicy: RetryPolicy;
  /** True while its parts come from the thread. */
  readonly isFromThread: boolean;
  /** How it ended; `undefined` while it goes on. */
  finish: FinishReason | undefined;
  /** It became a message; it becomes no other, and has not failed. */
  isSpent: boolean;
}

/** A request that failed, and whose failure nobody has dealt with. */
export interface FailedRequest {
  readonly attempt: number;
  readonly provider: string;
  readonly retryPolicy: RetryPolicy;
  readonly failure: Failure;
}

export class OpenTurn {
  readonly number: number;
  readonly #controller = new AbortController();
  readonly streams = new Map<StreamId, OpenStream>();
  /** Retries of the open step, by the provider that failed. */
  readonly retries = new Map<string, number>();
  step = 0;
  /** Messages were claimed, and no step has begun with what became of them. */
  isDeciding = false;
  /** Model requests that were asked for in the open step. */
  attempts = 0;
  /** The stream of the last of them, until the next is asked for. */
  lastStream: OpenStream | undefined;
  /** The system text of the open step. Throws what kept it from being put together. */
  system: () => string | undefined = () => undefined;
  tools: readonly ToolSpec[] = [];
  /** A hook refused the next step: the turn has to end so. */
  block: { readonly reason?: string } | undefined;
  /** It added more to the log than it may: no further part of an answer is kept. */
  isFull = false;
  /** The limit it was told to stop for, in words. */
  excess: string | undefined;
  #cause: CancelCause | undefined;

  constructor(number: number) {
    this.number = number;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get cause(): CancelCause | undefined {
    return this.#cause;
  }

  /** False when it was told before: the first cause wins. */
  cancel(cause: CancelCause): boolean {
    if (this.#cause !== undefined) return false;
    this.#cause = cause;
    const why = { name: 'AbortError', cause };
    this.#controller.abort(new DOMException(`Cancelled: ${cause.kind}.`, why));
    return true;
  }

  /** A step begins: nothing of the one before counts any more. */
  nextStep(): void {
    this.step++;
    this.isDeciding = false;
    this.attempts = 0;
    this.lastStream = undefined;
    this.retries.clear();
    this.streams.clear();
  }
}
