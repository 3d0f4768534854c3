import { ERROR_CAUSES, ERROR_MESSAGE_CHARS, ERROR_STACK_CHARS } from './error-record.ts';
import type { HostServiceName } from './host-services.ts';
import type { JsonObject } from './json.ts';
import type { RetryPolicy } from './model.ts';
import { MAX_FRAME_EVENTS } from './to-main.ts';
import type { ToMainMap, ToMainType, WorkerEventMap, WorkerEventType } from './to-main.ts';

/** Keys of `T` that must be present. */
type RequiredKeys<T> = {
  [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? never : K;
}[keyof T];

/**
 * A schema tied to a payload type: the same keys, the same required keys, leaves free.
 * Renaming a field in the payload map breaks its schema at compile time.
 */
export interface SchemaOf<T> {
  readonly type: 'object';
  readonly properties: { readonly [K in keyof Required<T>]: JsonObject };
  readonly required: readonly RequiredKeys<T>[];
  readonly additionalProperties: false;
}

const TEXT = { type: 'string', maxLength: 1_048_576 } as const;
const NAME = { type: 'string', minLength: 1, maxLength: 256 } as const;
const COUNT = { type: 'integer', minimum: 0 } as const;
const NUMBERED = { type: 'integer', minimum: 1, maximum: 0x0fff_fffe } as const;
const ANY_OBJECT = { type: 'object' } as const;

/** Of words of ours and of a provider's, both cut before. */
const FAILURE_MESSAGE_CHARS = 16_384;
const failure = {
  type: 'object',
  properties: {
    message: { type: 'string', maxLength: FAILURE_MESSAGE_CHARS },
    code: NAME,
    status: { type: 'integer', minimum: 100, maximum: 599 },
    providerRetryAfterMs: { type: 'number', exclusiveMinimum: 0 },
    requestId: NAME,
  },
  required: ['message', 'code'],
  additionalProperties: false,
} as const;

/** As `toErrorRecord` makes it: bounded, with so many causes below it. */
function errorRecordWith(causes: number): JsonObject {
  return {
    type: 'object',
    properties: {
      name: NAME,
      code: NAME,
      message: { type: 'string', maxLength: ERROR_MESSAGE_CHARS },
      stack: { type: 'string', maxLength: ERROR_STACK_CHARS },
      ...(causes === 0 ? {} : { cause: errorRecordWith(causes - 1) }),
    },
    required: ['name', 'code', 'message'],
    additionalProperties: false,
  };
}
const errorRecord = errorRecordWith(ERROR_CAUSES);

/** A reason of one of some kinds that say it all, or of one of those that come with `why`. */
function kindOf(
  bare: readonly string[],
  explained: readonly string[],
  why: { readonly [key: string]: JsonObject },
): JsonObject {
  return {
    type: 'object',
    oneOf: [
      {
        properties: { kind: { enum: bare } },
        required: ['kind'],
        additionalProperties: false,
      },
      {
        properties: { kind: { enum: explained }, ...why },
        required: ['kind', ...Object.keys(why)],
        additionalProperties: false,
      },
    ],
  };
}

const usage = {
  type: 'object',
  properties: {
    inputTokens: COUNT,
    outputTokens: COUNT,
    cacheReadTokens: COUNT,
    cacheWriteTokens: COUNT,
    reasoningTokens: COUNT,
  },
  required: ['inputTokens', 'outputTokens'],
  additionalProperties: false,
} as const;

const content = {
  type: 'array',
  maxItems: 10_000,
  items: {
    type: 'object',
    oneOf: [
      {
        properties: { type: { const: 'text' }, text: TEXT },
        required: ['type', 'text'],
        additionalProperties: false,
      },
      {
        properties: { type: { const: 'reasoning' }, text: TEXT },
        required: ['type', 'text'],
        additionalProperties: false,
      },
      {
        properties: { type: { const: 'tool-call' }, id: NAME, name: NAME, arguments: TEXT },
        required: ['type', 'id', 'name', 'arguments'],
        additionalProperties: false,
      },
    ],
  },
} as const;

const part = {
  type: 'object',
  required: ['type'],
  oneOf: [
    {
      properties: {
        type: { const: 'block-start' },
        index: COUNT,
        blockType: { enum: ['text', 'reasoning', 'tool-call'] },
      },
      required: ['index', 'blockType'],
      additionalProperties: false,
    },
    {
      properties: { type: { enum: ['text-delta', 'reasoning-delta'] }, index: COUNT, text: TEXT },
      required: ['index', 'text'],
      additionalProperties: false,
    },
    {
      properties: {
        type: { const: 'tool-call-delta' },
        index: COUNT,
        id: NAME,
        name: NAME,
        argumentsDelta: TEXT,
      },
      required: ['index', 'id', 'argumentsDelta'],
      additionalProperties: false,
    },
    {
      properties: { type: { const: 'block-end' }, index: COUNT, block: content.items },
      required: ['index', 'block'],
      additionalProperties: false,
    },
    {
      properties: { type: { const: 'usage' }, usage },
      required: ['usage'],
      additionalProperties: false,
    },
    {
      properties: {
        type: { const: 'finish' },
        reason: kindOf(['stop', 'tool-calls', 'max-tokens'], ['aborted', 'error'], { failure }),
        replayState: {},
      },
      required: ['reason'],
      additionalProperties: false,
    },
  ],
} as const;

const userMessage = {
  type: 'object',
  properties: { id: NAME, role: { const: 'user' }, content, source: ANY_OBJECT },
  required: ['id', 'role', 'content', 'source'],
  additionalProperties: false,
} as const;

const assistantMessage = {
  type: 'object',
  properties: {
    id: NAME,
    role: { const: 'assistant' },
    content,
    source: {
      type: 'object',
      properties: { kind: { const: 'model' }, provider: NAME, model: TEXT, replayState: {} },
      required: ['kind', 'provider', 'model'],
      additionalProperties: false,
    },
  },
  required: ['id', 'role', 'content', 'source'],
  additionalProperties: false,
} as const;

const toolSpec = {
  type: 'object',
  properties: {
    name: { type: 'string', pattern: '^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$' },
    description: { type: 'string', maxLength: 65_536 },
    parameters: ANY_OBJECT,
  },
  required: ['name', 'description', 'parameters'],
  additionalProperties: false,
} as const;

const retryPolicy = {
  type: 'object',
  properties: {
    maxRetries: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    retryableCodes: { type: 'array', maxItems: 1_000, items: TEXT },
    initialDelayMs: { type: 'number', minimum: 0 },
    maxDelayMs: { type: 'number', minimum: 0 },
    jitterRatio: { type: 'number', minimum: 0, maximum: 1 },
  },
  required: ['maxRetries', 'retryableCodes', 'initialDelayMs', 'maxDelayMs', 'jitterRatio'],
  additionalProperties: false,
} as const satisfies SchemaOf<RetryPolicy>;

const inStep = { turn: NUMBERED, step: NUMBERED } as const;

/** What an event up must look like; the envelope is main's. */
export const workerEventSchemas = {
  'assistant/chunk': {
    type: 'object',
    properties: { ...inStep, stream: NAME, chunk: part },
    required: ['turn', 'step', 'stream', 'chunk'],
    additionalProperties: false,
  },
  'assistant/message': {
    type: 'object',
    properties: {
      ...inStep,
      stream: NAME,
      parts: COUNT,
      message: assistantMessage,
      usage,
      interrupted: { const: true },
    },
    required: ['turn', 'step', 'stream', 'parts', 'message'],
    additionalProperties: false,
  },
  'step/end': {
    type: 'object',
    properties: inStep,
    required: ['turn', 'step'],
    additionalProperties: false,
  },
  'turn/end': {
    type: 'object',
    properties: {
      turn: NUMBERED,
      reason: kindOf(['completed', 'max-tokens', 'blocked', 'aborted'], ['error'], {
        error: failure,
      }),
    },
    required: ['turn', 'reason'],
    additionalProperties: false,
  },
} as const satisfies { readonly [T in WorkerEventType]: SchemaOf<WorkerEventMap[T]> };

/** What a frame up must look like, besides its `type`. */
export const toMainSchemas = {
  up: {
    type: 'object',
    properties: { protocol: COUNT, heapLimitBytes: COUNT, node: NAME, tid: NUMBERED },
    required: ['protocol', 'heapLimitBytes', 'node'],
    additionalProperties: false,
  },
  ready: {
    type: 'object',
    properties: { tools: { type: 'array', maxItems: 1_000, items: toolSpec }, retryPolicy },
    required: ['tools'],
    additionalProperties: false,
  },
  events: {
    type: 'object',
    properties: {
      from: COUNT,
      events: {
        type: 'array',
        minItems: 1,
        maxItems: MAX_FRAME_EVENTS,
        items: {
          type: 'object',
          properties: {
            type: { enum: Object.keys(workerEventSchemas) as unknown as readonly string[] },
            data: ANY_OBJECT,
          },
          required: ['type', 'data'],
          additionalProperties: false,
        },
      },
    },
    required: ['from', 'events'],
    additionalProperties: false,
  },
  call: {
    type: 'object',
    properties: { message: ANY_OBJECT },
    required: ['message'],
    additionalProperties: false,
  },
  ack: {
    type: 'object',
    properties: { taken: COUNT },
    required: ['taken'],
    additionalProperties: false,
  },
  stopped: {
    type: 'object',
    properties: { reason: TEXT },
    required: ['reason'],
    additionalProperties: false,
  },
  fault: {
    type: 'object',
    properties: { error: errorRecord, turn: NUMBERED },
    required: ['error'],
    additionalProperties: false,
  },
} as const satisfies { readonly [T in ToMainType]: SchemaOf<ToMainMap[T]> };

/** The arguments of each call, as one tuple. */
export const callArgumentSchemas: { readonly [N in HostServiceName]: JsonObject } = {
  claim: {
    type: 'array',
    prefixItems: [{ enum: ['turn', 'step'] }, { type: 'boolean' }],
    minItems: 2,
    maxItems: 2,
  },
  callTool: {
    type: 'array',
    prefixItems: [
      {
        type: 'object',
        properties: {
          ...inStep,
          callId: NAME,
          name: { type: 'string', maxLength: 256 },
          arguments: TEXT,
          concurrencySafe: { type: 'boolean' },
        },
        required: ['turn', 'step', 'callId', 'name', 'arguments'],
        additionalProperties: false,
      },
    ],
    minItems: 1,
    maxItems: 1,
  },
  finishTool: {
    type: 'array',
    prefixItems: [
      NAME,
      {
        type: 'object',
        required: ['ok'],
        oneOf: [
          {
            properties: {
              ok: { const: true },
              value: {},
              content,
              contexts: { type: 'array', maxItems: 100, items: userMessage },
              concludesTurn: { type: 'boolean' },
            },
            required: ['value', 'content'],
            additionalProperties: false,
          },
          {
            properties: { ok: { const: false }, error: errorRecord },
            required: ['error'],
            additionalProperties: false,
          },
        ],
      },
    ],
    minItems: 2,
    maxItems: 2,
  },
  openModel: {
    type: 'array',
    prefixItems: [
      {
        type: 'object',
        properties: { ...inStep, attempt: NUMBERED },
        required: ['turn', 'step', 'attempt'],
        additionalProperties: false,
      },
    ],
    minItems: 1,
    maxItems: 1,
  },
};
