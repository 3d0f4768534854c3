import type { UserMessage } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { deferred, listenForAbort } from '../base/deferred.ts';
import type { Logger } from '../base/logger.ts';
import type { FoundTool } from './definition.ts';
import { aborted, admitContext, refusal, returned, thrown } from './results.ts';
import type { ToolResult } from './results.ts';

/** What one result may hold, as of a body in a thread. */
const MAX_CONTEXTS = 100;

const tooManyContexts = (): ArgumentError =>
  new ArgumentError(`One call defers at most ${MAX_CONTEXTS} messages.`);

/** One body to be run on main. */
export interface BodyCall {
  readonly found: FoundTool & { kind: 'host' };
  readonly args: JsonObject;
  readonly agent: unknown;
  readonly callId: CallId;
  /** Each stops the body: its caller's turn, the end of its thread. None is aborted yet. */
  readonly signals: readonly AbortSignal[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a body that is being told to stop is waited for. Asked in that tick. */
  abandonAfterMs(): number;
  /** Its agent waits for a child of its own, which may be what the body waits for. */
  isForChild(): boolean;
}

/** A body that has begun. */
export interface Execution {
  /** What the body was given: this very object names the call, whatever its id. */
  readonly context: ToolContext<unknown>;
  /** Never rejects. */
  readonly result: Promise<ToolResult>;
}

/**
 * Run one body on main to its result. A body cannot be ended from outside: it is
 * told to stop, waited for, and given up when it does not.
 *
 * What told it first decides: after its own time is up the result is TOOL_TIMEOUT whatever it
 * does; after its caller's abort a success becomes ABORTED and a failure stays what it is.
 */
export function runBody(call: BodyCall): Execution {
  const { found, args, signals, clock, logger } = call;
  const { name } = found.spec;
  const { timeoutMs } = found;
  const result = deferred<ToolResult>();
  const controller = new AbortController();
  const contexts: UserMessage[] = [];
  const timers: Timer[] = [];
  let concludesTurn = false;
  let stoppedBy: 'caller' | 'timeout' | undefined;
  let isOver = false;

  // The first outcome counts; what comes later resolves nothing.
  const end = (outcome: ToolResult): void => {
    isOver = true;
    for (const timer of timers) timer.cancel();
    for (const release of releases) release();
    result.resolve(outcome);
  };
  const abandon = (): void => {
    const fields = { tool: name, callId: call.callId };
    // A child is told to stop in the same tick, and has the same grace: it is told of by itself.
    if (call.isForChild()) logger.debug(fields, 'A tool was given up while it waited for a child.');
    else logger.warn(fields, 'A tool ignored that it was to stop.');
    end(
      refusal(
        'TOOL_ABANDONED',
        `The tool \`${name}\` did not stop when it was told to. It may still have effects.`,
      ),
    );
  };
  const stop = (by: 'caller' | 'timeout', reason: unknown): void => {
    if (stoppedBy !== undefined || isOver) return;
    stoppedBy = by;
    timers.push(clock.after(call.abandonAfterMs(), abandon));
    controller.abort(reason);
  };
  const releases = signals.map((signal) =>
    listenForAbort(signal, () => stop('caller', signal.reason)),
  );
  if (timeoutMs !== undefined) {
    timers.push(
      clock.after(timeoutMs, () =>
        stop('timeout', new DOMException('The time of this tool is up.', 'TimeoutError')),
      ),
    );
  }
  const timedOut = (): ToolResult =>
    refusal('TOOL_TIMEOUT', `The tool \`${name}\` did not finish within ${timeoutMs} ms.`);
  const context: ToolContext<unknown> = {
    agent: call.agent,
    callId: call.callId,
    signal: controller.signal,
    // After the end there is no result left to belong to.
    deferContext(message) {
      if (isOver) return;
      if (contexts.length === MAX_CONTEXTS) throw tooManyContexts();
      contexts.push(admitContext(message));
    },
    concludeTurn() {
      concludesTurn = true;
    },
  };
  const run = async (): Promise<unknown> => await found.tool.execute(args, context);
  run().then(
    (output) => {
      if (stoppedBy === 'timeout') end(timedOut());
      else if (stoppedBy === 'caller') end(aborted(name));
      else end(returned(found, args, output, { contexts, concludesTurn }));
    },
    (error: unknown) => {
      if (stoppedBy === 'timeout') end(timedOut());
      // Throwing the very reason it was given is how a body says that it stopped.
      else if (stoppedBy === 'caller' && error === controller.signal.reason) end(aborted(name));
      else end(thrown(error));
    },
  );
  return { context, result: result.promise };
}
