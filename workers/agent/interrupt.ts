import type { CancelFlag } from '../../protocol/cancel-flag.ts';

/** Whether one turn is to stop. */
export interface TurnCancellation {
  /** Aborted when the turn is to stop; its reason is an `AbortError`. */
  readonly signal: AbortSignal;
  /** Compare the shared flag with this turn now. True: stop. */
  isRaised(): boolean;
  /** @throws the signal's reason when the turn is to stop. */
  throwIfRaised(): void;
}

/**
 * The cancel flag, the interrupt frame and the stop frame, made one signal per turn. The flag
 * says so first; the frame only wakes what awaits. Each names its turn: one for turn n that is
 * read in turn n + 1 is ignored.
 */
export class TurnCancellations {
  readonly #flag: CancelFlag;
  #open: { readonly turn: number; readonly controller: AbortController } | undefined;
  #isStopping = false;

  constructor(flag: CancelFlag) {
    this.#flag = flag;
  }

  get openTurn(): number | undefined {
    return this.#open?.turn;
  }

  begin(turn: number): TurnCancellation {
    const controller = new AbortController();
    this.#open = { turn, controller };
    const isRaised = (): boolean => {
      if (this.#isStopping || this.#flag.isRaised(turn)) this.#abort(turn, controller);
      return controller.signal.aborted;
    };
    isRaised();
    return {
      signal: controller.signal,
      isRaised,
      throwIfRaised() {
        if (isRaised()) throw controller.signal.reason;
      },
    };
  }

  end(): void {
    this.#open = undefined;
  }

  interrupt(turn: number): void {
    if (this.#open?.turn === turn) this.#abort(turn, this.#open.controller);
  }

  /** The open turn and every later one is to stop. */
  stop(): void {
    this.#isStopping = true;
    if (this.#open !== undefined) this.#abort(this.#open.turn, this.#open.controller);
  }

  /** Tools and models in this thread read why from the signal's reason. */
  #abort(turn: number, controller: AbortController): void {
    if (controller.signal.aborted) return;
    const cause = this.#flag.causeOf(turn) ?? 'stopped';
    controller.abort(new DOMException(`Cancelled: ${cause}.`, 'AbortError'));
  }
}
