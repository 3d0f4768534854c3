import { textOf } from '../../protocol/content.ts';
import type { ContentBlock } from '../../protocol/content.ts';
import type { SubagentResult } from './provider.ts';

const HEADLINES: Readonly<Record<string, string>> = {
  aborted: 'The subagent was stopped before it finished.',
  error: 'The subagent failed before it finished.',
  'max-tokens': 'The subagent ran out of output tokens before it finished.',
  refusal: 'The subagent declined the task.',
};

/** What a model reads of a completed run. */
export function answerText({
  output,
  structured,
}: {
  readonly output: readonly ContentBlock[];
  readonly structured?: unknown;
}): string {
  const text = structured === undefined ? textOf(output) : JSON.stringify(structured);
  return text === '' ? '(The subagent finished without a text.)' : text;
}

/** What a model needs to decide what to do instead: the reason, the cause, what there is. */
export function explainResult({ stopReason, diagnostic, output }: SubagentResult): string {
  const headline = Object.hasOwn(HEADLINES, stopReason)
    ? HEADLINES[stopReason]
    : `The subagent ended abnormally (${stopReason}) before it finished.`;
  const partial = textOf(output);
  return [
    headline,
    ...(diagnostic === undefined ? [] : [`Diagnostic: ${diagnostic}`]),
    ...(partial === '' ? [] : [`Partial output:\n${partial}`]),
  ].join('\n');
}
