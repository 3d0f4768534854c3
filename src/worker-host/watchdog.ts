/**
 * Tells threads whose loop turns from those whose loop does not. While a turn is open its thread
 * is asked for a sign now and then, in a cell and not in a frame, and any loop that turns gives
 * it, whatever the agent waits for. One that gives none is warned of at a quarter of
 * `unresponsiveMs`, and its turn is told to stop at the whole of it; if that is not obeyed, the
 * thread is ended after the grace of an interrupt, as for any other limit.
 */
import type { Clock, Timer } from '../base/clock.ts';
import { elapsed } from '../base/clock.ts';
import type { Bound } from '../base/limit-values.ts';
import type { OpenTurn } from './open-turn.ts';

/** Whether a loop turns, as it can be found out from outside. */
export interface Pulse {
  /** The loop, if it turns, answers in a moment. */
  ask(): void;
  /** So far. */
  readonly answers: number;
}

/** What a loop does that does not turn: it uses the processor, or sleeps in a call. */
export type Unresponsive = 'busy' | 'blocked';

export interface WatchedThread {
  readonly pulse: Pulse;
  readonly openTurn: OpenTurn | undefined;
  cpuMs(): number | undefined;
  warn(kind: Unresponsive, silentMs: number, limitMs: number): void;
  exceeded(turn: OpenTurn, words: string): void;
}

/** The watchdog's end of a thread. */
export interface Watch {
  /** What it does instead of giving a sign; `undefined`: nothing is known of that kind. */
  readonly unresponsive: Unresponsive | undefined;
  /** For how long it has given no sign in its open turn. */
  readonly silentMs: number;
  end(): void;
}

interface Entry {
  readonly thread: WatchedThread;
  turn: OpenTurn | undefined;
  /** Answers when it was last asked; `undefined`: it answered since. */
  asked: number | undefined;
  silentMs: number;
  cpuMs: number;
  kind: Unresponsive | undefined;
  isWarned: boolean;
}

/** Looks in the time that a loop has. */
const LOOKS = 8;
const MOST_MS = 1_000;
const LEAST_MS = 10;
/** Of the time between two looks: from here on a thread was at work. */
const BUSY_SHARE = 0.1;

export class Watchdog {
  readonly #clock: Clock;
  readonly #limitMs: Bound;
  readonly #lookMs: number;
  readonly #entries = new Set<Entry>();
  #timer: Timer | undefined;
  #lookedAt = 0;

  constructor(clock: Clock, limitMs: Bound) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    const shareMs = limitMs === 'unlimited' ? MOST_MS : limitMs / LOOKS;
    this.#lookMs = Math.max(LEAST_MS, Math.min(MOST_MS, shareMs));
  }

  watch(thread: WatchedThread): Watch {
    const cpuMs = thread.cpuMs() ?? 0;
    const state = { asked: undefined, silentMs: 0, kind: undefined, isWarned: false };
    const entry: Entry = { thread, turn: undefined, cpuMs, ...state };
    if (this.#entries.size === 0) this.#lookedAt = elapsed(this.#clock);
    this.#entries.add(entry);
    this.#arm();
    return {
      get unresponsive() {
        return entry.kind;
      },
      get silentMs() {
        return entry.silentMs;
      },
      end: () => {
        this.#entries.delete(entry);
        if (this.#entries.size > 0) return;
        this.#timer?.cancel();
        this.#timer = undefined;
      },
    };
  }

  #arm(): void {
    this.#timer ??= this.#clock.after(this.#lookMs, () => {
      this.#timer = undefined;
      const now = elapsed(this.#clock);
      // A process that was stopped for an hour has not listened for an hour.
      const passedMs = Math.min(now - this.#lookedAt, 2 * this.#lookMs);
      this.#lookedAt = now;
      for (const entry of this.#entries) this.#look(entry, passedMs);
      if (this.#entries.size > 0) this.#arm();
    });
  }

  #look(entry: Entry, passedMs: number): void {
    const { thread } = entry;
    const { pulse, openTurn: turn } = thread;
    const hasAnswered = entry.asked !== undefined && pulse.answers !== entry.asked;
    if (hasAnswered || turn === undefined || turn !== entry.turn) {
      entry.silentMs = 0;
      entry.kind = undefined;
      entry.isWarned = false;
      if (hasAnswered) entry.asked = undefined;
    }
    entry.turn = turn;
    if (turn === undefined) return;
    const usedMs = (thread.cpuMs() ?? 0) - entry.cpuMs;
    entry.cpuMs += usedMs;
    if (entry.asked === undefined) {
      entry.asked = pulse.answers;
      pulse.ask();
      return;
    }
    entry.silentMs += passedMs;
    entry.kind = usedMs >= passedMs * BUSY_SHARE ? 'busy' : 'blocked';
    const limitMs = this.#limitMs;
    if (limitMs === 'unlimited' || turn.cause !== undefined) return;
    if (entry.silentMs >= limitMs) {
      const text = `The thread was ${entry.kind} and did not turn its loop: unresponsiveMs is ${limitMs} ms.`;
      thread.exceeded(turn, text);
    } else if (entry.silentMs >= limitMs / 4 && !entry.isWarned) {
      entry.isWarned = true;
      thread.warn(entry.kind, entry.silentMs, limitMs);
    }
  }
}
