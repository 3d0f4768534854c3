import type { Usage } from '../../protocol/content.ts';
import type {
  Failure,
  ModelAdapter,
  ModelPart,
  ModelRequest,
  RetryPolicy,
} from '../../protocol/model.ts';
import type { Gate } from '../base/gate.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { CallId } from '../../protocol/ids.ts';
import { raceSignal } from '../base/deferred.ts';

/**
 * A place where the answer is held: a gate, or anything else that can be waited for.
 * @inline
 */
export type Hold = Pick<Gate, 'wait'>;

/** Text in the pieces it is streamed in; a hold between two pieces stops the stream there. */
export type ScriptedText = string | readonly (string | Hold)[];

/** One call of a tool, as a model would make it. */
export interface ScriptedToolCall {
  readonly name: string;
  /** An object, or the raw text a model might write. */
  readonly arguments: object | string;
  /** Absent: one that is unique within this model. */
  readonly id?: string;
}

/** One answer. Its parts come in the order of these properties. */
export interface ScriptedStep {
  /** Milliseconds before anything else. */
  readonly delayMs?: number;
  /** Held before the first part. */
  readonly hold?: Hold;
  readonly reasoning?: ScriptedText;
  readonly text?: ScriptedText;
  readonly toolCalls?: readonly ScriptedToolCall[];
  readonly usage?: Usage;
  /** Thrown instead of a finish. */
  readonly throws?: unknown;
  /** An error finish. */
  readonly failure?: Failure;
  /** Absent: `tool-calls` if there are any, else `stop`. */
  readonly finish?: 'stop' | 'tool-calls' | 'max-tokens';
}

/** A step, or just its text. */
export type ScriptedAnswer = ScriptedStep | string;

/** Which request it is, and when it is given up. */
export interface ScriptedCall {
  /** 1 for the first request this model got. */
  readonly number: number;
  readonly signal: AbortSignal;
}

/** Decides what to answer from what it was asked. */
export type ScriptedFunction = (
  request: ModelRequest,
  call: ScriptedCall,
) => ScriptedAnswer | Promise<ScriptedAnswer>;

/** One entry per request, in the order they come; or one function for all of them. */
export type Script = readonly (ScriptedAnswer | ScriptedFunction)[] | ScriptedFunction;

export interface ScriptedModel extends ModelAdapter {
  /** Every request so far, in the order they came. */
  readonly requests: readonly ModelRequest[];
}

/**
 * A model that says what it was told to and nothing else. A request beyond the end of the script
 * fails with `SCRIPT_EXHAUSTED`.
 *
 * @throws {ArgumentError} when the script is neither a list of answers nor a function.
 */
export function scriptedModel(
  script: Script,
  options: { readonly retryPolicy?: RetryPolicy } = {},
): ScriptedModel {
  const entries = typeof script === 'function' ? script : checkEntries(script);
  const requests: ModelRequest[] = [];
  return {
    ...options,
    requests,
    stream(request, { signal }) {
      // Counted here, not at the first read: requests keep the order they were made in.
      const number = requests.push(request);
      const entry = typeof entries === 'function' ? entries : entries[number - 1];
      if (entry === undefined) return exhausted(entries.length, number);
      return play(entry, request, { number, signal });
    },
  };
}

function checkEntries(script: unknown): readonly (ScriptedAnswer | ScriptedFunction)[] {
  if (!Array.isArray(script)) {
    throw new ArgumentError('A script is a list of answers, or a function that gives one.');
  }
  script.forEach((entry: unknown, at) => {
    const isStep = typeof entry === 'object' && entry !== null && !Array.isArray(entry);
    if (!isStep && typeof entry !== 'string' && typeof entry !== 'function') {
      throw new ArgumentError(`Answer ${at + 1} of the script must be text, a step or a function.`);
    }
  });
  return [...(script as readonly (ScriptedAnswer | ScriptedFunction)[])];
}

async function* exhausted(scripted: number, number: number): AsyncGenerator<ModelPart, void, void> {
  const count = scripted === 1 ? '1 request was' : `${scripted} requests were`;
  yield error({
    code: 'SCRIPT_EXHAUSTED',
    message: `The script of this model is used up: ${count} scripted, and this is request ${number}.`,
  });
}

async function* play(
  entry: ScriptedAnswer | ScriptedFunction,
  request: ModelRequest,
  call: ScriptedCall,
): AsyncGenerator<ModelPart, void, void> {
  const { signal } = call;
  const answer = typeof entry === 'function' ? await entry(request, call) : entry;
  const step: ScriptedStep = typeof answer === 'string' ? { text: answer } : answer;
  if (step.delayMs !== undefined) await delay(step.delayMs, signal);
  if (step.hold !== undefined) await raceSignal(step.hold.wait(), signal);
  let index = 0;
  if (step.reasoning !== undefined) yield* say('reasoning', index++, step.reasoning, signal);
  if (step.text !== undefined) yield* say('text', index++, step.text, signal);
  for (const toolCall of step.toolCalls ?? []) {
    yield* callTool(index, toolCall, `call_${call.number}_${index}`);
    index++;
  }
  if (step.usage !== undefined) yield { type: 'usage', usage: step.usage };
  if ('throws' in step) throw step.throws;
  if (step.failure !== undefined) yield error(step.failure);
  else {
    const hasCalls = step.toolCalls !== undefined && step.toolCalls.length > 0;
    yield { type: 'finish', reason: { kind: step.finish ?? (hasCalls ? 'tool-calls' : 'stop') } };
  }
}

async function* say(
  type: 'text' | 'reasoning',
  index: number,
  given: ScriptedText,
  signal: AbortSignal,
): AsyncGenerator<ModelPart, void, void> {
  yield { type: 'block-start', index, blockType: type };
  let text = '';
  for (const piece of typeof given === 'string' ? [given] : given) {
    if (typeof piece !== 'string') {
      await raceSignal(piece.wait(), signal);
      continue;
    }
    signal.throwIfAborted();
    text += piece;
    yield type === 'text'
      ? { type: 'text-delta', index, text: piece }
      : { type: 'reasoning-delta', index, text: piece };
  }
  yield { type: 'block-end', index, block: { type, text } };
}

function* callTool(
  index: number,
  call: ScriptedToolCall,
  fallbackId: string,
): Generator<ModelPart, void, void> {
  const id = CallId(call.id ?? fallbackId);
  const raw = typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments);
  const { name } = call;
  yield { type: 'block-start', index, blockType: 'tool-call' };
  yield { type: 'tool-call-delta', index, id, name, argumentsDelta: raw };
  yield { type: 'block-end', index, block: { type: 'tool-call', id, name, arguments: raw } };
}

const error = (failure: Failure): ModelPart => ({
  type: 'finish',
  reason: { kind: 'error', failure },
});

function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
