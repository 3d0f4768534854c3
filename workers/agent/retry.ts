import { toErrorRecord } from '../../protocol/error-record.ts';
import type { Failure, RetryPolicy } from '../../protocol/model.ts';
import { retryDelayMs } from '../../protocol/retry-policy.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import type { TurnCancellation } from './interrupt.ts';

/** A model request failed for good. Its failure is the turn's, word for word. */
export class ModelFailure extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

export interface RetryOptions {
  readonly policy: RetryPolicy;
  readonly provider: string;
  /** In [0, 1). */
  random(): number;
  /** Contract: resolves after `ms`; rejects when `signal` aborts. */
  delay(ms: number, signal: AbortSignal): Promise<void>;
  post(event: WorkerEvent): void;
}

/**
 * Make a request, and make it again inside the same step while the policy says so. A turn that
 * is to stop wins over a retry, before and after the wait.
 *
 * @throws {ModelFailure} when the last attempt failed.
 */
export async function withRetry<T>(
  at: { readonly turn: number; readonly step: number },
  cancellation: TurnCancellation,
  options: RetryOptions,
  attempt: (number: number) => Promise<T>,
): Promise<T> {
  const { policy, provider, post } = options;
  for (let retry = 1; ; retry++) {
    cancellation.throwIfRaised();
    try {
      return await attempt(retry);
    } catch (thrown) {
      cancellation.throwIfRaised();
      if (!(thrown instanceof ModelFailure)) throw thrown;
      const { failure } = thrown;
      const delayMs = retryDelayMs(policy, retry, failure, options.random());
      if (delayMs === undefined) throw thrown;
      const retryId = `${at.turn}.${at.step}.${retry}`;
      const { maxRetries } = policy;
      post({
        type: 'llm/retry',
        data: { retryId, ...at, provider, retry, maxRetries, delayMs, failure },
      });
      await options.delay(delayMs, cancellation.signal);
      cancellation.throwIfRaised();
      post({ type: 'llm/retry-started', data: { retryId, ...at, retry } });
    }
  }
}

const MESSAGE_CHARS = 4_096;
const CAUSES = 3;

/** What a turn that ended by an error says of it: its messages, and its own code if it has one. */
export function turnErrorOf(thrown: unknown): Failure {
  if (thrown instanceof ModelFailure) return thrown.failure;
  const record = toErrorRecord(thrown);
  const messages: string[] = [];
  for (
    let next = record as typeof record.cause;
    next && messages.length <= CAUSES;
    next = next.cause
  ) {
    if (!messages.some((message) => message.includes(next!.message))) messages.push(next.message);
  }
  return { message: messages.join(': ').slice(0, MESSAGE_CHARS), code: record.code };
}
