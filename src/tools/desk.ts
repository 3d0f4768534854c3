/**
 * One agent's tool calls, on the main thread: what may run, in which order, and what each comes
 * to. The order is that in which `call` was made. Bodies of functions run here; those of modules
 * are run by the agent's thread when this desk says so, and settle by `finish`.
 *
 * A call is logged when it starts and its body runs only once that is committed, so that no
 * effect is older than its record. Every call that was logged gets one result, in order, unless
 * its record could not be committed or its thread is gone.
 *
 * Hooks are asked about one call at a time: before its body once all before it were, and about
 * its result once all before it are told. Where there are none nothing waits for them.
 */
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, ProtocolError, WorkerError } from '../../protocol/errors.ts';
import type {
  ToolCallReply,
  ToolCallRequest,
  ToolOutcome,
  ToolSettled,
} from '../../protocol/host-services.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import type { Clock } from '../base/clock.ts';
import { deferred } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import type { Logger } from '../base/logger.ts';
import { parseArguments } from './arguments.ts';
import type { ParsedArguments } from './arguments.ts';
import { runBody } from './execute.ts';
import { askAfter, askBefore } from './hooked.ts';
import type { HookedCall, ToolHookChains } from './hooked.ts';
import type { ToolHooks } from './hooks.ts';
import { planAfterHooks, planCall } from './plan.ts';
import type { Plan } from './plan.ts';
import type { EndedCall, ToolScope } from './registry.ts';
import * as results from './results.ts';
import type { ToolResult } from './results.ts';
import { Schedule } from './schedule.ts';

export type { ToolErrorCode, ToolResult } from './results.ts';

/** What a desk tells its agent's log. Main, in the tick in which it happens. */
export interface DeskPorts {
  /** Handed to bodies on main and to hooks. */
  readonly agent: object;
  /** Append the call now, synchronously. Resolves when it is committed. */
  started(call: ToolCallRequest): Promise<void>;
  /** Append the result. Called in the order of the calls. */
  settled(call: ToolCallRequest, result: ToolResult): void;
}

interface Entry {
  readonly request: ToolCallRequest;
  readonly signal: AbortSignal;
  readonly parsed: ParsedArguments;
  /** What its caller waits for: its end, or that its body is to be run in the thread. */
  reply: Deferred<ToolCallReply>;
  /** Ends its body when its thread is gone. */
  readonly stop: AbortController;
  state: 'waiting' | 'starting' | 'here' | 'in-thread' | 'ended' | 'settled' | 'dropped';
  /** Of a body on main. */
  context?: ToolContext<unknown>;
  /** Final once the call is `settled`; of one that is `ended` it is what hooks are shown. */
  result?: ToolResult;
}

const DEFAULT_CONCURRENCY = 10;
const DEFAULT_ABANDON_AFTER_MS = 5_000;

export class ToolDesk {
  readonly #scope: ToolScope;
  readonly #ports: DeskPorts;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #hooks: ToolHookChains | undefined;
  readonly #abandonAfterMs: () => number;
  readonly #isForChild: () => boolean;
  readonly #schedule: Schedule<Entry>;
  /** Calls whose result is not in the log yet. */
  readonly #entries = new Map<CallId, Entry>();
  /** The call that hooks are asked about. */
  #asked: Entry | undefined;
  #isAdvancing = false;

  constructor(o: {
    readonly scope: ToolScope;
    readonly ports: DeskPorts;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly hooks?: ToolHookChains;
    /** Calls that may overlap. */
    readonly concurrency?: number;
    /** How long a body on main that is being told to stop is waited for. */
    readonly abandonAfterMs?: () => number;
    /** The agent waits for a child of its own. */
    readonly isForChild?: () => boolean;
  }) {
    const concurrency = o.concurrency ?? DEFAULT_CONCURRENCY;
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new ArgumentError('The concurrency of tools must be a whole number above 0.');
    }
    this.#scope = o.scope;
    this.#ports = o.ports;
    this.#clock = o.clock;
    this.#logger = o.logger;
    this.#hooks = o.hooks;
    this.#abandonAfterMs = o.abandonAfterMs ?? (() => DEFAULT_ABANDON_AFTER_MS);
    this.#isForChild = o.isForChild ?? (() => false);
    this.#schedule = new Schedule(concurrency);
  }

  /** Calls whose result is not in the log yet. */
  get pending(): number {
    return this.#entries.size;
  }

  /** A body runs on main, and the thread waits for it. */
  get hasBodyHere(): boolean {
    return [...this.#entries.values()].some(({ state }) => state === 'here');
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
    this.#advance();
    return entry.reply.promise;
  }

  /**
   * What the body of a module did. Resolves when the call has its result.
   * @throws {ProtocolError} (rejects) when no call of this id is out in the thread.
   */
  finish(callId: CallId, outcome: ToolOutcome): Promise<ToolSettled> {
    const entry = this.#entries.get(callId);
    if (entry?.state !== 'in-thread') {
      const message = `No tool call ${callId} is running in the thread.`;
      return Promise.reject(new ProtocolError('PROTOCOL_VIOLATION', message));
    }
    const { name } = entry.request;
    this.#end(
      entry,
      outcome.ok && entry.signal.aborted ? results.aborted(name) : results.reported(name, outcome),
    );
    // From its dispatch on the only answer that is left is its end.
    return entry.reply.promise as Promise<ToolSettled>;
  }

  /**
   * The thread is gone, or is about to be. Results that wait for an earlier one are told now,
   * for they are known; every other call is dropped without one, also one whose result hooks
   * have not let pass. Bodies here are told to stop, and what they or hooks still say comes to
   * nothing. The desk can be used again.
   */
  abandon(
    reason: Error = new WorkerError('WORKER_EXITED', 'The thread of the call is gone.'),
  ): void {
    const entries = this.#schedule.takeAll();
    this.#entries.clear();
    this.#asked = undefined;
    for (const entry of entries) {
      if (entry.state === 'settled') this.#tell(entry);
      else this.#drop(entry, reason);
    }
  }

  /** Do what can be done now: ask about the first result, start what may start, in order. */
  #advance(): void {
    // A call that ends at once comes back here; the loop below goes on with the next.
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    try {
      while (this.#askAboutFirst() || this.#startNext());
    } finally {
      this.#isAdvancing = false;
    }
  }

  #startNext(): boolean {
    const entry = this.#schedule.next;
    if (entry === undefined) return false;
    // Anew before each start: tools and filters may have changed while it waited.
    const plan = planCall(this.#scope, entry);
    const exclusive = plan.kind === 'run' && plan.exclusive;
    if (!this.#schedule.mayStart(exclusive)) return false;
    const isAsked = plan.kind === 'run' && this.#hasHook('tool/pre-execute');
    if (isAsked && this.#asked !== undefined) return false;
    this.#schedule.start(exclusive);
    this.#start(entry, plan, isAsked);
    return true;
  }

  #start(entry: Entry, plan: Plan, isAsked: boolean): void {
    entry.state = 'starting';
    let committed: Promise<void>;
    try {
      committed = this.#ports.started(entry.request);
    } catch (error) {
      return this.#fail(entry, error);
    }
    // Only what is to run waits for its record; a failed one is else the log's to retry.
    committed.catch(() => {});
    if (plan.kind === 'refuse') this.#end(entry, plan.result);
    else if (isAsked) this.#askBefore(entry, plan, committed);
    else this.#admit(entry, plan, committed);
  }

  /** Past the hooks: guards have the last word, then the record is waited for. */
  #admit(entry: Entry, plan: Plan & { kind: 'run' }, committed: Promise<void>): void {
    const { request, parsed } = entry;
    const { name, callId } = request;
    const reason = this.#scope.denial({ name, callId, args: parsed.args });
    if (reason !== undefined) return this.#end(entry, results.denied(reason));
    committed.then(
      () => this.#dispatch(entry, plan),
      (error: unknown) => this.#fail(entry, error),
    );
  }

  #askBefore(entry: Entry, plan: Plan & { kind: 'run' }, committed: Promise<void>): void {
    this.#asked = entry;
    void askBefore(this.#hooks!, this.#hooked(entry)).then((verdict) => {
      // Abandoned while hooks were asked: by now another call may be the asked one.
      if (entry.state !== 'starting') return;
      this.#asked = undefined;
      const checked = verdict.kind === 'go' ? planAfterHooks(this.#scope, plan) : verdict;
      if (checked.kind === 'run') this.#admit(entry, checked, committed);
      else if (checked.kind === 'refuse') this.#end(entry, checked.result);
      else this.#settle(entry, checked.result);
      this.#advance();
    });
  }

  /** Returns whether it asked. Results are asked about in order: the first one goes first. */
  #askAboutFirst(): boolean {
    const entry = this.#schedule.first;
    if (entry?.state !== 'ended' || this.#asked !== undefined) return false;
    this.#asked = entry;
    void askAfter(this.#hooks!, this.#hooked(entry), entry.result!).then((result) => {
      if (entry.state !== 'ended') return;
      this.#asked = undefined;
      this.#settle(entry, result);
    });
    return true;
  }

  #hasHook(type: keyof ToolHooks): boolean {
    return this.#hooks?.has(type, this.#ports.agent) === true;
  }

  #hooked({ request, parsed, signal, stop }: Entry): HookedCall {
    const { agent } = this.#ports;
    return { agent, request, args: parsed.args, signal, stop: stop.signal };
  }

  #dispatch(entry: Entry, { found, args }: Plan & { kind: 'run' }): void {
    // Abandoned while its record was being committed.
    if (entry.state !== 'starting') return;
    const { request, signal, stop } = entry;
    if (signal.aborted) {
      this.#end(entry, results.abortedBeforeDispatch(request.name));
    } else if (found.kind === 'module') {
      entry.state = 'in-thread';
      entry.reply.resolve({ done: false, runHere: true, args });
      entry.reply = deferred();
    } else {
      entry.state = 'here';
      const { context, result } = runBody({
        found,
        args,
        agent: this.#ports.agent,
        callId: request.callId,
        signals: [signal, stop.signal],
        clock: this.#clock,
        logger: this.#logger,
        abandonAfterMs: this.#abandonAfterMs,
        isForChild: this.#isForChild,
      });
      entry.context = context;
      void result.then((ended) => this.#end(entry, ended));
    }
  }

  /** The body is over, or never ran: what the call comes to, unless a hook says otherwise. */
  #end(entry: Entry, result: ToolResult): void {
    if (!this.#hasHook('tool/post-execute')) return this.#settle(entry, result);
    if (entry.state === 'dropped') return;
    entry.state = 'ended';
    entry.result = result;
    this.#schedule.release(entry);
    this.#advance();
  }

  /** The one way to a result. */
  #settle(entry: Entry, result: ToolResult): void {
    if (entry.state === 'settled' || entry.state === 'dropped') return;
    entry.state = 'settled';
    entry.result = result;
    const failure = this.#tellAll(this.#schedule.settle(entry));
    if (failure !== undefined) {
      this.#dropWaiting(failure.error);
      entry.reply.reject(failure.error);
    }
    entry.reply.resolve(settledReply(result));
    this.#advance();
  }

  /** A call could not be recorded: it has no result, and none that waits is started. */
  #fail(entry: Entry, error: unknown): void {
    if (entry.state !== 'starting') return;
    this.#entries.delete(entry.request.callId);
    const tellable = this.#schedule.drop(entry);
    this.#drop(entry, error);
    this.#dropWaiting(error);
    this.#tellAll(tellable);
    this.#advance();
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
    this.#tellWatchers(entry, undefined);
  }

  #tellAll(entries: readonly Entry[]): { error: unknown } | undefined {
    let failure: { error: unknown } | undefined;
    for (const entry of entries) {
      this.#entries.delete(entry.request.callId);
      failure = this.#tell(entry) ?? failure;
    }
    return failure;
  }

  #tell(entry: Entry): { error: unknown } | undefined {
    const { request, result } = entry;
    try {
      this.#ports.settled(request, result!);
    } catch (error) {
      const fields = { callId: request.callId, error: toErrorRecord(error) };
      this.#logger.error(fields, 'The result of a tool call could not be logged.');
      this.#tellWatchers(entry, undefined);
      return { error };
    }
    this.#tellWatchers(entry, result);
    return undefined;
  }

  #tellWatchers({ request, parsed, context }: Entry, result: ToolResult | undefined): void {
    const ended: EndedCall = {
      request,
      args: parsed.args,
      ...(context === undefined ? {} : { context }),
      ...(result === undefined ? {} : { result }),
    };
    for (const watcher of this.#scope.watchers()) {
      try {
        watcher(ended);
      } catch (error) {
        const fields = { callId: request.callId, error: toErrorRecord(error) };
        this.#logger.warn(fields, 'A watcher of tool calls failed.');
      }
    }
  }
}

const settledReply = ({ concludesTurn }: ToolResult): ToolSettled => ({
  done: true,
  concludesTurn,
});
