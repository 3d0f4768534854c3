import type {
  SessionEvent,
  SessionEventMap,
  SessionEventType,
  SurfaceEventType,
} from '../../protocol/session-events.ts';

/** The closed table: a log that holds another type is from a reader this one does not know. */
const TYPES: Readonly<Record<SessionEventType, true>> = {
  'turn/start': true,
  'turn/end': true,
  'step/start': true,
  'step/end': true,
  'user/message': true,
  'assistant/chunk': true,
  'assistant/message': true,
  'tool/call': true,
  'tool/result': true,
  'request/header': true,
  'request/context': true,
  'session/end-seed': true,
  'agent/inbox/spliced': true,
  'subagent/descriptor': true,
  'llm/retry': true,
  'llm/retry-started': true,
};

export function isSessionEventType(type: unknown): type is SessionEventType {
  return typeof type === 'string' && Object.hasOwn(TYPES, type);
}

export function isSurfaceType(type: SessionEventType): type is SurfaceEventType {
  return type === 'user/message' || type === 'assistant/message' || type === 'tool/result';
}

/** What keeps this payload from being of its type, as far as history depends on it. */
export function shapeProblem(type: SessionEventType, data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    return 'its data is not an object';
  }
  switch (type) {
    case 'user/message':
      return messageProblem(data, 'user');
    case 'assistant/message': {
      const { message } = data as Partial<SessionEventMap['assistant/message']>;
      const source = message?.source as { kind?: unknown; provider?: unknown } | undefined;
      return (
        messageProblem(message, 'assistant') ??
        (source?.kind === 'model' && isText(source.provider)
          ? undefined
          : 'its source is not a model of a named provider')
      );
    }
    case 'tool/result': {
      const { message } = data as Partial<SessionEventMap['tool/result']>;
      const problem = messageProblem(message, 'user');
      if (problem !== undefined) return problem;
      const [block, ...others] = message?.content ?? [];
      if (block?.type !== 'tool-result' || others.length > 0) {
        return 'its message does not hold exactly one tool result';
      }
      return message?.source.kind === 'tool' && message.source.callId === block.toolCallId
        ? undefined
        : 'its source names another call than its content';
    }
    case 'request/header': {
      const config = (data as Partial<SessionEventMap['request/header']>).header?.config;
      return typeof config?.provider === 'string' && typeof config.model === 'string'
        ? undefined
        : 'its header names no provider and model';
    }
    default:
      return undefined;
  }
}

/** What keeps these from being the sources of event number `seq`. */
export function sourcesProblem(
  type: SurfaceEventType,
  sources: readonly number[],
  seq: number,
): string | undefined {
  if (sources.length === 0 && type !== 'assistant/message') return 'it cites no source';
  let highest = -1;
  let isSorted = true;
  for (const source of sources) {
    if (!Number.isSafeInteger(source) || source < 0 || source >= seq) {
      return `it cites ${String(source)}, which is no earlier event`;
    }
    if (source <= highest) isSorted = false;
    highest = source;
  }
  if (!isSorted && new Set(sources).size !== sources.length) return 'it cites an event twice';
  return undefined;
}

const ENVELOPE = new Set(['type', 'seq', 'time', 'data', 'surfaceOp', 'sourceEventSeqs']);

/** What keeps event number `seq` of a given log from being one, its data aside. */
export function envelopeProblem(event: SessionEvent, seq: number): string | undefined {
  if (typeof event !== 'object' || event === null) return 'it is no object';
  if (!isSessionEventType(event.type)) return `its type \`${String(event.type)}\` is unknown`;
  const unknown = Object.keys(event).find((key) => !ENVELOPE.has(key));
  if (unknown !== undefined) return `it has the unknown key \`${unknown}\``;
  if (event.seq !== seq) return `its seq is ${String(event.seq)}`;
  if (!Number.isSafeInteger(event.time) || event.time < 0) return 'its time is no timestamp';
  const { surfaceOp, sourceEventSeqs } = event as {
    surfaceOp?: unknown;
    sourceEventSeqs?: unknown;
  };
  if (isSurfaceType(event.type)) {
    if (surfaceOp !== 'append') return 'it does not say how it joins the history';
    if (sourceEventSeqs === undefined) return undefined;
    if (!Array.isArray(sourceEventSeqs)) return 'its sources are no list';
    return sourcesProblem(event.type, sourceEventSeqs as number[], seq);
  }
  return surfaceOp === undefined && sourceEventSeqs === undefined
    ? undefined
    : 'it cannot join the history';
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

function messageProblem(message: unknown, role: 'user' | 'assistant'): string | undefined {
  if (typeof message !== 'object' || message === null) return 'it holds no message';
  const { id, role: given, content, source } = message as Record<string, unknown>;
  if (given !== role) return `its message is not of role ${role}`;
  if (!isText(id)) return 'its message has no id';
  if (!Array.isArray(content)) return 'its message has no list of content';
  if (!isText((source as { kind?: unknown } | null | undefined)?.kind)) {
    return 'its message has no source';
  }
  return noticeProblem(source as Record<string, unknown>);
}

/** Older logs have notices without either. */
function noticeProblem({
  kind,
  stopReason,
  waiting,
  jobId,
}: Record<string, unknown>): string | undefined {
  if (kind === 'job-settled') return isText(jobId) ? undefined : 'its notice names no job';
  if (kind !== 'subagent-settled') return undefined;
  if (stopReason !== undefined && !isText(stopReason)) return 'its notice gives no reason as one';
  return waiting === undefined || (Number.isSafeInteger(waiting) && (waiting as number) >= 0)
    ? undefined
    : 'its notice counts no number of messages';
}
