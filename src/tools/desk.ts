/**
 * One agent's tool calls, on the main thread: what may run, in which order, and what each comes
 * to. The order is that in which `call` was made. Bodies of functions run here; those of modules
 * are run by the agent's thread when this desk says so, and settle by `finish`.
 *
 * A call is logged when it starts and its body runs only once that is committed, so that no
 * effect is older than its record. Every call that was logged gets one result, in order, unless
 * its record could not be committed or its thread is gone.
 */
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, WorkerError } from '../../protocol/errors.ts';
import type {
  ToolCallReply,
  ToolCallRequest,
  ToolOutcome,
  ToolSettled,
} from '../../protocol/host-services.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';
import type { Clock } from '../base/clock.ts';
import { deferred } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import type { Logger } from '../base/logger.ts';
import { parseArguments } from './arguments.ts';
import type { ParsedArguments } from './arguments.ts';
import { runBody } from './execute.ts';
import { planCall } from './plan.ts';
import type { Plan } from './plan.ts';
import type { ToolScope } from './registry.ts';
import * as results from './results.ts';
import type { ToolResult } from './results.ts';
import { Schedule } from './schedule.ts';

export type { ToolErrorCode, ToolResult } from './results.ts';

/** What a desk tells its agent's log. Main, in the tick in which it happens. */
export interface DeskPorts {
  /** Handed to bodies on main as `context.agent`. */
  readonly agent: unknown;
  /** Append the call now, synchronously. Resolves when it is committed. */
  started(call: ToolCallRequest): Promise<void>;
  /** Append the result. Called in the order of the calls. */
  settled(call: ToolCallRequest, result: ToolResult): void;
}

/** Told of every result as it enters the log. `args` is the raw text when that was no JSON. */
export type ResultListener = (call: ToolCallRequest, result: ToolResult, args: Json) => void;

interface Entry {
  readonly request: ToolCallRequest;
  readonly signal: AbortSignal;
  readonly parsed: ParsedArguments;
  /** Its end, or that its body is to be run in the thread. */
  readonly reply: Deferred<ToolCallReply>;
  /** Ends its body when its thread is gone. */
  readonly stop: AbortController;
  state: 'waiting' | 'starting' | 'here' | 'in-thread' | 'settled' | 'dropped';
  result?: ToolResult;
}

const DEFAULT_CONCURRENCY = 10;
const DEFAULT_ABANDON_AFTER_MS = 5_000;

export class ToolDesk {
  readonly #scope: ToolScope;
  readonly #ports: DeskPorts;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #abandonAfterMs: number;
  readonly #schedule: Schedule<Entry>;
  /** Calls whose result is not in the log yet. */
  readonly #entries = new Map<CallId, Entry>();
  readonly #listeners = new Set<ResultListener>();
  #isStarting = false;

  constructor(o: {
    readonly scope: ToolScope;
    readonly ports: DeskPorts;
    readonly clock: Clock;
    readonly logger: Logger;
    /** Calls that may overlap. */
    readonly concurrency?: number;
    /** How long a body on main that was told to stop is waited for. */
    readonly abandonAfterMs?: number;
  }) {
    const concurrency = o.concurrency ?? DEFAULT_CONCURRENCY;
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new ArgumentError('The concurrency of tools must be a whole number above 0.');
    }
    this.#scope = o.scope;
    this.#ports = o.ports;
    this.#clock = o.clock;
    this.#logger = o.logger;
    this.#abandonAfterMs = o.abandonAfterMs ?? DEFAULT_ABANDON_AFTER_MS;
    this.#schedule = new Schedule(concurrency);
  }

  /** Calls whose result is not in the log yet. */
  get pending(): number {
    return this.#entries.size;
  }

  /** Returns the idempotent disposer. A listener that throws is logged and stops nobody. */
  onResult(listener: ResultListener): () => void {
    const entry: ResultListener = (...told) => listener(...told);
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /**
   * Ask for one call. Resolves when it has its result, or when its body is to be run in the
   * thread. What goes wrong with the call is its result; a rejection means that it could not be
   * recorded, or that the desk was abandoned.
   *
   * @param signal the turn's. Once it is aborted nothing starts, and what runs is told to stop.
   * @throws {ArgumentError} (rejects) when a call of this id is pending.
   */
  call(request: ToolCallRequest, signal: AbortSignal): Promise<ToolCallReply> {
    if (this.#entries.has(request.callId)) {
      const message = `The tool call ${request.callId} is already pending.`;
      return Promise.reject(new ArgumentError(message));
    }
    const entry: Entry = {
      request,
      signal,
      parsed: parseArguments(request.arguments),
      reply: deferred(),
      stop: new AbortController(),
      state: 'waiting',
    };
    this.#entries.set(request.callId, entry);
    this.#schedule.enter(entry);
    this.#startNext();
    return entry.reply.promise;
  }

  /**
   * What the body of a module did. Resolves when the call has its result.
   * @throws {ArgumentError} (rejects) when no call of this id is out in the thread.
   */
  finish(callId: CallId, outcome: ToolOutcome): Promise<ToolSettled> {
    const entry = this.#entries.get(callId);
    if (entry?.state !== 'in-thread') {
      const message = `No tool call ${callId} is running in the thread.`;
      return Promise.reject(new ArgumentError(message));
    }
    const { name } = entry.request;
    const result =
      outcome.ok && entry.signal.aborted ? results.aborted(name) : results.reported(name, outcome);
    const failure = this.#settle(entry, result);
    if (failure !== undefined) return Promise.reject(failure.error);
    return Promise.resolve(settledReply(result));
  }

  /**
   * The thread is gone, or is about to be. Results that wait for an earlier one are told now,
   * for they are known; every other call is dropped without one. Bodies here are told to stop,
   * and what they still do comes to nothing. The desk can be used again.
   */
  abandon(
    reason: Error = new WorkerError('WORKER_EXITED', 'The thread of the call is gone.'),
  ): void {
    const entries = this.#schedule.takeAll();
    this.#entries.clear();
    for (const entry of entries) {
      if (entry.state === 'settled') this.#tell(entry);
      else this.#drop(entry, reason);
    }
  }

  /** Start what may start, in order. */
  #startNext(): void {
    // A refused call settles at once and comes back here; the loop below goes on with the next.
    if (this.#isStarting) return;
    this.#isStarting = true;
    try {
      for (let entry = this.#schedule.next; entry !== undefined; entry = this.#schedule.next) {
        // Anew before each start: tools and filters may have changed while it waited.
        const plan = planCall(this.#scope, entry);
        const exclusive = plan.kind === 'run' && plan.exclusive;
        if (!this.#schedule.mayStart(exclusive)) return;
        this.#schedule.start(exclusive);
        this.#start(entry, plan);
      }
    } finally {
      this.#isStarting = false;
    }
  }

  #start(entry: Entry, plan: Plan): void {
    const { request } = entry;
    entry.state = 'starting';
    const checked = plan.kind === 'refuse' ? plan : this.#guarded(entry, plan);
    let committed: Promise<void>;
    try {
      committed = this.#ports.started(request);
    } catch (error) {
      return this.#fail(entry, error);
    }
    if (checked.kind === 'refuse') {
      // Nothing will run, so nothing waits for the commit; a failed one is the log's to retry.
      committed.catch(() => {});
      this.#settle(entry, checked.result);
      return;
    }
    committed.then(
      () => this.#dispatch(entry, checked),
      (error: unknown) => this.#fail(entry, error),
    );
  }

  #guarded({ request, parsed }: Entry, plan: Plan): Plan {
    const { name, callId } = request;
    const reason = this.#scope.denial({ name, callId, args: parsed.args });
    return reason === undefined ? plan : { kind: 'refuse', result: results.denied(reason) };
  }

  #dispatch(entry: Entry, { found, args }: Plan & { kind: 'run' }): void {
    // Abandoned while its record was being committed.
    if (entry.state !== 'starting') return;
    const { request, signal, stop } = entry;
    if (signal.aborted) {
      this.#settle(entry, results.abortedBeforeDispatch(request.name));
    } else if (found.kind === 'module') {
      entry.state = 'in-thread';
      entry.reply.resolve({ done: false, runHere: true, args });
    } else {
      entry.state = 'here';
      void runBody({
        found,
        args,
        agent: this.#ports.agent,
        callId: request.callId,
        signals: [signal, stop.signal],
        clock: this.#clock,
        logger: this.#logger,
        abandonAfterMs: this.#abandonAfterMs,
      }).then((result) => this.#settle(entry, result));
    }
  }

  /** The one way to a result. Returns what kept a result out of the log. */
  #settle(entry: Entry, result: ToolResult): { error: unknown } | undefined {
    if (entry.state === 'settled' || entry.state === 'dropped') return undefined;
    entry.state = 'settled';
    entry.result = result;
    const failure = this.#tellAll(this.#schedule.settle(entry));
    if (failure !== undefined) {
      this.#dropWaiting(failure.error);
      entry.reply.reject(failure.error);
    }
    entry.reply.resolve(settledReply(result));
    this.#startNext();
    return failure;
  }

  /** A call could not be recorded: it has no result, and none that waits is started. */
  #fail(entry: Entry, error: unknown): void {
    if (entry.state !== 'starting') return;
    this.#entries.delete(entry.request.callId);
    const tellable = this.#schedule.drop(entry);
    this.#drop(entry, error);
    this.#dropWaiting(error);
    this.#tellAll(tellable);
    this.#startNext();
  }

  #dropWaiting(error: unknown): void {
    for (const entry of this.#schedule.takeWaiting()) {
      this.#entries.delete(entry.request.callId);
      this.#drop(entry, error);
    }
  }

  #drop(entry: Entry, reason: unknown): void {
    entry.state = 'dropped';
    // Whoever asked may be gone as well; that the answer finds nobody is no failure.
    entry.reply.promise.catch(() => {});
    entry.reply.reject(reason);
    entry.stop.abort(reason);
  }

  #tellAll(entries: readonly Entry[]): { error: unknown } | undefined {
    let failure: { error: unknown } | undefined;
    for (const entry of entries) {
      this.#entries.delete(entry.request.callId);
      failure = this.#tell(entry) ?? failure;
    }
    return failure;
  }

  #tell({ request, parsed, result }: Entry): { error: unknown } | undefined {
    try {
      this.#ports.settled(request, result!);
    } catch (error) {
      const fields = { callId: request.callId, error: toErrorRecord(error) };
      this.#logger.error(fields, 'The result of a tool call could not be logged.');
      return { error };
    }
    for (const listener of [...this.#listeners]) {
      try {
        listener(request, result!, parsed.args);
      } catch (error) {
        const fields = { callId: request.callId, error: toErrorRecord(error) };
        this.#logger.warn(fields, 'A listener of tool results failed.');
      }
    }
    return undefined;
  }
}

const settledReply = ({ concludesTurn }: ToolResult): ToolSettled => ({
  done: true,
  concludesTurn,
});
