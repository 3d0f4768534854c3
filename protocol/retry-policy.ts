import { deepFreeze } from './json.ts';
import type { Failure, RetryPolicy } from './model.ts';

export const DEFAULT_RETRY_POLICY: RetryPolicy = deepFreeze({
  maxRetries: 5,
  retryableCodes: ['EMPTY_RESPONSE', 'RATE_LIMIT', 'SERVER', 'TIMEOUT', 'TRANSPORT'],
  initialDelayMs: 500,
  maxDelayMs: 10_000,
  jitterRatio: 0.1,
});

/** Whether this is a policy that can be followed. */
export function isRetryPolicy(value: unknown): value is RetryPolicy {
  const { maxRetries, retryableCodes, initialDelayMs, maxDelayMs, jitterRatio } = (value ??
    {}) as Partial<Record<keyof RetryPolicy, unknown>>;
  const isAmount = (amount: unknown): amount is number =>
    Number.isFinite(amount) && (amount as number) >= 0;
  return (
    Number.isSafeInteger(maxRetries) &&
    isAmount(maxRetries) &&
    Array.isArray(retryableCodes) &&
    retryableCodes.every((code) => typeof code === 'string') &&
    isAmount(initialDelayMs) &&
    isAmount(maxDelayMs) &&
    isAmount(jitterRatio) &&
    jitterRatio <= 1
  );
}

/**
 * Milliseconds to wait before retry number `retry` (the first is 1), or `undefined` when the
 * request must not be made again. A provider's own wish is followed when it is within
 * `maxDelayMs`; a longer one means giving up.
 *
 * @param random a number in [0, 1)
 */
export function retryDelayMs(
  policy: RetryPolicy,
  retry: number,
  failure: Failure,
  random: number,
): number | undefined {
  if (retry > policy.maxRetries || !policy.retryableCodes.includes(failure.code)) return undefined;
  const wished = failure.providerRetryAfterMs;
  if (wished !== undefined) return wished <= policy.maxDelayMs ? wished : undefined;
  const base = Math.min(policy.initialDelayMs * 2 ** (retry - 1), policy.maxDelayMs);
  return Math.round(base * (1 + policy.jitterRatio * (2 * random - 1)));
}
