import { HarnessError, SubagentError } from '../../protocol/errors.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';

/**
 * The one failure that a teardown rejects with, after everything was tried: nothing when nothing
 * failed; a single failure that has a code, as it is; else one `SubagentError` with all of them
 * as its cause.
 *
 * @param what names what was ended, as the subject of a sentence
 * @throws {HarnessError}
 */
export function assertTornDown(what: string, failures: readonly unknown[]): void {
  const [first] = failures;
  if (failures.length === 0) return;
  if (failures.length === 1 && first instanceof HarnessError) throw first;
  const messages = failures.map((failure) => toErrorRecord(failure).message);
  throw new SubagentError(
    'ACTIVATION_TEARDOWN_FAILED',
    `${what} did not end cleanly: ${messages.join('; ')}`,
    { cause: failures.length === 1 ? first : new AggregateError(failures, messages.join('; ')) },
  );
}
