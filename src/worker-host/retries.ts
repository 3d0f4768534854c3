/** Whether a model request that failed is made again, inside the same step, and when. */
import { ArgumentError } from '../../protocol/errors.ts';
import { retryDelayMs } from '../../protocol/retry-policy.ts';
import type { AgentHooks } from '../agent/hooks.ts';
import type { Clock } from '../base/clock.ts';
import type { FailedRequest, OpenTurn } from './open-turn.ts';
import type { Residency } from './residency.ts';
import type { ServedAgent } from './served-agent.ts';
import { askHooks } from './ask-hooks.ts';
import { whileRunning } from './while-running.ts';

type RetryDecision = AgentHooks['agent/request-error']['decision'];

export interface RetryParts {
  readonly agent: ServedAgent;
  readonly residency: Residency;
  readonly clock: Clock;
  /** In [0, 1). */
  random(): number;
  /** Throws unless the turn goes on, in the step that it was in. */
  assertRunning(turn: OpenTurn, step: number): void;
}

/** A longer timer would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/**
 * Have the policy and hooks decide about a failed request, tell of the retry in the log, and wait
 * for it. False: it is not made again. A stop of the turn wins over the decision, the wait and
 * the retry.
 *
 * Rejects with what a hook throws, and when the turn or its thread ends meanwhile.
 * @throws {ArgumentError} (rejects) for a decision that is none
 */
export async function awaitRetry(
  parts: RetryParts,
  turn: OpenTurn,
  failed: FailedRequest,
): Promise<boolean> {
  const { agent, residency, clock } = parts;
  const { attempt, provider, retryPolicy, failure } = failed;
  const at = { turn: turn.number, step: turn.step };
  // Each provider that was asked in this step has its own budget.
  const retry = (turn.retries.get(provider) ?? 0) + 1;
  const byPolicy = (): RetryDecision => {
    const delayMs = retryDelayMs(retryPolicy, retry, failure, parts.random());
    return delayMs === undefined ? { kind: 'fail' } : { kind: 'retry', delayMs };
  };
  const decision = checked(
    await askHooks(
      'agent/request-error',
      { agent, residency, turn },
      { step: at.step, attempt, provider, failure, retryPolicy },
      byPolicy,
    ),
  );
  parts.assertRunning(turn, at.step);
  if (decision.kind === 'fail') return false;
  const { delayMs } = decision;
  const { maxRetries } = retryPolicy;
  const retryId = `${at.turn}.${at.step}.${attempt}`;
  turn.retries.set(provider, retry);
  const told = { retryId, ...at, provider, retry, maxRetries, delayMs, failure };
  agent.session.append('llm/retry', told);
  await whileRunning(turn, residency, (signal) => pause(clock, delayMs, signal));
  parts.assertRunning(turn, at.step);
  agent.session.append('llm/retry-started', { retryId, ...at, retry });
  return true;
}

function checked(decision: unknown): RetryDecision {
  const { kind, delayMs } = (decision ?? {}) as Record<string, unknown>;
  if (kind === 'fail') return { kind };
  if (kind === 'retry' && Number.isFinite(delayMs) && (delayMs as number) >= 0) {
    // No log holds a negative zero.
    return { kind, delayMs: (delayMs as number) + 0 };
  }
  throw new ArgumentError(
    'A hook of "agent/request-error" decides { kind: "fail" } or { kind: "retry", delayMs }, ' +
      'with 0 or more milliseconds.',
  );
}

/** Whoever waits is told of the signal by themselves; here it only takes the timer back. */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(Math.min(ms, MAX_DELAY_MS), resolve);
    signal.addEventListener('abort', () => timer.cancel(), { once: true });
  });
}
