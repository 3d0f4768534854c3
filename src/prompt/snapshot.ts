import type { ContentBlock, Message, MessageSource } from '../../protocol/content.ts';

/** One runtime context, rendered. */
export interface ContextSection {
  readonly name: string;
  readonly text: string;
}

const HEADING =
  'This is context from the runtime that you work in, not a request of the user. ' +
  'It applies from here on and replaces all earlier context of this kind.';
const NONE =
  'This is a note from the runtime that you work in, not a request of the user. ' +
  'The runtime context that was given earlier no longer applies, and nothing replaces it.';

/**
 * What to tell the model of its runtime context before the next step: the whole of it when it is
 * not what `history` told last, `undefined` when there is nothing new to say. That it has become
 * empty is news once. Compared part by part: that the words around the parts change is no news.
 */
export function contextSnapshot(
  history: readonly Message[],
  contexts: readonly ContextSection[],
): { content: ContentBlock[]; source: MessageSource } | undefined {
  const sections = contexts.map(({ name, text }) => ({ name, text }));
  // A history that tells of no context, and one that told that there is none, say the same.
  if (isSame(lastTold(history) ?? [], sections)) return undefined;
  const text =
    sections.length === 0 ? NONE : [HEADING, ...sections.map((each) => each.text)].join('\n\n');
  return {
    content: [{ type: 'text', text }],
    source: { kind: 'plugin', plugin: 'prompt', form: 'snapshot', sections },
  };
}

function lastTold(history: readonly Message[]): readonly ContextSection[] | undefined {
  for (let at = history.length - 1; at >= 0; at -= 1) {
    const source = history[at]?.source;
    if (source?.kind !== 'plugin' || source.plugin !== 'prompt') continue;
    // A log of elsewhere may hold one without its parts: it is not known what that told.
    if (source.form === 'snapshot' && Array.isArray(source.sections)) return source.sections;
  }
  return undefined;
}

function isSame(told: readonly ContextSection[], now: readonly ContextSection[]): boolean {
  return (
    told.length === now.length &&
    now.every(({ name, text }, at) => told[at]?.name === name && told[at]?.text === text)
  );
}
