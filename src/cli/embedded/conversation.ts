import type { ContentBlock, Message, ModelRequest } from '../../index.ts';

/** A call the model has made since its task was given, and what came back. */
export interface PastCall {
  readonly name: string;
  readonly arguments: string;
  readonly result?: { readonly text: string; readonly isError: boolean };
}

/** What a request says: the task, the tools at hand, and what was done about the task so far. */
export interface Conversation {
  readonly task: string;
  readonly tools: ReadonlySet<string>;
  readonly calls: readonly PastCall[];
}

/** Read a request. Only what followed the latest task counts. */
export function readConversation(request: ModelRequest): Conversation {
  const start = request.messages.findLastIndex(isTask);
  const task = request.messages[start];
  const since = request.messages.slice(start + 1);
  const results = new Map(
    since.flatMap((message) =>
      message.content.flatMap((block) =>
        block.type === 'tool-result'
          ? [[block.toolCallId, { text: textIn(block.content), isError: block.isError === true }]]
          : [],
      ),
    ) as [string, NonNullable<PastCall['result']>][],
  );
  const calls = since.flatMap((message) =>
    message.content.flatMap((block) => {
      if (block.type !== 'tool-call') return [];
      const result = results.get(block.id);
      return [
        {
          name: block.name,
          arguments: block.arguments,
          ...(result === undefined ? {} : { result }),
        },
      ];
    }),
  );
  return {
    task: task === undefined ? '' : textIn(task.content),
    tools: new Set((request.tools ?? []).map((tool) => tool.name)),
    calls,
  };
}

/** A message that gives work: from a person or another agent, and no tool's result or context. */
function isTask(message: Message): boolean {
  return (
    message.role === 'user' &&
    (message.source.kind === 'user' || message.source.kind === 'coordinator')
  );
}

function textIn(content: readonly ContentBlock[]): string {
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}
