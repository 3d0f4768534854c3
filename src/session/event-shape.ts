import type {
  SessionEvent,
  SessionEventType,
  SurfaceEventType,
} from '../../protocol/session-events.ts';
import type { Fields } from './message-shape.ts';
import { descriptorProblem } from './descriptor-shape.ts';
import { isCount, isFields, isText, messageProblem } from './message-shape.ts';

export function isSessionEventType(type: unknown): type is SessionEventType {
  return typeof type === 'string' && Object.hasOwn(SHAPES, type);
}

export function isSurfaceType(type: SessionEventType): type is SurfaceEventType {
  return type === 'user/message' || type === 'assistant/message' || type === 'tool/result';
}

/**
 * What keeps this payload from being of its type, as far as what reads logs depends on it. One
 * check for what is appended, imported, exported, loaded and checked: they agree on every log.
 */
export function shapeProblem(type: SessionEventType, data: unknown): string | undefined {
  return isFields(data) ? SHAPES[type](data) : 'its data is not an object';
}

type Shape = (data: Fields) => string | undefined;

/** Where the turn and the step are, and which, is for the brackets to say. */
const NOTHING_MORE: Shape = () => undefined;

/** The closed table: a log that holds another type is from a reader this one does not know. */
const SHAPES: Readonly<Record<SessionEventType, Shape>> = {
  'turn/start': NOTHING_MORE,
  'turn/end': ({ reason }) => reasonProblem(reason),
  'step/start': NOTHING_MORE,
  'step/end': NOTHING_MORE,
  'user/message': (data) => messageProblem(data, 'user'),
  'assistant/chunk': ({ chunk }) => {
    if (!isFields(chunk) || !isText(chunk['type'])) return 'it holds no part of an answer';
    const { type, text } = chunk;
    return (type !== 'text-delta' && type !== 'reasoning-delta') || typeof text === 'string'
      ? undefined
      : 'its part has no text';
  },
  'assistant/message': ({ message, usage }) => {
    const problem = messageProblem(message, 'assistant');
    if (problem !== undefined) return problem;
    const { kind, provider } = (message as { source: Fields }).source;
    if (kind !== 'model' || !isText(provider))
      return 'its source is not a model of a named provider';
    return usage === undefined || isUsage(usage) ? undefined : 'its usage counts no tokens';
  },
  'tool/call': ({ callId, name, arguments: given }) =>
    isText(callId) && typeof name === 'string' && typeof given === 'string'
      ? undefined
      : 'its call has no id, name or arguments',
  'tool/result': ({ message, error }) => {
    const problem = messageProblem(message, 'user');
    if (problem !== undefined) return problem;
    const { content, source } = message as { content: readonly Fields[]; source: Fields };
    const [block, ...others] = content;
    if (block?.['type'] !== 'tool-result' || others.length > 0) {
      return 'its message does not hold exactly one tool result';
    }
    if (source['kind'] !== 'tool' || source['callId'] !== block['toolCallId']) {
      return 'its source names another call than its content';
    }
    return error === undefined || (isFields(error) && isText(error['code']))
      ? undefined
      : 'its error has no code';
  },
  'request/header': ({ header }) => {
    const { config, system, tools } = isFields(header) ? header : {};
    if (!isModel(config)) return 'its header names no provider and model';
    if (system !== undefined && typeof system !== 'string')
      return 'its header has no text as system';
    return tools === undefined || (Array.isArray(tools) && tools.every(isTool))
      ? undefined
      : 'its header has no list of named tools';
  },
  'request/context': (data) => (isModel(data) ? undefined : 'it names no provider and model'),
  'session/end-seed': NOTHING_MORE,
  'agent/inbox/spliced': spliceProblem,
  'subagent/descriptor': (data) => {
    const problem = descriptorProblem(data);
    return problem === undefined ? undefined : `its descriptor ${problem}`;
  },
  'llm/retry': ({ retryId, retry, maxRetries, delayMs, failure }) =>
    isText(retryId) && [retry, maxRetries, delayMs].every(isNumber)
      ? failureProblem(failure)
      : 'it says of no retry which and when it is',
  'llm/retry-started': ({ retryId, retry }) =>
    isText(retryId) && isNumber(retry) ? undefined : 'it says of no retry which it is',
};

/** Open for new kinds, which are failures. */
function reasonProblem(reason: unknown): string | undefined {
  if (!isFields(reason) || !isText(reason['kind'])) return 'its reason is none';
  switch (reason['kind']) {
    case 'aborted': {
      const { reason: cause } = reason;
      return isFields(cause) && isText(cause['kind']) ? undefined : 'its reason names no cause';
    }
    case 'error':
      return failureProblem(reason['error']);
    case 'blocked':
      return reason['reason'] === undefined || typeof reason['reason'] === 'string'
        ? undefined
        : 'its reason has no text';
    default:
      return undefined;
  }
}

const failureProblem = (failure: unknown): string | undefined =>
  isFields(failure) && isText(failure['code']) && typeof failure['message'] === 'string'
    ? undefined
    : 'its failure has no code and message';

function spliceProblem({
  target,
  start,
  removedCount = 0,
  inserted,
  outcome,
}: Fields): string | undefined {
  if (target !== 'next-turn' && target !== 'next-step') return 'it names no list of an inbox';
  if (!isCount(start) || !isCount(removedCount)) return 'it names no place in an inbox';
  if (!Array.isArray(inserted)) return 'it has no list of what it puts into an inbox';
  if (outcome !== undefined && outcome !== 'canceled') return 'its outcome is unknown';
  for (const message of inserted as readonly unknown[]) {
    const problem = messageProblem(message, 'user');
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const isNumber = (value: unknown): boolean => typeof value === 'number';
const isModel = (value: unknown): boolean =>
  isFields(value) && typeof value['provider'] === 'string' && typeof value['model'] === 'string';
const isTool = (value: unknown): boolean => isFields(value) && isText(value['name']);
const isUsage = (value: unknown): boolean =>
  isFields(value) && isNumber(value['inputTokens']) && isNumber(value['outputTokens']);

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
