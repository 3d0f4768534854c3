/** What one call comes to, and the words in which a model is told. */
import type { ContentBlock, UserMessage } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, HarnessError } from '../../protocol/errors.ts';
import type { ToolOutcome } from '../../protocol/host-services.ts';
import { copyDecoded, deepFreeze, frozenCopy, losslessCopy } from '../../protocol/json.ts';
import type { Json, JsonObject } from '../../protocol/json.ts';
import { isPromiseLetGo } from '../base/deferred.ts';
import { NO_OUTPUT } from '../../protocol/tool.ts';
import type { FoundTool } from './definition.ts';

/** The authoritative result of one call. `value` is for observers; it never enters a log. */
export interface ToolResult {
  readonly content: readonly ContentBlock[];
  readonly isError: boolean;
  /** Present when the failure has a code. */
  readonly error?: { readonly name: string; readonly code: string };
  readonly meta?: Json;
  /** Messages to show the model after the step's results; a body's only of a success. */
  readonly contexts: readonly UserMessage[];
  readonly concludesTurn: boolean;
  readonly value?: Json;
}

/** Codes the desk itself gives. A body's own error keeps its own. */
export const TOOL_ERROR_CODES = [
  'UNKNOWN_TOOL',
  'INVALID_ARGS',
  'INVALID_TOOL_OUTPUT',
  'ABORTED_BEFORE_DISPATCH',
  'ABORTED',
  'TOOL_TIMEOUT',
  'TOOL_ABANDONED',
] as const;
export type ToolErrorCode = (typeof TOOL_ERROR_CODES)[number];

/** Problems with one call's arguments that a model is told of at once. */
const SHOWN_PROBLEMS = 10;
/** Nesting of what is shown: far more than anyone shows, and less than a log refuses. */
const MAX_SHOWN_DEPTH = 500;
/** The code of an error record whose error had none. */
const NO_CODE = 'UNKNOWN';

const text = (words: string): readonly ContentBlock[] => [{ type: 'text', text: words }];

function failure(message: string, error?: { name: string; code: string }): ToolResult {
  return deepFreeze({
    content: text(`Error: ${message}`),
    isError: true,
    ...(error === undefined ? {} : { error }),
    contexts: [],
    concludesTurn: false,
  });
}

/** A failure that the desk found. `message` says what the model can do about it. */
export function refusal(code: ToolErrorCode, message: string): ToolResult {
  return failure(message, { name: 'ToolError', code });
}

/** A call that a guard or a hook refused. */
export const denied = (reason: string): ToolResult => failure(reason);

/** What a body threw. An error with a code keeps it; any other has its message only. */
export function thrown(error: unknown): ToolResult {
  return recorded(toErrorRecord(error, NO_CODE));
}

/** What a hook threw: one of our own errors keeps its code, any other has its message only. */
export function hookFailed(error: unknown): ToolResult {
  return error instanceof HarnessError ? thrown(error) : failure(toErrorRecord(error).message);
}

function recorded({ name, code, message }: ErrorRecord): ToolResult {
  return failure(message, code === NO_CODE ? undefined : { name, code });
}

export function invalidArguments(name: string, problems: readonly string[]): ToolResult {
  const shown = problems.slice(0, SHOWN_PROBLEMS).join('; ');
  const more = problems.length - SHOWN_PROBLEMS;
  return refusal(
    'INVALID_ARGS',
    `The arguments of \`${name}\` are not valid: ${shown}` +
      `${more > 0 ? `; and ${more} more` : ''}. Correct them and call the tool again.`,
  );
}

export function aborted(name: string): ToolResult {
  return refusal('ABORTED', `The call of \`${name}\` was cancelled; its result is not used.`);
}

export function abortedBeforeDispatch(name: string): ToolResult {
  return refusal('ABORTED_BEFORE_DISPATCH', `The call of \`${name}\` was cancelled before it ran.`);
}

function invalidOutput(name: string, problem: string): ToolResult {
  return refusal(
    'INVALID_TOOL_OUTPUT',
    `The tool \`${name}\` ran and gave no usable result: ${problem}`,
  );
}

/** What a body asked for while it ran. */
export interface Requests {
  readonly contexts: readonly UserMessage[];
  readonly concludesTurn: boolean;
}

/** The result of a body on main that returned. */
export function returned(
  found: FoundTool & { kind: 'host' },
  args: JsonObject,
  output: unknown,
  requests: Requests,
): ToolResult {
  const { spec, tool, checkOutput } = found;
  if (output === undefined && checkOutput === undefined) {
    return deepFreeze({ content: text(NO_OUTPUT), isError: false, ...requests });
  }
  let value: Json;
  try {
    value = deepFreeze(losslessCopy(output));
  } catch (error) {
    return invalidOutput(spec.name, toErrorRecord(error).message);
  }
  const problems = checkOutput?.(value) ?? [];
  if (problems.length > 0) {
    return invalidOutput(spec.name, `${problems.slice(0, SHOWN_PROBLEMS).join('; ')}.`);
  }
  try {
    const content =
      tool.output === undefined ? textOfValue(value) : shownBy(tool.output.render(args, value));
    return deepFreeze({ content, isError: false, value, ...requests });
  } catch (error) {
    return invalidOutput(spec.name, toErrorRecord(error).message);
  }
}

/**
 * The result of a body that ran in the agent's thread, which has shown its value already.
 * @param outcome as it was decoded
 */
export function reported(name: string, outcome: ToolOutcome): ToolResult {
  if (!outcome.ok) return recorded(outcome.error);
  try {
    // A thread speaks for its tool, and for nobody else.
    const contexts = (outcome.contexts ?? []).map((message) => ({
      ...admitContext(message),
      source: { kind: 'plugin' as const, plugin: name },
    }));
    let value: Json | undefined;
    return Object.freeze({
      content: blocksOf(outcome.content),
      isError: false,
      // Nobody else has it, and few look at it: its copy waits for one who does.
      get value() {
        return (value ??= copyDecoded(outcome.value));
      },
      contexts: deepFreeze(contexts),
      concludesTurn: outcome.concludesTurn === true,
    });
  } catch (error) {
    return invalidOutput(name, toErrorRecord(error).message);
  }
}

/**
 * A result as a hook lets it pass: only what the model sees may be another, and messages come
 * after those of the body.
 */
export function accepted(
  name: string,
  result: ToolResult,
  { content, contexts }: { readonly content?: unknown; readonly contexts?: unknown },
): ToolResult {
  if (content === undefined && contexts === undefined) return result;
  try {
    if (contexts !== undefined && !Array.isArray(contexts)) {
      throw new ArgumentError('Its contexts must be a list of user messages.');
    }
    return deepFreeze({
      ...result,
      ...(content === undefined ? {} : { content: blocksOf(content) }),
      contexts: [...result.contexts, ...((contexts ?? []) as UserMessage[]).map(admitContext)],
    });
  } catch (error) {
    return refusal(
      'INVALID_TOOL_OUTPUT',
      `A hook made the result of \`${name}\` unusable: ${toErrorRecord(error).message}`,
    );
  }
}

/** A message that a body wants shown. @throws {ArgumentError} when it is no user message. */
export function admitContext(message: UserMessage): UserMessage {
  let copy: Partial<UserMessage> | null;
  try {
    copy = frozenCopy(message, MAX_SHOWN_DEPTH) as unknown as Partial<UserMessage> | null;
  } catch (error) {
    throw new ArgumentError('A deferred context must be JSON data.', { cause: error });
  }
  const { id, role, content, source } = copy ?? {};
  const isNamed = (name: unknown): boolean => typeof name === 'string' && name !== '';
  if (!isNamed(id) || role !== 'user' || !isNamed(source?.kind)) {
    throw new ArgumentError('A deferred context must be a user message.');
  }
  if (!Array.isArray(content) || !content.every(isBlock)) {
    throw new ArgumentError('The content of a deferred context must be a list of content blocks.');
  }
  return copy as UserMessage;
}

function textOfValue(value: Json): readonly ContentBlock[] {
  return text(typeof value === 'string' ? value : JSON.stringify(value));
}

function shownBy(rendered: unknown): readonly ContentBlock[] {
  if (isPromiseLetGo(rendered)) throw new ArgumentError('What shows it gave a promise.');
  return blocksOf(rendered);
}

function blocksOf(content: unknown): readonly ContentBlock[] {
  const copy: unknown = frozenCopy(content, MAX_SHOWN_DEPTH);
  if (!Array.isArray(copy) || !copy.every(isBlock)) {
    throw new ArgumentError('What it shows must be a list of content blocks.');
  }
  return copy as readonly ContentBlock[];
}

/** Kinds that are not known here are let through: whoever reads them decides. */
function isBlock(block: unknown): boolean {
  const { type, text: shown } = (block ?? {}) as { type?: unknown; text?: unknown };
  if (type === 'text' || type === 'reasoning') return typeof shown === 'string';
  return typeof type === 'string' && type !== '';
}
