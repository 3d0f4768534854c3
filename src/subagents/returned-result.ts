/** Reads what the result of a run came to. It may be anything, and its accessors may throw. */
import type { ContentBlock } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { losslessCopy } from '../../protocol/json.ts';
import { createUserMessage } from '../agent/agent.ts';
import { boundDiagnostic } from './diagnostic.ts';
import type { SubagentResult, SubagentStopReason } from './provider.ts';

/** Of one result, above what an answer of a model has; a few objects can stand for any number. */
const MAX_VALUES = 500_000;

/**
 * A result that shares nothing with what was given. What is none becomes an `error` whose
 * diagnostic says why, with the output if that can be read. Never throws.
 */
export function readResult(given: unknown): SubagentResult {
  const budget = { left: MAX_VALUES };
  let problem: string | undefined;
  const read = <T>(key: keyof SubagentResult, what: string, take: (value: unknown) => T) => {
    try {
      return take((given as SubagentResult | null | undefined)?.[key]);
    } catch {
      problem ??= `its ${key} is no ${what}`;
      return undefined;
    }
  };
  const stopReason = read('stopReason', 'text', (value) => {
    if (value === '') throw new ArgumentError('It is empty.');
    return textIn(value);
  });
  const taken = read('output', 'list of content blocks', (value) => {
    if (!Array.isArray(value)) throw new ArgumentError('It is no list.');
    return createUserMessage(losslessCopy(value, budget) as unknown as ContentBlock[]).content;
  });
  const structured = read('structured', 'JSON data', (value) =>
    value === undefined ? undefined : losslessCopy(value, budget),
  );
  const said = read('diagnostic', 'text', (value) =>
    value === undefined ? undefined : boundDiagnostic(textIn(value)),
  );
  const output = [...(taken ?? [])];
  if (problem !== undefined) {
    const why = `INVALID_ARGUMENT: The provider gave what is no result: ${problem}.`;
    const diagnostic = boundDiagnostic(said === undefined ? why : `${why} It said: ${said}`);
    return { output, stopReason: 'error', diagnostic };
  }
  return {
    output,
    ...(structured === undefined ? {} : { structured }),
    // Open: one that is not known here is a failure to whoever reads it.
    stopReason: stopReason as SubagentStopReason,
    ...(said === undefined ? {} : { diagnostic: said }),
  };
}

/** @throws {ArgumentError} */
function textIn(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new ArgumentError('It is no text.');
}
