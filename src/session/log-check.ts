import type { InboxTarget, SessionEvent } from '../../protocol/session-events.ts';
import type { OpenTurn } from './brackets.ts';
import { Brackets } from './brackets.ts';
import { envelopeProblem, shapeProblem } from './event-shape.ts';

/** The rules of a log, for one that comes event by event from outside. */
export class LogCheck {
  /** Events below this number were another session's: what they put into its inbox is not here. */
  readonly #seedLength: number;
  readonly #brackets = new Brackets();
  readonly #waiting: Record<InboxTarget, number> = { 'next-turn': 0, 'next-step': 0 };
  #length = 0;

  constructor(seedLength = 0) {
    this.#seedLength = seedLength;
  }

  get length(): number {
    return this.#length;
  }

  /** The turn that the log is inside of, so far. */
  get open(): OpenTurn | undefined {
    return this.#brackets.open;
  }

  /** How many messages wait, so far. */
  get waiting(): number {
    return this.#waiting['next-turn'] + this.#waiting['next-step'];
  }

  /** Take in the next event; or say why it cannot be, and take nothing in. */
  problem(event: SessionEvent): string | undefined {
    const problem =
      envelopeProblem(event, this.#length) ??
      shapeProblem(event.type, event.data) ??
      this.#brackets.problem(event.type, event.data) ??
      this.#inboxProblem(event);
    if (problem !== undefined) return problem;
    this.#brackets.push(event);
    this.#length++;
    return undefined;
  }

  #inboxProblem(event: SessionEvent): string | undefined {
    if (event.type !== 'agent/inbox/spliced' || event.seq < this.#seedLength) return undefined;
    const { target, start, removedCount = 0, inserted } = event.data;
    if (start + removedCount > this.#waiting[target]) return 'it changes messages that do not wait';
    this.#waiting[target] += inserted.length - removedCount;
    return undefined;
  }
}
