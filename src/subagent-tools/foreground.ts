import type { SubagentResult, SubagentRun } from '../subagents/provider.ts';
import { explainResult } from '../subagents/result-text.ts';
import { finishRun, messageOf } from '../subagents/settle-run.ts';

/**
 * Wait for a run and let go of it, once, whatever became of it.
 *
 * Throws, as the result of a tool, what a model needs to go on without an answer: both failures,
 * when the run and its release failed.
 */
export async function awaitRun(run: SubagentRun): Promise<SubagentResult> {
  const { result, disposal } = await finishRun(run);
  const failures: Error[] = [];
  if (result.status === 'rejected') {
    failures.push(
      new Error(`The subagent could not be run: ${messageOf(result.reason)}`, {
        cause: result.reason,
      }),
    );
  } else if (result.value.stopReason !== 'completed') {
    failures.push(new Error(explainResult(result.value)));
  }
  if (disposal.status === 'rejected') {
    failures.push(
      new Error(`The subagent could not be released: ${messageOf(disposal.reason)}`, {
        cause: disposal.reason,
      }),
    );
  }
  const [failure] = failures;
  if (failures.length > 1) {
    throw new AggregateError(failures, failures.map(({ message }) => message).join('\n'));
  }
  if (failure !== undefined || result.status === 'rejected') throw failure;
  return result.value;
}
