/**
 * What the open turn of one agent has used, measured on main against its limits. It ends nothing:
 * it tells, once it is so, that a limit is passed, in the tick in which that is found. The run
 * that it belongs to begins with it and outlives the agent's threads.
 */
import type { CallId } from '../../protocol/ids.ts';
import { elapsed } from '../base/clock.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { TurnBounds } from './limits.ts';
import type { OpenTurn } from './open-turn.ts';

export interface TurnMeterOptions {
  readonly bounds: TurnBounds;
  readonly clock: Clock;
  /** Processor time of the agent's thread so far; `undefined` when nothing tells. */
  cpuMs(): number | undefined;
  /** A limit of this turn is passed: which, and that in words. May be called more than once. */
  exceeded(turn: OpenTurn, limit: keyof TurnBounds, words: string): void;
}

/** Between two looks at the processor time of a thread. */
const CPU_LOOK_MS = 250;

export class TurnMeter {
  readonly #options: TurnMeterOptions;
  readonly #runBegan: number;
  readonly #calls = new Map<CallId, Timer>();
  #turn: OpenTurn | undefined;
  #deadlines: Timer[] = [];
  #nextLook: Timer | undefined;
  /** Processor time when the turn began, or when it was first told. */
  #cpuBefore: number | undefined;
  #bytes = 0;

  constructor(options: TurnMeterOptions) {
    this.#options = options;
    this.#runBegan = elapsed(options.clock);
  }

  /** A turn was opened. One for which no time of its run is left is told of at once. */
  begin(turn: OpenTurn): void {
    this.clear();
    this.#turn = turn;
    this.#bytes = 0;
    const { bounds, clock, cpuMs } = this.#options;
    const { turnMs, runMs } = bounds;
    const ran = elapsed(clock) - this.#runBegan;
    const left = runMs === undefined ? Infinity : runMs - ran;
    if (left <= 0) return this.#exceed('runMs', runIs(runMs, ran));
    if (turnMs !== undefined && turnMs <= left) {
      const text = `The turn ran longer than its limit: turnMs is ${turnMs} ms.`;
      this.#deadlines.push(clock.after(turnMs, () => this.#exceed('turnMs', text)));
    } else if (runMs !== undefined) {
      this.#deadlines.push(clock.after(left, () => this.#exceed('runMs', runIs(runMs, runMs))));
    }
    if (bounds.cpuMs === undefined) return;
    this.#cpuBefore = cpuMs();
    this.#lookLater(bounds.cpuMs);
  }

  /**
   * Events of this size have come from the thread, and are told next. After the frame that was
   * too much no part of an answer is kept: a thread may have posted many by the time it hears.
   */
  frame(bytes: number): void {
    const { outputBytes } = this.#options.bounds;
    if (outputBytes === undefined || this.#turn === undefined) return;
    if (this.#bytes > outputBytes) this.#turn.isFull = true;
    this.added(bytes);
  }

  /** Something of the turn, of this size, is in the log, or about to be. */
  added(bytes: number): void {
    const { outputBytes } = this.#options.bounds;
    if (outputBytes === undefined || this.#turn === undefined) return;
    this.#bytes += bytes;
    if (this.#bytes <= outputBytes) return;
    const text =
      'The turn added more to its log than its limit: ' +
      `outputBytes is ${outputBytes}, and it had added ${this.#bytes} bytes.`;
    this.#exceed('outputBytes', text);
  }

  /** Whether somebody has to know how much is added. */
  get countsBytes(): boolean {
    return this.#options.bounds.outputBytes !== undefined;
  }

  callStarted(callId: CallId, name: string): void {
    const { bounds, clock } = this.#options;
    const { toolMs } = bounds;
    if (toolMs === undefined || this.#turn === undefined) return;
    const text = `A tool call took longer than its limit: toolMs is ${toolMs} ms, and "${name}" was not done by then.`;
    this.#calls.set(
      callId,
      clock.after(toolMs, () => this.#exceed('toolMs', text)),
    );
  }

  callSettled(callId: CallId): void {
    this.#calls.get(callId)?.cancel();
    this.#calls.delete(callId);
  }

  /** Whether the turn may take another step after those that it took. */
  hasStepLeft({ step }: OpenTurn): boolean {
    const { steps } = this.#options.bounds;
    return steps === undefined || step < steps;
  }

  /** It is to take another, and has none left. */
  outOfSteps(): void {
    const { steps } = this.#options.bounds;
    const text = `The turn took all steps that its limit allows, and was to take another: steps is ${steps}.`;
    this.#exceed('steps', text);
  }

  /** The turn is over: nothing of it is measured any more. */
  clear(): void {
    this.#turn = undefined;
    this.#cpuBefore = undefined;
    this.#nextLook?.cancel();
    for (const timer of this.#deadlines.splice(0)) timer.cancel();
    for (const timer of this.#calls.values()) timer.cancel();
    this.#calls.clear();
  }

  #lookLater(most: number): void {
    const { clock, cpuMs } = this.#options;
    this.#nextLook = clock.after(CPU_LOOK_MS, () => {
      const now = cpuMs();
      this.#cpuBefore ??= now;
      const used = now === undefined ? 0 : Math.round(now - this.#cpuBefore!);
      // Armed before it is told: whoever is told may end the turn, which takes this back.
      this.#lookLater(most);
      if (used <= most) return;
      const text =
        'The turn used more processor time than its limit: ' +
        `cpuMs is ${most} ms, and its thread had used ${used} ms.`;
      this.#exceed('cpuMs', text);
    });
  }

  #exceed(limit: keyof TurnBounds, words: string): void {
    if (this.#turn !== undefined) this.#options.exceeded(this.#turn, limit, words);
  }
}

const runIs = (runMs: number | undefined, ran: number): string =>
  `The run took longer than its limit: runMs is ${runMs} ms, and it had lasted ${Math.round(ran)} ms.`;
