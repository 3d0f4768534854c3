import { textOf } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { SubagentResult, SubagentRun } from './provider.ts';
import { readResult } from './returned-result.ts';

/** What became of a run, once nothing of it is left. */
export type RunOutcome =
  | { readonly kind: 'completed'; readonly output: string }
  | { readonly kind: 'killed' }
  | { readonly kind: 'failed'; readonly reason: string };

/** A run's two endings, each as it came. */
export interface FinishedRun {
  readonly result: PromiseSettledResult<SubagentResult>;
  readonly disposal: PromiseSettledResult<void>;
}

/**
 * Wait for the result, then release the run, whatever the result was. One that is none is an
 * `error`. Never rejects.
 */
export async function finishRun(
  run: Pick<SubagentRun, 'result' | 'dispose'>,
): Promise<FinishedRun> {
  // In functions of their own: what a provider gave may throw before there is a promise.
  const [result] = await Promise.allSettled([(async () => run.result)().then(readResult)]);
  const [disposal] = await Promise.allSettled([(async () => run.dispose())()]);
  return { result, disposal };
}

/** One outcome for whoever only wants to know how it went. Never rejects. */
export async function settleRun(run: SubagentRun): Promise<RunOutcome> {
  const { result, disposal } = await finishRun(run);
  const outcome: RunOutcome =
    result.status === 'fulfilled'
      ? outcomeOf(result.value)
      : { kind: 'failed', reason: messageOf(result.reason) };
  if (disposal.status === 'fulfilled') return outcome;
  const release = `the run could not be released: ${messageOf(disposal.reason)}`;
  return {
    kind: 'failed',
    reason: outcome.kind === 'failed' ? `${outcome.reason}; ${release}` : release,
  };
}

function outcomeOf(result: SubagentResult): RunOutcome {
  switch (result.stopReason) {
    case 'completed':
      return { kind: 'completed', output: textOf(result.output) };
    case 'aborted':
      return { kind: 'killed' };
    // Open: a reason that a provider added is a failure like the ones we know.
    default: {
      const { stopReason, diagnostic } = result;
      const more = diagnostic === undefined ? '' : `; diagnostic: ${diagnostic}`;
      return { kind: 'failed', reason: `${stopReason}${more}` };
    }
  }
}

/** The message of anything that was thrown; never throws itself. */
export function messageOf(thrown: unknown): string {
  return toErrorRecord(thrown).message;
}
