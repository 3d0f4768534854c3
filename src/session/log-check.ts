import type { SessionEvent } from '../../protocol/session-events.ts';
import type { OpenTurn } from './brackets.ts';
import { Brackets } from './brackets.ts';
import { envelopeProblem, shapeProblem } from './event-shape.ts';

/** The rules of a log, for one that comes event by event from outside. */
export class LogCheck {
  readonly #brackets = new Brackets();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The turn that the log is inside of, so far. */
  get open(): OpenTurn | undefined {
    return this.#brackets.open;
  }

  /** Take in the next event; or say why it cannot be, and take nothing in. */
  problem(event: SessionEvent): string | undefined {
    const problem =
      envelopeProblem(event, this.#length) ??
      shapeProblem(event.type, event.data) ??
      this.#brackets.problem(event.type, event.data);
    if (problem !== undefined) return problem;
    this.#brackets.push(event);
    this.#length++;
    return undefined;
  }
}
