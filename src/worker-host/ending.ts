/** The end of one agent in a thread: begun in one tick, and over when nothing of it is left. */
import { SubagentError } from '../../protocol/errors.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import type { PendingInput } from '../agent/agent-host.ts';
import type { Intake } from '../agent/intake.ts';
import { deferred } from '../base/deferred.ts';
import type { Scope } from '../base/scope.ts';
import type { Conversation } from './conversation.ts';
import type { CurrentThread } from './current-thread.ts';
import type { Turns } from './turns.ts';

export interface EndingOptions {
  readonly id: string;
  readonly conversation: Conversation;
  readonly intake: Intake;
  readonly thread: CurrentThread;
  readonly turns: Turns;
  readonly scope: Scope;
  /** It has nothing to run any more. */
  idle(): void;
}

export class Ending {
  readonly #options: EndingOptions;
  #disposal: Promise<void> | undefined;
  /** Present from its halt on: resolves when its thread is gone. */
  #stopped: Promise<unknown> | undefined;

  constructor(options: EndingOptions) {
    this.#options = options;
  }

  get isBegun(): boolean {
    return this.#stopped !== undefined;
  }

  /** See `PreparedAgent.halt`. */
  halt(cause: CancelCause, pending: PendingInput, fate?: string): void {
    if (this.#stopped !== undefined) return;
    const { id, conversation, intake, thread, idle } = this.#options;
    const { promise, resolve } = deferred<unknown>();
    // Its presence is the end of admission, set before anything is told or cancelled.
    this.#stopped = promise;
    intake.halt(fate);
    thread.end(new SubagentError('DRAINING', `The agent "${id}" is being disposed.`));
    if (pending === 'discard') intake.clear();
    else if (conversation.open?.isDeciding === true) intake.putBack();
    thread.hold(true);
    // The cell is raised before the abort, as for a turn that is stopped; and the abort is before
    // the stop, so that calls which are given up when the grace is over have their results by then.
    thread.residency?.cancelFlag.raiseForEver(cause.kind);
    conversation.open?.cancel(cause);
    resolve(thread.stop(cause.kind));
    // What it accepted a moment ago wakes no thread any more, so none will say that it is idle.
    if (thread.isNone) idle();
  }

  /** See `PreparedAgent.dispose`. */
  dispose(pending: PendingInput): Promise<void> {
    if (this.#disposal !== undefined) return this.#disposal;
    const { intake } = this.#options;
    const { promise, resolve } = deferred<void>();
    this.#disposal = promise;
    this.halt({ kind: 'disposed' }, pending);
    intake.close();
    // What came since the halt goes the way of the rest.
    if (pending === 'discard') intake.clear();
    resolve(this.#release());
    return promise;
  }

  async #release(): Promise<void> {
    const { thread, turns, scope, idle } = this.#options;
    await this.#stopped;
    // A thread that was on its way is told by the signal; nothing of it is left after this.
    await thread.arrival;
    turns.clear();
    idle();
    await scope.dispose();
  }
}
