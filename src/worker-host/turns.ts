/**
 * The turns of one agent: how each opens, is told to stop, and ends, also when its thread is
 * gone. Whether what waits may open one is the intake's to say; what comes after one, the agent's.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { WorkerError } from '../../protocol/errors.ts';
import type { CancelCause, TurnEndReason } from '../../protocol/session-events.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import type { AgentFailure } from '../agent/agent.ts';
import type { Intake } from '../agent/intake.ts';
import type { Clock } from '../base/clock.ts';
import type { Conversation } from './conversation.ts';
import type { CurrentThread } from './current-thread.ts';
import type { OpenTurn } from './open-turn.ts';
import type { Restarts } from './restarts.ts';
import type { ThreadEnd } from './thread.ts';
import type { TurnBounds } from './limits.ts';
import { TurnDeadlines } from './turn-deadlines.ts';
import { TurnMeter } from './turn-meter.ts';

export interface TurnLimits extends TurnBounds {
  readonly interruptGraceMs: number;
}

export interface TurnsOptions {
  readonly conversation: Conversation;
  readonly intake: Intake;
  readonly thread: CurrentThread;
  readonly limits: TurnLimits;
  readonly clock: Clock;
  readonly restarts: Restarts;
  /** See `TurnDeadlines`. */
  isHeldUp(): boolean;
  /** The agent is to be stopped, and what waits for it kept. */
  exceeded(limit: string): void;
  /** A turn failed. */
  failed(turn: number, error: AgentFailure): void;
}

export class Turns {
  /** What the open one has used. */
  readonly meter: TurnMeter;
  readonly #options: TurnsOptions;
  readonly #deadlines: TurnDeadlines;
  /** The thread is being ended because a turn did not stop in time. */
  #isForced = false;

  constructor(options: TurnsOptions) {
    const { conversation, clock, limits, thread } = options;
    this.#options = options;
    this.meter = new TurnMeter({
      bounds: limits,
      clock,
      cpuMs: () => thread.residency?.cpuMs,
      exceeded: (turn, limit, words) => this.#exceeded(turn, limit, words),
    });
    this.#deadlines = new TurnDeadlines({
      clock,
      isOpen: (turn) => conversation.open === turn,
      isHeldUp: () => options.isHeldUp(),
    });
  }

  /** Open the next, with what of the waiting messages it begins with. */
  begin(): { turn: OpenTurn; messages: readonly UserMessage[] } {
    const { conversation, intake } = this.#options;
    const turn = conversation.openTurn();
    this.meter.begin(turn);
    turn.isDeciding = !turn.signal.aborted;
    // Told to stop at its very start, by a listener or for want of time: what waits goes on waiting.
    const messages = turn.signal.aborted ? [] : intake.claim('turn', turn.number);
    return { turn, messages };
  }

  /** What joins this one at its next step. */
  join(turn: OpenTurn): readonly UserMessage[] {
    turn.isDeciding = true;
    return this.#options.intake.claim('step', turn.number);
  }

  /** Tell this one to stop, and end its thread if it has not by the grace. The first cause wins. */
  stop(turn: OpenTurn, cause: CancelCause): void {
    if (turn.cause !== undefined) return;
    const { thread, limits } = this.#options;
    // The cell first: the abort sends the end of the turn's stream, and a loop that reads that
    // while the cell is not raised takes it for a failure.
    thread.residency?.interrupt(turn.number, cause.kind);
    const { interruptGraceMs } = limits;
    this.#deadlines.stop(turn, interruptGraceMs, () => {
      const text = `The turn did not stop within ${interruptGraceMs} ms, so its thread has to end.`;
      this.#isForced = true;
      thread.residency?.kill(new WorkerError('WORKER_UNRESPONSIVE', text));
    });
    turn.cancel(cause);
  }

  /** One event of the current thread. */
  event(event: WorkerEvent): void {
    const end = this.#options.conversation.event(event);
    if (end !== undefined) this.#ended(event.data.turn, end);
  }

  /**
   * The thread is gone: close what it left open. False when it did not go in a turn, nor for one:
   * the end of a turn that did not stop in time may be heard of when its thread is ended already.
   */
  lost({ error }: ThreadEnd): boolean {
    const { conversation, intake, restarts } = this.#options;
    const turn = conversation.open;
    const wasForced = this.#isForced;
    this.#isForced = false;
    if (turn === undefined) return wasForced;
    const reason = conversation.reasonOfDeath(turn, error);
    // A crash parks what waits, unless that goes on in another thread; a cancel did that already,
    // unless something came after it. A thread that was ended for a limit died of that.
    const isOwnDeath = turn.cause === undefined || turn.cause.kind === 'limit';
    const goesOn = isOwnDeath && restarts.died();
    if (turn.cause === undefined) {
      if (!goesOn) intake.park('failure');
      if (turn.isDeciding) intake.putBack();
    }
    conversation.close(reason);
    this.#ended(turn.number, reason, goesOn);
    return true;
  }

  /** No deadline of a turn is left. */
  clear(): void {
    this.#deadlines.clear();
    this.meter.clear();
  }

  #exceeded(turn: OpenTurn, limit: string, words: string): void {
    const { conversation, thread, exceeded } = this.#options;
    // The first cause wins; and a thread that is being ended for something did not do so for this.
    if (turn.cause !== undefined || thread.residency?.isLive !== true) return;
    if (conversation.open !== turn) return;
    turn.excess = words;
    exceeded(limit);
  }

  #ended(turn: number, reason: TurnEndReason, goesOn = false): void {
    const { thread, intake, failed } = this.#options;
    this.clear();
    thread.residency?.turnEnded();
    const hasFailed = reason.kind === 'error' || reason.kind === 'blocked';
    if (hasFailed && !goesOn) intake.park('failure');
    if (reason.kind === 'error') failed(turn, reason.error);
  }
}
