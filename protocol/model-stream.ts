import type { ModelAdapter, ModelPart, ModelRequest } from './model.ts';
import { failureOf } from './model-failure.ts';
import { PartGrammar } from './model-grammar.ts';

const ABORTED = Symbol('aborted');

/**
 * One model request, whatever the adapter does: parts in the grammar of `ModelPart`, and exactly
 * one finish, last. A throw, garbage or a missing end become that finish. An abort is what the
 * signal says it is, and ends the stream at once, even while the adapter hangs; the adapter is
 * told by the signal and by `return()`, which is waited for only when the consumer breaks off.
 */
export async function* streamModel(
  adapter: ModelAdapter | undefined,
  request: ModelRequest,
  signal: AbortSignal,
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
  try {
    while (!grammar.isFinished) {
      let parts: readonly ModelPart[];
      try {
        if (adapter === undefined) {
          parts = [grammar.fail(noAdapter(request))];
        } else {
          const result = await orAbort(() => {
            iterator ??= open(adapter, request, signal);
            return Promise.resolve(iterator.next());
          });
          if (result === ABORTED || signal.aborted) parts = [];
          else if (result.done === true) {
            iterator = undefined;
            parts = grammar.end();
          } else parts = grammar.accept(result.value);
        }
      } catch (error) {
        parts = signal.aborted ? [] : [grammar.fail(failureOf(error))];
      }
      if (signal.aborted) parts = [grammar.abort('The request was cancelled.')];
      for (const part of parts) {
        // Aborted while the consumer was at work on an earlier part: only the end follows.
        const isLast = signal.aborted || part.type === 'finish';
        yield signal.aborted ? grammar.abort('The request was cancelled.') : part;
        if (isLast) return;
      }
    }
  } finally {
    const returned = release(iterator);
    if (!grammar.isFinished) await orAbort(() => returned);
    signal.removeEventListener('abort', wake);
  }
}

function open(
  adapter: ModelAdapter,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncIterator<unknown> {
  const stream = adapter.stream(request, { signal }) as AsyncIterable<unknown> | undefined;
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

const noAdapter = (request: ModelRequest) => ({
  code: 'NO_ADAPTER',
  message: `No model provider is registered as "${request.provider}".`,
});
