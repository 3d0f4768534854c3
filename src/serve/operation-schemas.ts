import type { JsonObject } from '../../protocol/json.ts';
import type { SchemaOf } from '../../protocol/schemas.ts';
import type { OperationName, OperationParams } from './operation-map.ts';

const TEXT: JsonObject = { type: 'string' };
const COUNT: JsonObject = { type: 'integer' };
const FLAG: JsonObject = { type: 'boolean' };
const ONE_SESSION = {
  type: 'object',
  properties: { sessionId: TEXT },
  required: ['sessionId'],
  additionalProperties: false,
} as const;
const MAYBE_ROOT = {
  type: 'object',
  properties: { rootId: TEXT },
  required: [],
  additionalProperties: false,
} as const;
const NOTHING = {
  type: 'object',
  properties: {},
  required: [],
  additionalProperties: false,
} as const;

/** The shape of the parameters; how large a number may be, the operation itself says. */
export const operationSchemas = {
  initialize: {
    type: 'object',
    properties: {
      protocolVersion: COUNT,
      cwd: TEXT,
      provider: TEXT,
      model: TEXT,
      maxTokens: COUNT,
    },
    required: [],
    additionalProperties: false,
  },
  'session/prompt': {
    type: 'object',
    properties: {
      sessionId: TEXT,
      contentBlocks: { type: 'array', items: { type: 'object' } },
    },
    required: ['sessionId', 'contentBlocks'],
    additionalProperties: false,
  },
  'session/cancel': ONE_SESSION,
  'session/send': {
    type: 'object',
    properties: { sessionId: TEXT, text: TEXT },
    required: ['sessionId', 'text'],
    additionalProperties: false,
  },
  'session/interrupt': ONE_SESSION,
  'session/drain': ONE_SESSION,
  'session/close': ONE_SESSION,
  'session/list': MAYBE_ROOT,
  'session/find': ONE_SESSION,
  'session/read': {
    type: 'object',
    properties: { sessionId: TEXT, from: COUNT, limit: COUNT },
    required: ['sessionId'],
    additionalProperties: false,
  },
  'session/follow': {
    type: 'object',
    properties: { sessionId: TEXT, from: COUNT, forever: FLAG },
    required: ['sessionId'],
    additionalProperties: false,
  },
  'session/unfollow': {
    type: 'object',
    properties: { followId: TEXT },
    required: ['followId'],
    additionalProperties: false,
  },
  'tree/watch': MAYBE_ROOT,
  'tree/unwatch': {
    type: 'object',
    properties: { watchId: TEXT },
    required: ['watchId'],
    additionalProperties: false,
  },
  metrics: NOTHING,
  shutdown: NOTHING,
} as const satisfies { readonly [M in OperationName]: SchemaOf<OperationParams<M>> };
