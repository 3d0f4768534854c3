import type { ModelAdapter, ModelPart, ModelRequest } from '../../protocol/model.ts';
import type { Clock } from '../base/clock.ts';
import { streamModel } from '../../protocol/model-stream.ts';
import { systemClock } from '../base/clock.ts';

/**
 * The same adapter, whose streams fail with `TIMEOUT` when nothing comes for `idleMs` while
 * something is asked for: a reader that pauses stops the timer. The inner request is aborted
 * without a reason, which every provider takes for what it is.
 */
export function withIdleTimeout(
  adapter: ModelAdapter,
  idleMs: number,
  clock: Clock = systemClock,
): ModelAdapter {
  return {
    ...(adapter.retryPolicy === undefined ? {} : { retryPolicy: adapter.retryPolicy }),
    stream: (request, { signal }) => watched(adapter, request, signal, idleMs, clock),
  };
}

async function* watched(
  adapter: ModelAdapter,
  request: ModelRequest,
  signal: AbortSignal,
  idleMs: number,
  clock: Clock,
): AsyncGenerator<ModelPart, void, void> {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort();
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) controller.abort();
  const parts = streamModel(adapter, request, controller.signal);
  let isIdle = false;
  try {
    for (;;) {
      const timer = clock.after(idleMs, () => {
        isIdle = true;
        controller.abort();
      });
      const result = await parts.next().finally(() => timer.cancel());
      if (result.done === true) return;
      if (!isIdle) yield result.value;
      else {
        const message = `The provider sent nothing for ${idleMs / 1_000} s.`;
        yield { type: 'finish', reason: { kind: 'error', failure: { code: 'TIMEOUT', message } } };
        return;
      }
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    controller.abort();
  }
}
