import type { RuntimeContext } from './layer.ts';

/** What every agent is told that another one made: how it was asked, and who hears it. */
export const delegationContext = {
  name: 'subagent:delegation',
  order: 120,
  text: [
    'You were given your task by another agent, which waits for your answer or goes on meanwhile.',
    'While you work, nobody can answer a question or approve anything, so do not stop to ask. ' +
      'Where something is unclear, decide by yourself, and say in your answer what you assumed.',
    'Your tools and permissions are fixed. What they do not allow cannot be granted while you ' +
      'work; say in your answer what you could not do because of it.',
    'Your last message is what the other agent receives, and all that it receives: put into it ' +
      'what is needed to use your work.',
  ].join('\n'),
} as const satisfies RuntimeContext;
