/** Reads what a caller gives as a request: each part of it once, so that nothing can change after it was checked. */
import type { ContentBlock } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { losslessCopy } from '../../protocol/json.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import type { SubagentStartRequest } from './provider.ts';

const REQUEST = {
  label: 'any',
  prompt: 'any',
  parent: 'any',
  signal: 'signal',
  agentOptions: 'object',
  outputSchema: 'any',
  maxDepth: 'any',
  toolFilter: 'object',
  persona: 'text',
  limits: 'object',
} as const satisfies Record<keyof SubagentStartRequest, OptionKind>;

/** Below what a log can hold of one message, and above what anyone tells a child. */
const MAX_PROMPT_VALUES = 100_000;
const MAX_NAMES = 10_000;

/**
 * A request of its own: the fields, and those of its `agentOptions`, `toolFilter` and `limits`.
 * `prompt` and `outputSchema` are still the caller's: whoever checks them copies them.
 *
 * @throws {ArgumentError} for a field that does not exist, is of another kind, or cannot be read.
 */
export function readRequest(given: SubagentStartRequest): SubagentStartRequest {
  const fields = copied('A start request', given);
  assertOptions('a start request', fields, REQUEST);
  const { agentOptions, toolFilter, limits } = fields;
  return {
    ...fields,
    ...(agentOptions === undefined ? {} : { agentOptions: copied('"agentOptions"', agentOptions) }),
    ...(toolFilter === undefined ? {} : { toolFilter: copiedLists('"toolFilter"', toolFilter) }),
    ...(limits === undefined ? {} : { limits: copied('"limits"', limits) }),
  };
}

/** @throws {ArgumentError} unless it is a text, or a list of JSON data. */
export function copyOfPrompt(prompt: unknown): ContentBlock[] {
  if (typeof prompt === 'string') return [{ type: 'text', text: prompt }];
  const [isList, copy] = reading('The prompt of a start request', () => {
    // Nothing else is copied: it would be refused for less than what is wrong with it.
    if (!Array.isArray(prompt)) return [false, undefined];
    return [true, losslessCopy(prompt, { left: MAX_PROMPT_VALUES })];
  });
  if (!isList) {
    throw new ArgumentError(
      'Cannot start a child: its prompt is no text and no list of content blocks.',
    );
  }
  return copy as unknown as ContentBlock[];
}

function copied<T>(what: string, value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  return reading(what, () => ({ ...value }));
}

/** Whatever the lists hold: whoever applies the filter says what is wrong with it. */
function copiedLists<T extends object>(what: string, filter: T): T {
  return reading(what, () => {
    const copies = Object.entries(filter).map(([key, list]: [string, unknown]) => {
      if (!Array.isArray(list)) return [key, list];
      if (list.length > MAX_NAMES) throw new ArgumentError(`${what} has too many names.`);
      return [key, [...(list as unknown[])]];
    });
    return Object.fromEntries(copies) as T;
  });
}

/** What an accessor or a trap of the caller throws is the cause, and not what is told. */
function reading<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof ArgumentError) throw error;
    throw new ArgumentError(`${what} cannot be read, or is not JSON data.`, { cause: error });
  }
}
