import { CallId } from '../../protocol/ids.ts';
import type { ModelPart, Failure } from '../../protocol/model.ts';

/** Parts of a model's answer, for tests that play the model part by part. */

export function says(...texts: readonly string[]): ModelPart[] {
  return [...textParts(0, ...texts), { type: 'finish', reason: { kind: 'stop' } }];
}

/** An open text block: what was streamed when something came in between. */
export function begins(text: string, index = 0): ModelPart[] {
  return [
    { type: 'block-start', index, blockType: 'text' },
    { type: 'text-delta', index, text },
  ];
}

export function textParts(index: number, ...texts: readonly string[]): ModelPart[] {
  return [
    { type: 'block-start', index, blockType: 'text' },
    ...texts.map((text): ModelPart => ({ type: 'text-delta', index, text })),
    { type: 'block-end', index, block: { type: 'text', text: texts.join('') } },
  ];
}

export function callParts(index: number, id: string, name: string, args = '{}'): ModelPart[] {
  return [
    { type: 'block-start', index, blockType: 'tool-call' },
    { type: 'tool-call-delta', index, id: CallId(id), name, argumentsDelta: args },
    {
      type: 'block-end',
      index,
      block: { type: 'tool-call', id: CallId(id), name, arguments: args },
    },
  ];
}

/** One answer that asks for tools: each is `[id, name, arguments]`. */
export function asksFor(...calls: readonly (readonly [string, string, string?])[]): ModelPart[] {
  return [
    ...calls.flatMap(([id, name, args], index) => callParts(index, id, name, args)),
    { type: 'finish', reason: { kind: 'tool-calls' } },
  ];
}

export function fails(code: string, more: Partial<Failure> = {}): ModelPart[] {
  const failure: Failure = { message: `It failed with ${code}.`, code, ...more };
  return [{ type: 'finish', reason: { kind: 'error', failure } }];
}
