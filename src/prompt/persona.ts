import type { PromptSection } from './prompt.ts';

/**
 * Who an agent is told it is. The harness has one persona for all its agents; that of a child
 * stands under the same name in the child's own layer and hides it, even when it is empty.
 */
export function personaSection(persona: string): PromptSection {
  return { name: 'deployment:persona', order: 0, text: persona };
}
