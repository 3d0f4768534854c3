/** `subagents run`: one task for one root. */
import type { RunArguments } from '../args/run.ts';
import type { Call } from '../call.ts';
import { planRun } from '../input.ts';
import { runShown } from '../run-shown.ts';

export async function runVerb(
  given: RunArguments,
  { streams, surroundings, signal }: Call,
): Promise<number> {
  const plan = await planRun(given, surroundings, signal);
  const { exitCode } = await runShown(plan, given, streams, surroundings, signal);
  return exitCode;
}
