/** What keeps values from being what models read and wrote, as far as readers depend on it. */

export type Fields = Readonly<Record<string, unknown>>;

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isText = (value: unknown): value is string =>
  typeof value === 'string' && value !== '';

export const isCount = (value: unknown): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0;

export function messageProblem(message: unknown, role: 'user' | 'assistant'): string | undefined {
  if (!isFields(message)) return 'it holds no message';
  const { id, role: given, content, source } = message;
  if (given !== role) return `its message is not of role ${role}`;
  if (!isText(id)) return 'its message has no id';
  if (!Array.isArray(content)) return 'its message has no list of content';
  const problem = contentProblem(content);
  if (problem !== undefined) return problem;
  if (!isFields(source) || !isText(source['kind'])) return 'its message has no source';
  return noticeProblem(source);
}

function contentProblem(content: readonly unknown[]): string | undefined {
  for (const block of content) {
    const problem = blockProblem(block);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Kinds that are not known here are let through: whoever reads them decides. */
function blockProblem(block: unknown): string | undefined {
  if (!isFields(block) || !isText(block['type'])) return 'its content has what is no block';
  switch (block['type']) {
    case 'text':
    case 'reasoning':
      return typeof block['text'] === 'string' ? undefined : 'a block of its content has no text';
    case 'tool-call':
      return isText(block['id']) &&
        typeof block['name'] === 'string' &&
        typeof block['arguments'] === 'string'
        ? undefined
        : 'a call in its content has no id, name or arguments';
    case 'tool-result': {
      const { toolCallId, content } = block;
      if (!isText(toolCallId)) return 'a result in its content names no call';
      if (!Array.isArray(content)) return 'a result in its content has no list of content';
      return contentProblem(content);
    }
    default:
      return undefined;
  }
}

/** Older logs have notices without a stop reason and without a count of what waits. */
function noticeProblem(source: Fields): string | undefined {
  if (source['kind'] === 'job-settled') {
    return isText(source['jobId']) ? undefined : 'its notice names no job';
  }
  if (source['kind'] !== 'subagent-settled') return undefined;
  const { senderSessionId, turn, stopReason, waiting } = source;
  if (!isText(senderSessionId) || !isCount(turn)) return 'its notice names no turn of a child';
  if (stopReason !== undefined && !isText(stopReason)) return 'its notice gives no reason as one';
  return waiting === undefined || isCount(waiting)
    ? undefined
    : 'its notice counts no number of messages';
}
