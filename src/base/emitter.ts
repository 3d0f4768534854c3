import { types } from 'node:util';
import { printed, toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { whenSettled } from './deferred.ts';
import type { Logger } from './logger.ts';

type Listener<P> = (payload: P) => unknown;

/** @throws {ArgumentError} for an event that does not exist, or a listener that is no function */
export function assertListener(events: readonly string[], type: string, listener: unknown): void {
  if (!events.includes(type)) {
    throw new ArgumentError(
      `There is no event "${printed(type)}"; there are: ${events.join(', ')}.`,
    );
  }
  if (typeof listener !== 'function') {
    throw new ArgumentError(`A listener of "${type}" must be a function.`);
  }
}

/**
 * A typed list of observers. `emit` is contained: a listener that throws, or whose promise
 * rejects, is logged and stops nobody. Events tell; they never command.
 */
export class Emitter<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<Listener<never>>>();
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Returns the disposer, which may be called more than once. */
  on<T extends keyof Events>(type: T, listener: Listener<Events[T]>): () => void {
    let set = this.#listeners.get(type);
    if (set === undefined) this.#listeners.set(type, (set = new Set()));
    // A wrapper of its own: one function may be registered twice, and disposed once each.
    const entry: Listener<Events[T]> = (payload) => listener(payload);
    set.add(entry);
    return () => void set.delete(entry);
  }

  /** Tell everyone, in order of registration; failures of listeners are logged only. */
  emit<T extends keyof Events>(type: T, payload: Events[T]): void {
    for (const listener of [...(this.#listeners.get(type) ?? [])] as Listener<Events[T]>[]) {
      try {
        this.#hear(type, listener(payload));
      } catch (error) {
        this.#warn(type, error);
      }
    }
  }

  /** Tell everyone, in order; the first synchronous throw ends it and reaches the caller. */
  emitOrThrow<T extends keyof Events>(type: T, payload: Events[T]): void {
    for (const listener of [...(this.#listeners.get(type) ?? [])] as Listener<Events[T]>[]) {
      this.#hear(type, listener(payload));
    }
  }

  listenerCount(type: keyof Events): number {
    return this.#listeners.get(type)?.size ?? 0;
  }

  /** What a listener returned; never throws, whatever that is. */
  #hear(type: keyof Events, returned: unknown): void {
    // Only a promise: what is like one may begin its work when it is asked how it ends.
    if (!types.isPromise(returned)) return;
    const ignore = (): void => {};
    whenSettled(returned, ignore, (error) => this.#warn(type, error));
  }

  #warn(type: keyof Events, error: unknown): void {
    this.#logger.warn({ event: type, error: toErrorRecord(error) }, 'A listener failed.');
  }
}
