/**
 * One thread's life for one agent: from checkout to the moment nothing of it is left. It owns
 * the thread, its link and its cancel cell, and knows the ladder from a request to stop to the
 * end by force. What happened in the log meanwhile is the agent's.
 */
import { CancelFlag } from '../../protocol/cancel-flag.ts';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import { ProtocolError, WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { HostServices } from '../../protocol/host-services.ts';
import type { RetryPolicy } from '../../protocol/model.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import type { ToolSpec } from '../../protocol/tool.ts';
import type { WorkerInit } from '../../protocol/worker-init.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { deferred, raceSignal } from '../base/deferred.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import type { Bound } from '../base/limit-values.ts';
import { Link } from './link.ts';
import type { AgentThread, ThreadEnd } from './thread.ts';

/** Until a claim that has arrived is heard, at the latest. */
const HEARING_MS = 1_000;

export interface ResidencyOptions {
  readonly thread: AgentThread;
  readonly init: Omit<WorkerInit, 'cancel'>;
  readonly clock: Clock;
  /** From here to `ready`: modules are loaded in this time. */
  readonly startMs: number;
  /** From a start that is given up to the end of its thread by force. */
  readonly stopGraceMs: number;
  /** For how long its loop may not ask for the work that it was woken for. */
  readonly claimMs: Bound;
  /** A turn is open, which has limits of its own; its loop asks when that is over. */
  isInTurn(): boolean;
  /** One of its modules is to outlive the idleness of its agent. */
  readonly keepsState: boolean;
  /** The calls of this thread; made for this residency. */
  services(residency: Residency): HostServices;
  durable(): number;
  event(event: WorkerEvent): void;
  /** Events of this size have come; each is told next. */
  received(bytes: number): void;
}

export class Residency {
  readonly cancelFlag = new CancelFlag();
  /** Messages a module model in this thread was given so far. */
  knownMessages = 0;
  readonly #options: ResidencyOptions;
  readonly #link: Link;
  readonly #ready = deferred<readonly ToolSpec[]>();
  readonly ended: Promise<ThreadEnd>;
  readonly #ending = new AbortController();
  #isReady = false;
  /** Its loop was woken, or ended a turn, and has not asked for the next since. */
  #isAwake = false;
  #isClaiming = false;
  #retryPolicy: RetryPolicy | undefined;
  #fault: ErrorRecord | undefined;
  #stopTimer: Timer | undefined;
  #claimTimer: Timer | undefined;

  constructor(options: ResidencyOptions) {
    this.#options = options;
    const { thread } = options;
    const port = thread.assign({ ...options.init, cancel: this.cancelFlag.buffer });
    this.#link = new Link({
      port,
      services: options.services(this),
      window: options.init.window,
      durable: options.durable,
      event: options.event,
      received: options.received,
      ready: (tools, retryPolicy) => this.#onReady(tools, retryPolicy),
      stopped: () => this.#onStopped(),
      fault: (fault) => {
        this.#fault ??= fault;
        thread.note({ fault });
      },
      violation: (error) => this.kill(error),
      now: () => options.clock.now(),
    });
    thread.onGone(
      (held) => this.#link.drain(held),
      () => this.#onForce(),
    );
    this.#ready.promise.catch(() => {});
    this.ended = thread.ended.then((end) => {
      this.#end();
      this.#stopTimer?.cancel();
      // A thread that could not be ended told nobody that it is gone.
      this.#link.close();
      this.#ready.reject(this.#startFailure(end));
      return end;
    });
  }

  /** False from the moment this thread is being ended: no call of it is served any more. */
  get isLive(): boolean {
    return !this.#ending.signal.aborted;
  }

  /** Aborted when `isLive` becomes false, with what its calls are answered then. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** That of the thread's own model, once it is ready. */
  get retryPolicy(): RetryPolicy | undefined {
    return this.#retryPolicy;
  }

  /** False as well while it was asked to stop: its open turn may end, but opens no other. */
  get takesTurns(): boolean {
    return this.isLive && this.#stopTimer === undefined;
  }

  get keepsState(): boolean {
    return this.#options.keepsState;
  }

  get wasAskedToStop(): boolean {
    return this.#stopTimer !== undefined;
  }

  get link(): Link {
    return this.#link;
  }

  /**
   * The tools of the thread's modules, once they are loaded. On an abort the thread is stopped.
   * @throws {HarnessError} what ended the thread before; the signal's reason on an abort
   */
  async ready(signal?: AbortSignal): Promise<readonly ToolSpec[]> {
    const { clock, startMs } = this.#options;
    const timer = clock.after(startMs, () => {
      const text = `The modules of an agent were not loaded within ${startMs} ms.`;
      this.kill(new WorkerError('WORKER_START_TIMEOUT', text));
    });
    try {
      return await raceSignal(this.#ready.promise, signal);
    } catch (error) {
      // Not by force at once: a thread that is ended while it reads a module leaves that file open.
      await this.stop(this.#options.stopGraceMs, 'disposed');
      throw error;
    } finally {
      timer.cancel();
    }
  }

  /**
   * Have its loop ask for a turn. Nothing is posted while it is going to: a claim finds all that is
   * committed when it is answered, and what is committed later comes here after that. So however
   * much comes for a thread that reads nothing, one frame waits for it.
   */
  wake(): void {
    if (this.owesClaim) return;
    this.#expectClaim();
    this.#link.wake();
  }

  /** Its loop ended a turn: it asks for the next by itself. */
  turnEnded(): void {
    this.#expectClaim();
  }

  /** Its loop asks for a turn, until the returned function is called. */
  claiming(): () => void {
    this.#isAwake = false;
    this.#claimTimer?.cancel();
    this.#isClaiming = true;
    return () => void (this.#isClaiming = false);
  }

  /** Its loop asks for a turn, or is going to by itself. */
  get owesClaim(): boolean {
    return this.#isAwake || this.#isClaiming;
  }

  /**
   * Between turns nothing else has limits: a loop that hangs here would keep its agent waiting for ever.
   * Looked at twice, because after a pause of the whole process a claim may be there, and unread.
   */
  #expectClaim(): void {
    this.#isAwake = true;
    const { clock, claimMs, isInTurn } = this.#options;
    if (claimMs === 'unlimited' || !this.takesTurns || isInTurn()) return;
    const text = `The thread did not ask for its work within ${claimMs} ms.`;
    this.#claimTimer?.cancel();
    this.#claimTimer = clock.after(claimMs, () => {
      this.#claimTimer = clock.after(HEARING_MS, () =>
        this.kill(new WorkerError('WORKER_UNRESPONSIVE', text)),
      );
    });
  }

  /** See `AgentThread.cpuMs`. */
  get cpuMs(): number | undefined {
    return this.#options.thread.cpuMs();
  }

  hold(held: boolean): void {
    this.#options.thread.hold(held);
  }

  /** Tell the loop that this turn is to stop. The cell says it at once, the frame wakes it. */
  interrupt(turn: number, cause: CancelCause['kind']): void {
    this.cancelFlag.raise(turn, cause);
    this.#link.interrupt(turn);
  }

  /** End politely, and by force after the grace. Idempotent. */
  stop(graceMs: number, cause: CancelCause['kind']): Promise<ThreadEnd> {
    if (this.takesTurns) {
      this.#claimTimer?.cancel();
      this.cancelFlag.raiseForEver(cause);
      this.#link.stop(graceMs);
      this.#stopTimer = this.#options.clock.after(graceMs, () => {
        const text = `The thread did not stop within ${graceMs} ms, so it has to end.`;
        this.kill(new WorkerError('WORKER_UNRESPONSIVE', text));
      });
    }
    return this.ended;
  }

  /** End it now. Frames it already posted still count; nothing new is served. */
  kill(reason: HarnessError): void {
    this.#onForce();
    this.#options.thread.kill(reason);
  }

  /** Also when somebody else ends the thread: its guard, or the thread's own port. */
  #onForce(): void {
    this.#link.refuseCalls();
    this.#end();
  }

  #end(): void {
    if (!this.isLive) return;
    this.#claimTimer?.cancel();
    const text = 'This thread is being ended; it gets no more work.';
    this.#ending.abort(new WorkerError('WORKER_EXITED', text));
  }

  #startFailure({ error }: ThreadEnd): HarnessError {
    const said = error?.code === 'WORKER_CRASHED' ? this.#fault?.message : undefined;
    if (error !== undefined && said === undefined) return error;
    const text = said ?? 'The thread ended before its agent ran.';
    return new WorkerError('WORKER_START_FAILED', text, { cause: error });
  }

  #onReady(tools: readonly ToolSpec[], retryPolicy: RetryPolicy | undefined): void {
    if (this.#isReady) throw new ProtocolError('PROTOCOL_VIOLATION', 'A thread was ready twice.');
    this.#isReady = true;
    this.#retryPolicy = retryPolicy;
    this.#ready.resolve(tools);
  }

  #onStopped(): void {
    // Taken for a polite end it would be replaced at once, by one that may do the same.
    if (this.#stopTimer === undefined) {
      throw new ProtocolError('PROTOCOL_VIOLATION', 'A thread stopped that was not asked to.');
    }
    this.#options.thread.note('stopped');
  }
}
