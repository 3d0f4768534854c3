import { setMaxListeners } from 'node:events';

/** A promise and its two ends; settling twice is harmless. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T | PromiseLike<T>): void;
  reject(reason: unknown): void;
}

export function deferred<T>(): Deferred<T> {
  let resolve!: Deferred<T>['resolve'];
  let reject!: Deferred<T>['reject'];
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/**
 * One signal that aborts with the first of several, and the function that lets go of them. Unlike
 * `AbortSignal.any` it leaves nothing on a source that outlives it.
 */
export function joinSignals(sources: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  release(): void;
} {
  const controller = new AbortController();
  const undo: (() => void)[] = [];
  const release = (): void => undo.forEach((run) => run());
  for (const source of sources) {
    if (source === undefined) continue;
    const onAbort = (): void => controller.abort(source.reason);
    if (source.aborted) onAbort();
    try {
      undo.push(listenForAbort(source, onAbort));
    } catch (error) {
      release();
      throw error;
    }
  }
  return { signal: controller.signal, release };
}

/**
 * Hear of the abort of anybody's signal. What it throws now is the caller's failure; the returned
 * function, which lets go of it, never throws: whoever calls that has settled what it does.
 */
export function listenForAbort(signal: AbortSignal, onAbort: () => void): () => void {
  letManyListen(signal);
  signal.addEventListener('abort', onAbort, { once: true });
  return () => {
    try {
      signal.removeEventListener('abort', onAbort);
    } catch {
      // Only like a signal. It may tell of an abort still, which changes nothing by now.
    }
  };
}

/** One signal for many at once is how it is meant: no sign of a leak, as Node would warn. */
function letManyListen(signal: AbortSignal): void {
  try {
    setMaxListeners(0, signal);
  } catch {
    // Only like a signal: it counts nobody.
  }
}

/**
 * Wait for `promise`, but not beyond `signal`: on abort the wait ends with the signal's own
 * reason. What was waited for goes on; its later failure is not unhandled.
 */
export function raceSignal<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  promise.catch(() => {});
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    const release = listenForAbort(signal, onAbort);
    promise.then(resolve, reject).finally(release);
  });
}

/**
 * Be told how a promise of anybody's ends, in the order of those who ask. One that cannot be
 * asked, because its `then` throws, has failed.
 */
export function whenSettled<T>(
  promise: PromiseLike<T>,
  fulfilled: (value: T) => void,
  rejected: (reason: unknown) => void,
): void {
  try {
    // A promise of this realm is asked itself: that is where it throws.
    Promise.resolve(promise).then(fulfilled, rejected);
  } catch (error) {
    rejected(error);
  }
}

/**
 * Whether something is a promise, where none is waited for: it is let go of, so that its later
 * failure is nobody's and ends no process.
 */
export function isPromiseLetGo(value: unknown): boolean {
  if (typeof (value as Partial<PromiseLike<unknown>> | null)?.then !== 'function') return false;
  const ignore = (): void => {};
  whenSettled(value as PromiseLike<unknown>, ignore, ignore);
  return true;
}
