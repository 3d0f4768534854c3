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
  throw teardownFailed(what, failures);
}

/** The same where callers are promised that code; one that has it already is told as it is. */
export function teardownFailed(what: string, failures: readonly unknown[]): SubagentError {
  const [first] = failures;
  const code = 'ACTIVATION_TEARDOWN_FAILED';
  if (failures.length === 1 && first instanceof SubagentError && first.code === code) return first;
  const messages = failures.map((failure) => toErrorRecord(failure).message).join('; ');
  const cause = failures.length === 1 ? first : new AggregateError(failures, messages);
  return new SubagentError(code, `${what} did not end cleanly: ${messages}`, { cause });
}
