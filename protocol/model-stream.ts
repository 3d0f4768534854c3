import type { Failure, ModelAdapter, ModelPart, ModelRequest } from './model.ts';
import { failureOf } from './model-failure.ts';
import { PartGrammar } from './model-grammar.ts';

const ABORTED = Symbol('aborted');
/** Items of the adapter between two breaths. */
const ITEMS_PER_BREATH = 256;
const CANCELLED = 'The request was cancelled.';

/**
 * One model request, whatever the adapter does: parts in the grammar of `ModelPart`, and exactly
 * one finish, last. A throw, garbage or a missing end become that finish. An abort is what the
 * signal says it is, and ends the stream at once, even while the adapter hangs; the adapter is
 * told by the signal and by `return()`, which is waited for only when the consumer breaks off.
 *
 * @param breathe awaited once in a while, because an adapter may never wait for anything: give
 *   the event loop a turn, or nobody hears of an abort.
 */
export async function* streamModel(
  adapter: ModelAdapter | undefined,
  request: ModelRequest,
  signal: AbortSignal,
  breathe: () => Promise<void> = async () => {},
): AsyncGenerator<ModelPart, void, void> {
  const grammar = new PartGrammar();
  let iterator: AsyncIterator<unknown> | undefined;
  let onAbort = (): void => {};
  const wake = (): void => onAbort();
  /** What comes first: the outcome, or the abort. */
  const orAbort = <T>(start: () => PromiseLike<T>): Promise<T | typeof ABORTED> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return resolve(ABORTED);
      onAbort = () => resolve(ABORTED);
      start().then(resolve, reject);
    });
  signal.addEventListener('abort', wake);
  let taken = 0;
  try {
    while (!grammar.isFinished) {
      let parts: readonly ModelPart[];
      if (++taken % ITEMS_PER_BREATH === 0) await breathe();
      try {
        if (adapter === undefined) throw noAdapter(request);
        const result = await orAbort(async () => {
          iterator ??= await open(adapter, request, signal);
          return iterator.next();
        });
        if (result === ABORTED) parts = [grammar.abort(CANCELLED)];
        else if (result.done === true) {
          iterator = undefined;
          parts = grammar.end();
        } else parts = grammar.accept(result.value);
      } catch (error) {
        parts = [grammar.fail(failureOf(error))];
      }
      for (const part of parts) {
        // Also when it came while the adapter or the consumer was at work on a part.
        const isAborted = signal.aborted;
        yield isAborted ? grammar.abort(CANCELLED) : part;
        if (isAborted) return;
      }
    }
  } finally {
    const returned = release(iterator);
    if (!grammar.isFinished) await orAbort(() => returned);
    signal.removeEventListener('abort', wake);
  }
}

/** A stream, or the promise of one, which an async function gives. */
async function open(
  adapter: ModelAdapter,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<AsyncIterator<unknown>> {
  const stream = (await adapter.stream(request, { signal })) as AsyncIterable<unknown> | undefined;
  const start = stream?.[Symbol.asyncIterator];
  if (typeof start !== 'function') {
    throw new TypeError('The model adapter returned no stream: `stream` must be async-iterable.');
  }
  return start.call(stream);
}

/** Never rejects: a failing clean-up changes nothing about the answer. */
async function release(iterator: AsyncIterator<unknown> | undefined): Promise<void> {
  try {
    await iterator?.return?.();
  } catch {
    // The adapter's own clean-up failed, after its answer was dealt with.
  }
}

function noAdapter({ provider }: ModelRequest): Error & { failure: Failure } {
  const code = 'NO_ADAPTER';
  const message = `No model provider is registered as "${provider}".`;
  return Object.assign(new Error(message), { code, failure: { code, message } });
}
