import type { StreamId } from '../../protocol/ids.ts';
import type { ModelPart, ModelRequest } from '../../protocol/model.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { HostRoute } from './routes.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { streamModel } from '../../protocol/model-stream.ts';
import { utf8Bytes } from '../../protocol/text-size.ts';
import { raceSignal } from '../base/deferred.ts';

/** One model request that runs on main, and where its parts go. */
export interface HostStreamRequest {
  readonly route: HostRoute;
  readonly request: ModelRequest;
  readonly signal: AbortSignal;
  readonly stream: StreamId;
  /**
   * Called with every part, in order, before it is sent, and with about the bytes it takes. What
   * it throws ends the stream.
   */
  onPart(part: ModelPart, bytes: number): void;
  /** Must not throw. The last call carries the finish. */
  send(parts: readonly ModelPart[], bytes: number): void;
  /** Absent: there is credit. A promise: none; the provider is not read until it resolves. */
  ready(): Promise<void> | undefined;
}

/** After one batch, the next waits for this long or for this many bytes. */
const BATCH_MS = 16;
const BATCH_BYTES = 4_096;
const loopTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * One open stream: reads the adapter, hands on, sends in batches. Ends in the tick of its abort:
 * the aborted finish is handed on and sent inside the abort, credit or not, and nothing follows.
 */
export class HostStream {
  readonly #of: HostStreamRequest;
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  #batch: ModelPart[] = [];
  #bytes = 0;
  /** Set for `BATCH_MS` after a batch was sent. */
  #pause: Timer | undefined;
  #isClosed = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(request: HostStreamRequest, clock: Clock) {
    this.#of = request;
    this.#clock = clock;
  }

  /** Idempotent; the finish is sent before this returns. The adapter's signal gets the reason. */
  abort(message = 'The request was cancelled.', reason?: unknown): void {
    if (this.#isClosed) return;
    this.#close({
      type: 'finish',
      reason: { kind: 'aborted', failure: { code: 'ABORTED', message } },
    });
    this.#controller.abort(reason);
  }

  /** Resolves when the finish is sent. Rejects with what `onPart` or `ready` threw. */
  async run(): Promise<void> {
    const { route, request, signal } = this.#of;
    const own = this.#controller.signal;
    const onAbort = (): void => this.abort(undefined, signal.reason);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
    try {
      await this.#credit();
      for await (const part of streamModel(route.adapter, request, own, loopTurn)) {
        if (this.#isClosed) break;
        this.#take(part);
        await this.#credit();
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#pause?.cancel();
      // Whoever broke off the loop: the adapter is told.
      this.#controller.abort();
    }
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #credit(): Promise<void> {
    const wait = this.#isClosed ? undefined : this.#of.ready();
    if (wait === undefined) return;
    try {
      await raceSignal(wait, this.#controller.signal);
    } catch (error) {
      // Our own abort ends the wait, too.
      if (!this.#isClosed) throw error;
    }
  }

  #take(part: ModelPart): void {
    if (part.type === 'finish') {
      this.#close(part);
      return;
    }
    // Before it is told: whoever is told may abort us for it, and it is visible all the same.
    this.#batch.push(part);
    const bytes = sizeOf(part);
    this.#bytes += bytes;
    try {
      this.#of.onPart(part, bytes);
    } catch (error) {
      // Told to neither end, if it was not sent by now.
      if (this.#batch.at(-1) === part) {
        this.#batch.pop();
        this.#bytes -= bytes;
      }
      throw error;
    }
    if (this.#isClosed) return;
    if (this.#pause === undefined || this.#bytes >= BATCH_BYTES) this.#flush();
  }

  #flush(): void {
    this.#pause?.cancel();
    this.#pause = undefined;
    if (this.#batch.length === 0) return;
    const [parts, bytes] = [this.#batch, this.#bytes];
    this.#batch = [];
    this.#bytes = 0;
    this.#pause = this.#clock.after(BATCH_MS, () => this.#flush());
    this.#of.send(parts, bytes);
  }

  #close(finish: Extract<ModelPart, { type: 'finish' }>): void {
    this.#isClosed = true;
    this.#pause?.cancel();
    // What was handed on is sent even after an abort: it is the visible part of the answer.
    const parts = [...this.#batch, finish];
    this.#batch = [];
    try {
      this.#of.onPart(finish, sizeOf(finish));
    } catch (error) {
      this.#failure ??= { error };
    }
    this.#of.send(parts, this.#bytes + sizeOf(finish));
  }

  /**
   * Our side failed: the caller is told, and both ends get the same finish. Whoever asks again is
   * out of phase with an end that knows of no failure.
   */
  #fail(error: unknown): void {
    this.#failure ??= { error };
    if (this.#isClosed) return;
    const { code, message } = toErrorRecord(error);
    const failure = { code, message: message || code };
    this.#close({ type: 'finish', reason: { kind: 'error', failure } });
  }
}

/** About what a part takes on the wire; the window needs no more than that. */
function sizeOf(part: ModelPart): number {
  const overhead = 48;
  switch (part.type) {
    case 'text-delta':
    case 'reasoning-delta':
      return overhead + utf8Bytes(part.text);
    case 'tool-call-delta':
      return overhead + part.id.length + utf8Bytes(part.argumentsDelta);
    case 'block-end':
    case 'finish':
      return overhead + utf8Bytes(JSON.stringify(part));
    default:
      return overhead;
  }
}
