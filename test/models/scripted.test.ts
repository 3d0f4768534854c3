import type { ModelPart, ModelRequest } from '../../protocol/model.ts';
import type { ScriptedModel } from '../../src/models/scripted.ts';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { streamModel } from '../../protocol/model-stream.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';

const request: ModelRequest = { provider: 'script', model: 'm', messages: [] };

async function ask(
  model: ScriptedModel,
  asked = request,
  signal = new AbortController().signal,
): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of streamModel(model, asked, signal)) parts.push(part);
  return parts;
}

const finish = (kind: string) => ({ type: 'finish', reason: { kind } });
const says = (text: string) => [
  { type: 'block-start', index: 0, blockType: 'text' },
  { type: 'text-delta', index: 0, text },
  { type: 'block-end', index: 0, block: { type: 'text', text } },
  finish('stop'),
];

afterEach(() => vi.useRealTimers());

describe('scriptedModel', () => {
  it('answers each request with the next entry, and keeps the requests', async () => {
    const model = scriptedModel(['one', { text: 'two' }]);
    const second = { ...request, model: 'other' };
    expect(await ask(model)).toEqual(says('one'));
    expect(await ask(model, second)).toEqual(says('two'));
    expect(model.requests).toEqual([request, second]);
  });

  it('fails a request beyond the script and says how many there were', async () => {
    const model = scriptedModel(['one']);
    await ask(model);
    expect(await ask(model)).toEqual([
      {
        type: 'finish',
        reason: {
          kind: 'error',
          failure: {
            code: 'SCRIPT_EXHAUSTED',
            message:
              'The script of this model is used up: 1 request was scripted, and this is request 2.',
          },
        },
      },
    ]);
  });

  it('streams reasoning, text, tool calls, usage and the finish in that order', async () => {
    const usage = { inputTokens: 1, outputTokens: 2 };
    const model = scriptedModel([
      {
        reasoning: 'Hm',
        text: ['Hel', 'lo'],
        toolCalls: [
          { name: 'add', arguments: { a: 1 } },
          { name: 'add', arguments: '{"a":', id: 'mine' },
        ],
        usage,
      },
    ]);
    const call = (index: number, id: string, text: string) => [
      { type: 'block-start', index, blockType: 'tool-call' },
      { type: 'tool-call-delta', index, id, name: 'add', argumentsDelta: text },
      { type: 'block-end', index, block: { type: 'tool-call', id, name: 'add', arguments: text } },
    ];
    expect(await ask(model)).toEqual([
      { type: 'block-start', index: 0, blockType: 'reasoning' },
      { type: 'reasoning-delta', index: 0, text: 'Hm' },
      { type: 'block-end', index: 0, block: { type: 'reasoning', text: 'Hm' } },
      { type: 'block-start', index: 1, blockType: 'text' },
      { type: 'text-delta', index: 1, text: 'Hel' },
      { type: 'text-delta', index: 1, text: 'lo' },
      { type: 'block-end', index: 1, block: { type: 'text', text: 'Hello' } },
      ...call(2, 'call_1_2', '{"a":1}'),
      ...call(3, 'mine', '{"a":'),
      { type: 'usage', usage },
      finish('tool-calls'),
    ]);
  });

  it('lets a function read the request and say what the answer is', async () => {
    const model = scriptedModel(async (asked, { number }) => `${asked.model} ${number}`);
    expect(await ask(model)).toEqual(says('m 1'));
    expect(await ask(model)).toEqual(says('m 2'));
  });

  it('ends as it was told: at a limit, with a failure, with a throw', async () => {
    const failure = { code: 'SERVER', message: 'Down.', status: 500 };
    const model = scriptedModel([
      { text: 'a', finish: 'max-tokens' },
      { text: 'b', failure },
      { text: 'c', throws: new Error('Broken.') },
      () => {
        throw new Error('No answer.');
      },
    ]);
    const ends = async () => (await ask(model)).at(-1);
    expect(await ends()).toEqual(finish('max-tokens'));
    expect(await ends()).toEqual({ type: 'finish', reason: { kind: 'error', failure } });
    expect(await ends()).toMatchObject({ reason: { failure: { message: 'Broken.' } } });
    expect(await ends()).toMatchObject({ reason: { failure: { message: 'No answer.' } } });
  });

  it('holds before the first part, and between two pieces', async () => {
    const before = gate();
    const between = gate();
    const model = scriptedModel([{ hold: before, text: ['Hel', between, 'lo'] }]);
    const parts: ModelPart[] = [];
    const read = (async () => {
      for await (const part of streamModel(model, request, new AbortController().signal)) {
        parts.push(part);
      }
    })();
    await before.arrived();
    expect(parts).toEqual([]);
    before.open();
    await between.arrived();
    expect(parts.map((part) => part.type)).toEqual(['block-start', 'text-delta']);
    between.open();
    await read;
    expect(parts.at(-1)).toEqual(finish('stop'));
  });

  it.each(['hold', 'delay'])('lets go of a %s when the request is aborted', async (kind) => {
    const held = gate();
    const controller = new AbortController();
    const model = scriptedModel([kind === 'hold' ? { hold: held } : { delayMs: 3_600_000 }]);
    // Read without the guard of streamModel: the model itself must end.
    const read = (async () => {
      for await (const part of model.stream(request, controller)) expect(part).toBeUndefined();
    })();
    controller.abort(new Error('enough'));
    await expect(read).rejects.toThrow('enough');
  });

  it('waits as long as it was told', async () => {
    vi.useFakeTimers();
    const answer = ask(scriptedModel([{ delayMs: 60_000, text: 'late' }]));
    await vi.advanceTimersByTimeAsync(59_999);
    const early = await Promise.race([answer, 'nothing yet']);
    await vi.advanceTimersByTimeAsync(1);
    expect(early).toBe('nothing yet');
    expect(await answer).toEqual(says('late'));
  });

  it('refuses a script that is none', () => {
    expect(() => scriptedModel('Hi' as never)).toThrow(ArgumentError);
    expect(() => scriptedModel(['Hi', 7 as never])).toThrow('Answer 2 of the script');
  });
});
