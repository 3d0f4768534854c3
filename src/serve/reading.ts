/** What a client reads of one following or watch, value by value. */
import { setMaxListeners } from 'node:events';
import { deferred, raceSignal } from '../base/deferred.ts';
import type { Incoming } from './incoming.ts';

interface ReadingOptions {
  /** Asked for with the first read. Resolves when it is known that there is something to read. */
  begin(): Promise<void>;
  /** Called once, whoever ended it and whatever became of `begin`. */
  end(): void;
  readonly signal: AbortSignal | undefined;
}

/** Unlike a generator it can be left while a read waits: that read is then at the end. */
export function readingOf<T>(
  incoming: Incoming<T>,
  { begin, end, signal }: ReadingOptions,
): AsyncIterableIterator<T, undefined> {
  const left = deferred<void>();
  let begun: Promise<void> | undefined;
  let hasBegun = false;
  let isOver = false;
  const finish = (): IteratorReturnResult<undefined> => {
    if (!isOver) {
      isOver = true;
      incoming.close();
      left.resolve();
      end();
    }
    return { done: true, value: undefined };
  };
  // A program may read much with one signal: no sign of a leak, as Node would warn.
  if (signal !== undefined) setMaxListeners(0, signal);
  const first = async (): Promise<void> => {
    begun ??= begin();
    await raceSignal(Promise.race([begun, left.promise]), signal);
    hasBegun = true;
  };
  return {
    async next() {
      if (isOver) return finish();
      try {
        if (!hasBegun) await first();
        const next = await incoming.next(signal);
        if (next !== undefined) return { done: false, value: next.value };
      } catch (error) {
        finish();
        throw error;
      }
      return finish();
    },
    return: async () => finish(),
    async throw(error: unknown) {
      finish();
      throw error;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
