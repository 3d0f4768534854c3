/**
 * What a delegated agent is told about its standing. It is context for one conversation, not a
 * section of the system prompt, so that a child is asked exactly as its parent would be.
 */
export const DELEGATION_CONTEXT = {
  name: 'subagent:delegation',
  text: [
    'You are working on a task that another agent delegated to you.',
    'Your tools and permissions were fixed when you were started and do not grow while you run;',
    'a request for approval is refused without being shown to anyone.',
    'If something you need is not permitted, do what you can without it and say what is missing.',
  ].join(' '),
} as const;
