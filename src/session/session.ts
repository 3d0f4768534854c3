import type { Message } from '../../protocol/content.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type {
  RequestHeader,
  SessionEvent,
  SessionEventMap,
  SessionEventOf,
  SessionEventType,
  SessionHeader,
} from '../../protocol/session-events.ts';
import type { Clock } from '../base/clock.ts';
import type { OpenTurn } from './brackets.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { frozenCopy } from '../../protocol/json.ts';
import { Brackets } from './brackets.ts';
import {
  envelopeProblem,
  isSessionEventType,
  isSurfaceType,
  shapeProblem,
  sourcesProblem,
} from './event-shape.ts';
import { checkedHeader } from './header.ts';
import { History } from './history.ts';

export type { OpenTurn } from './brackets.ts';

/** Whoever keeps a session durable; `Sessions` gives one to each session it makes. */
export interface Keeping {
  readonly durable: number;
  committed(): Promise<void>;
}

export interface AppendOptions {
  /** Earlier events this one was made from; only for events that join the history. */
  readonly sources?: readonly number[];
}

/** Nesting an event may have: what is deeper, a store could not write down. */
export const MAX_EVENT_DEPTH = 1_000;

/** Events of a long log that are checked in one go. */
const STEP = 500;

/**
 * The arrays that sessions handed out as prefixes, and whose they are: their events are frozen
 * and were checked.
 */
const PREFIXES = new WeakMap<readonly SessionEvent[], Session>();

/** The session whose finished turns these are: the very array that it handed out. */
export function originOf(seed: readonly SessionEvent[]): Session | undefined {
  return PREFIXES.get(seed);
}

/**
 * One conversation: a header and an append-only log, on the main thread. It is the only
 * sequencer of its events. What is derived from the log (the history, the open turn, the last
 * header) is kept up to date with each append and never stored.
 */
export class Session {
  readonly id: SessionId;
  readonly header: SessionHeader;
  readonly #clock: Clock;
  readonly #events: SessionEvent[] = [];
  #firstLiveSeq = 0;
  readonly #brackets = new Brackets();
  readonly #history = new History();
  readonly #listeners = new Set<(event: SessionEvent) => void>();
  #snapshot: readonly SessionEvent[] | undefined;
  /** How many events there are up to the end of the last turn that has one. */
  #completed = 0;
  #prefix: readonly SessionEvent[] | undefined;
  #lastHeader: RequestHeader | undefined;
  #lastContext: Readonly<SessionEventMap['request/context']> | undefined;
  #isPublishing = false;
  #keeping: Keeping | undefined;

  /**
   * The seed is copied and checked by the same rules as an append, unless it is the prefix of
   * another session: that is shared as it is. It may end inside a turn.
   * @throws {ArgumentError} when the header or an event of the seed is not what it must be.
   * @internal
   */
  constructor(init: {
    readonly header: SessionHeader;
    readonly seed?: readonly SessionEvent[];
    readonly clock: Clock;
  }) {
    this.header = checkedHeader(init.header);
    this.id = this.header.id;
    this.#clock = init.clock;
    const { seed = [] } = init;
    this.#begin(seed, PREFIXES.has(seed));
  }

  /**
   * As the constructor, for a long log: checked part by part, with `rest` in between. Until it
   * resolves nobody has the session.
   * @throws {ArgumentError} and what `rest` rejects with
   */
  static async inSteps(
    init: {
      readonly header: SessionHeader;
      readonly seed: readonly SessionEvent[];
      readonly clock: Clock;
    },
    rest: () => Promise<void>,
  ): Promise<Session> {
    const { header, seed, clock } = init;
    const session = new Session({ header, clock });
    for (let from = 0; from < seed.length; from += STEP) {
      if (from > 0) await rest();
      session.#begin(seed.slice(from, from + STEP), false);
    }
    return session;
  }

  /** Events below this number came with the seed: nobody was told of them. */
  get firstLiveSeq(): number {
    return this.#firstLiveSeq;
  }

  /** A frozen array that never grows; the same one until the next append. */
  get events(): readonly SessionEvent[] {
    this.#snapshot ??= Object.freeze([...this.#events]);
    return this.#snapshot;
  }

  /**
   * An event is being told right now: nothing can be appended until that is over, which it is
   * before any microtask runs.
   * @internal
   */
  get isPublishing(): boolean {
    return this.#isPublishing;
  }

  /** How many events there are: the number of the next one. */
  get seq(): number {
    return this.#events.length;
  }

  /** How many events the store has committed; 0 while the log is held back. */
  get durable(): number {
    return this.#keeping?.durable ?? 0;
  }

  /** The number of the last turn that was opened, 0 before the first. */
  get lastTurn(): number {
    return this.#brackets.lastTurn;
  }

  /**
   * The open turn, as of now.
   * @internal
   */
  get open(): OpenTurn | undefined {
    return this.#brackets.open;
  }

  /** The events from number `seq` on, up to `end`; costs only those, whatever came before. */
  eventsFrom(seq: number, end?: number): readonly SessionEvent[] {
    return this.#events.slice(seq, end);
  }

  /**
   * The log up to and including the end of its last finished turn: what another session may
   * begin with. Frozen, the same array until the next turn ends; `undefined` before the first.
   */
  completedTurns(): readonly SessionEvent[] | undefined {
    if (this.#completed === 0) return undefined;
    if (this.#prefix === undefined) {
      this.#prefix = Object.freeze(this.#events.slice(0, this.#completed));
      PREFIXES.set(this.#prefix, this);
    }
    return this.#prefix;
  }

  /**
   * Add one event. `data` is copied: what is in the log is the returned event's own, frozen.
   * Synchronous, and it never fails because of a listener. A refused append changes nothing.
   *
   * @throws {ArgumentError} when the data is not JSON, the event does not fit the open turn and
   *   step, or it comes from inside a listener of this very session.
   * @internal
   */
  append<T extends SessionEventType>(
    type: T,
    data: Readonly<SessionEventMap[T]>,
    options?: AppendOptions,
  ): SessionEventOf<T> {
    const copy = this.#copy(type, data) as unknown as SessionEventMap[T];
    const sources = options?.sources === undefined ? undefined : [...options.sources];
    if (this.#isPublishing) {
      throw this.#refusal(type, 'an event of this session is being told right now');
    }
    const problem = this.#problem(type, copy, sources);
    if (problem !== undefined) throw this.#refusal(type, problem);
    const envelope = { type, seq: this.#events.length, time: this.#clock.now(), data: copy };
    const event = Object.freeze(
      !isSurfaceType(type)
        ? envelope
        : sources === undefined
          ? { ...envelope, surfaceOp: 'append' as const }
          : { ...envelope, surfaceOp: 'append' as const, sourceEventSeqs: Object.freeze(sources) },
    ) as unknown as SessionEventOf<T>;
    this.#push(event as SessionEvent);
    if (this.#listeners.size > 0) this.#tell(event as SessionEvent);
    return event;
  }

  /** What the model is shown: shared frozen messages, the same array until one is added. */
  deriveMessages(): readonly Message[] {
    return this.#history.messages;
  }

  /** The header of the last request, if there was one. */
  lastHeader(): RequestHeader | undefined {
    return this.#lastHeader;
  }

  /** The context record of the last request, if there was one. */
  lastContext(): Readonly<SessionEventMap['request/context']> | undefined {
    return this.#lastContext;
  }

  /**
   * Wait until everything appended so far is committed. While the log is held back this waits
   * for its acceptance.
   * @throws {StoreError} of the write that failed; what it held is kept and written again with
   *   the next event or flush.
   */
  committed(): Promise<void> {
    return (
      this.#keeping?.committed() ??
      Promise.reject(new ArgumentError(`No store keeps session \`${this.id}\`.`))
    );
  }

  /**
   * Be told of each event right after it is in the log. For `Sessions` alone, which publishes.
   * Contract: the listener does not throw and does not append to this session.
   * @internal
   */
  onAppend(listener: (event: SessionEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * For `Sessions` alone: say who keeps this session.
   * @internal
   */
  keepWith(keeping: Keeping): void {
    this.#keeping = keeping;
  }

  #begin(seed: readonly SessionEvent[], isChecked: boolean): void {
    for (const event of seed) this.#push(isChecked ? event : this.#checked(event));
    this.#firstLiveSeq = this.#events.length;
  }

  /** The next event of a log that was given, as a copy of its own. */
  #checked(given: SessionEvent): SessionEvent {
    const seq = this.#events.length;
    const refuse = (problem: string): never => {
      throw new ArgumentError(
        `Event ${seq} of the log given for session \`${this.id}\` is refused: ${problem}.`,
      );
    };
    let event: SessionEvent;
    try {
      event = frozenCopy(given, MAX_EVENT_DEPTH) as unknown as SessionEvent;
    } catch (error) {
      return refuse(toErrorRecord(error).message.replace(/\.$/, ''));
    }
    const problem =
      envelopeProblem(event, seq) ??
      shapeProblem(event.type, event.data) ??
      this.#brackets.problem(event.type, event.data);
    if (problem !== undefined) refuse(problem);
    return event;
  }

  #copy(type: SessionEventType, data: unknown): unknown {
    try {
      return frozenCopy(data, MAX_EVENT_DEPTH);
    } catch (error) {
      throw new ArgumentError(
        `Cannot append \`${String(type)}\` to session \`${this.id}\`: its data is not JSON.`,
        { cause: error },
      );
    }
  }

  #problem<T extends SessionEventType>(
    type: T,
    data: SessionEventMap[T],
    sources: readonly number[] | undefined,
  ): string | undefined {
    if (!isSessionEventType(type)) return 'its type is unknown';
    const problem = shapeProblem(type, data) ?? this.#brackets.problem(type, data);
    if (problem !== undefined || sources === undefined) return problem;
    if (!isSurfaceType(type)) return 'it cannot cite sources';
    return sourcesProblem(type, sources, this.#events.length);
  }

  #refusal(type: SessionEventType, problem: string): ArgumentError {
    return new ArgumentError(
      `Cannot append \`${String(type)}\` to session \`${this.id}\`: ${problem}.`,
    );
  }

  #push(event: SessionEvent): void {
    this.#events.push(event);
    this.#snapshot = undefined;
    this.#brackets.push(event);
    this.#history.push(event);
    if (event.type === 'turn/end') {
      this.#completed = this.#events.length;
      this.#prefix = undefined;
    } else if (event.type === 'request/header') this.#lastHeader = event.data.header;
    else if (event.type === 'request/context') this.#lastContext = event.data;
  }

  #tell(event: SessionEvent): void {
    this.#isPublishing = true;
    try {
      for (const listener of this.#listeners) listener(event);
    } finally {
      this.#isPublishing = false;
    }
  }
}
