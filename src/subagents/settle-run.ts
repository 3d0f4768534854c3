import { textOf } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { SubagentResult, SubagentRun } from './provider.ts';

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

/** Wait for the result, then release the run, whatever the result was. Never rejects. */
export async function finishRun(run: SubagentRun): Promise<FinishedRun> {
  // In functions of their own: what a provider gave may throw before there is a promise.
  const [result] = await Promise.allSettled([(async () => run.result)()]);
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

export const MAX_DIAGNOSTIC_BYTES = 4_096;
const CUT = '… [cut]';

/** At most 4 096 bytes of UTF-8, cut between characters and visibly. */
export function boundDiagnostic(text: string): string {
  const bytes = Buffer.from(text, 'utf8');
  // Through UTF-8 and back, so that a lone surrogate does not grow when it is encoded later.
  if (bytes.byteLength <= MAX_DIAGNOSTIC_BYTES) return bytes.toString('utf8');
  let end = MAX_DIAGNOSTIC_BYTES - Buffer.byteLength(CUT);
  while (isContinuation(bytes[end])) end--;
  return `${bytes.toString('utf8', 0, end)}${CUT}`;
}

/** The byte at which a character must not be cut off: it belongs to the one before. */
function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000;
}
