/**
 * The embedded scripted model: loaded by URL inside the thread of each agent that uses it, so
 * that all it does is done there. It answers what the request in front of it asks for.
 */
import type { CallId, ModelAdapter, ModelPart } from '../../index.ts';
import { readConversation } from './conversation.ts';
import { plan, type Answer } from './plan.ts';

const model: ModelAdapter = {
  async *stream(request) {
    const answer = plan(readConversation(request));
    const read = JSON.stringify(request.messages).length;
    yield* partsOf(answer, read, `call-${request.messages.length}`);
  },
};

// A thread loads a module by its default export.
// oxlint-disable-next-line import/no-default-export
export default model;

function* partsOf(answer: Answer, readCharacters: number, callPrefix: string): Iterable<ModelPart> {
  let index = 0;
  if (answer.text !== '') {
    yield { type: 'block-start', index, blockType: 'text' };
    for (const text of answer.text.match(/[^\n]*\n|[^\n]+$/gu) ?? []) {
      yield { type: 'text-delta', index, text };
    }
    yield { type: 'block-end', index, block: { type: 'text', text: answer.text } };
    index += 1;
  }
  let written = answer.text.length;
  for (const call of answer.calls) {
    const id = `${callPrefix}-${index}` as CallId;
    const args = JSON.stringify(call.arguments);
    yield { type: 'block-start', index, blockType: 'tool-call' };
    yield { type: 'tool-call-delta', index, id, name: call.name, argumentsDelta: args };
    const block = { type: 'tool-call', id, name: call.name, arguments: args } as const;
    yield { type: 'block-end', index, block };
    written += args.length;
    index += 1;
  }
  // It has no tokens of its own: four characters are counted as one.
  yield {
    type: 'usage',
    usage: { inputTokens: Math.ceil(readCharacters / 4), outputTokens: Math.ceil(written / 4) },
  };
  yield { type: 'finish', reason: { kind: answer.calls.length === 0 ? 'stop' : 'tool-calls' } };
}
