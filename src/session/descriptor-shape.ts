import { toErrorRecord } from '../../protocol/error-record.ts';
import { checkAgentLimits } from '../base/limit-values.ts';
import type { Fields } from './message-shape.ts';
import { isFields } from './message-shape.ts';

/** The version this runtime writes, and the only one it reads. */
export const DESCRIPTOR_VERSION = 1;

const KEYS = {
  'one-shot': ['version', 'mode', 'provider', 'label'],
  continuable: [
    'version',
    'mode',
    'provider',
    'label',
    'agentProvider',
    'agentModel',
    'maxTokens',
    'persona',
    'toolFilter',
    'limits',
  ],
} as const;

/** The first field of a descriptor that is wrong. Another version is not ours to judge. */
export function descriptorProblem(payload: Fields): string | undefined {
  const { version, mode } = payload;
  if (typeof version !== 'number') return 'needs a numeric version';
  if (version !== DESCRIPTOR_VERSION) return undefined;
  if (mode !== 'one-shot' && mode !== 'continuable') return 'has an unknown mode';
  const known: readonly string[] = KEYS[mode];
  const stranger = Reflect.ownKeys(payload).find((key) => !known.includes(key as string));
  if (stranger !== undefined) return `has an unknown key "${String(stranger)}"`;
  const isContinuable = mode === 'continuable';
  return (
    textProblem(payload, 'provider', true) ??
    textProblem(payload, 'label', isContinuable) ??
    textProblem(payload, 'agentProvider', false) ??
    textProblem(payload, 'agentModel', false) ??
    textProblem(payload, 'persona', false) ??
    (Object.hasOwn(payload, 'maxTokens') ? maxTokensProblem(payload['maxTokens']) : undefined) ??
    (Object.hasOwn(payload, 'toolFilter') ? toolFilterProblem(payload['toolFilter']) : undefined) ??
    (Object.hasOwn(payload, 'limits') ? limitsProblem(payload['limits']) : undefined)
  );
}

function textProblem(payload: Fields, key: string, isRequired: boolean): string | undefined {
  const value = payload[key];
  if (typeof value === 'string' || (!isRequired && !Object.hasOwn(payload, key))) return undefined;
  return `needs a string as ${key}`;
}

const maxTokensProblem = (value: unknown): string | undefined =>
  Number.isSafeInteger(value) && (value as number) > 0
    ? undefined
    : 'needs a positive safe integer as maxTokens';

function toolFilterProblem(value: unknown): string | undefined {
  if (!isFields(value)) return 'needs an object as toolFilter';
  const lists = Reflect.ownKeys(value) as readonly string[];
  for (const key of lists) {
    if (key !== 'allow' && key !== 'deny') {
      return `has an unknown key "${String(key)}" in toolFilter`;
    }
    const list = value[key];
    if (!Array.isArray(list) || !list.every((name) => typeof name === 'string')) {
      return `needs a list of names as toolFilter.${key}`;
    }
  }
  return lists.length === 0 ? 'needs a list in toolFilter' : undefined;
}

/** A thread is made with them: what no caller could give is none. */
function limitsProblem(value: unknown): string | undefined {
  if (!isFields(value)) return 'needs an object as limits';
  if (Object.keys(value).length === 0) return 'needs a limit in limits';
  try {
    checkAgentLimits(value);
  } catch (error) {
    return `has limits that are none: ${toErrorRecord(error).message.replace(/\.$/u, '')}`;
  }
  return undefined;
}
