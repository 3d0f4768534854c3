import { describe, expect, it } from 'vitest';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import { gate } from '../../src/base/gate.ts';
import type { ScriptedStep } from '../../src/models/scripted.ts';
import { eventTypes } from '../support/harness.ts';
import { lookTool, resultCodes, spawning, tasksOf, toolResults } from './spawning.ts';
import { text } from './stubs.ts';

const schema: ObjectJsonSchema = {
  type: 'object',
  properties: { count: { type: 'integer' } },
  required: ['count'],
};
const handsIn = (value: object) => ({ name: 'structured_output', arguments: value });

describe('spawn with an output schema', () => {
  it('gives the value that was handed in, after one request', async () => {
    await using t = await spawning({
      script: [{ text: 'Here.', toolCalls: [handsIn({ count: 2 })] }, 'Never asked for.'],
    });
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toMatchObject({ structured: { count: 2 }, stopReason: 'completed' });
    expect(t.model.requests).toHaveLength(1);
    const [shown] = toolResults(child);
    expect(shown).toMatchObject({ content: [text('{"recorded":true}')] });
  });

  it('runs no call that follows the capture in the same response', async () => {
    const look = lookTool();
    await using t = await spawning({
      tools: [look.tool],
      script: [{ toolCalls: [handsIn({ count: 1 }), { name: 'look', arguments: {} }] }],
    });
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toMatchObject({ structured: { count: 1 }, stopReason: 'completed' });
    expect(toolResults(child).map(({ isError }) => isError === true)).toEqual([false, true]);
    expect(look.calls).toEqual([]);
  });

  it('runs a call that comes before the capture', async () => {
    const look = lookTool();
    await using t = await spawning({
      tools: [look.tool],
      script: [{ toolCalls: [{ name: 'look', arguments: {} }, handsIn({ count: 1 })] }],
    });
    const { result } = await t.run({ outputSchema: schema });
    expect(result.structured).toEqual({ count: 1 });
    expect(look.calls).toHaveLength(1);
  });

  it('lets its model correct an invalid value in the same turn', async () => {
    await using t = await spawning({
      script: [{ toolCalls: [handsIn({ count: 'two' })] }, { toolCalls: [handsIn({ count: 2 })] }],
    });
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toMatchObject({ structured: { count: 2 }, stopReason: 'completed' });
    expect(resultCodes(child)).toEqual(['INVALID_ARGS', undefined]);
    expect(eventTypes(child.session).filter((type) => type === 'turn/start')).toHaveLength(1);
  });

  it('fails when its model only writes prose, and asks it no second time', async () => {
    await using t = await spawning({ script: ['There are two.', 'Never asked for.'] });
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toMatchObject({ output: [text('There are two.')], stopReason: 'error' });
    expect(result).not.toHaveProperty('structured');
    expect(t.model.requests).toHaveLength(1);
    expect(tasksOf(child)).toHaveLength(1);
  });

  it('is aborted when it is cancelled as its turn ends without a capture', async () => {
    await using t = await spawning({ script: ['Prose.'] });
    const controller = new AbortController();
    t.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/end') controller.abort();
    });
    const { result } = await t.run({ outputSchema: schema, signal: controller.signal });
    expect(result).toEqual({ output: [text('Prose.')], stopReason: 'aborted' });
  });

  it('keeps the failure of its model', async () => {
    const failure = { code: 'AUTH', message: 'no key' };
    await using t = await spawning({ script: [{ failure }] });
    const { result } = await t.run({ outputSchema: schema });
    expect(result).toEqual({ output: [], stopReason: 'error', diagnostic: 'AUTH: no key' });
  });

  it('keeps two children apart that run at once', async () => {
    const other: ObjectJsonSchema = { type: 'object', properties: { name: { type: 'string' } } };
    const both = gate();
    const shown: unknown[] = [];
    await using t = await spawning({
      script: (request): ScriptedStep => {
        const [tool] = request.tools ?? [];
        if (shown.push(tool?.parameters) === 2) both.open();
        const isOther = JSON.stringify(tool?.parameters) === JSON.stringify(other);
        return { hold: both, toolCalls: [handsIn(isOther ? { name: 'b' } : { count: 1 })] };
      },
    });
    const [first, second] = await Promise.all([
      t.run({ outputSchema: schema }),
      t.run({ outputSchema: other }),
    ]);
    expect(first.result.structured).toEqual({ count: 1 });
    expect(second.result.structured).toEqual({ name: 'b' });
    expect(shown).toEqual(expect.arrayContaining([schema, other]));
  });

  it('is the only one that knows the capture tool', async () => {
    await using t = await spawning({
      script: [{ toolCalls: [handsIn({ count: 1 })] }, 'I cannot.'],
    });
    const { child } = await t.run();
    expect(resultCodes(child)).toEqual(['UNKNOWN_TOOL']);
  });

  it('is told of the capture behind its own prompt, and nobody else is', async () => {
    await using t = await spawning({
      persona: 'You count.',
      script: [{ toolCalls: [handsIn({ count: 1 })] }, 'Hello.'],
    });
    for (const order of [191, 190.5, 189.5, 189]) {
      t.harness.prompt.section({ name: `s${order}`, order, text: `At ${order}.` });
    }
    await t.run({ outputSchema: schema });
    await t.ask('Hi.');
    const [child, root] = t.model.requests.map(({ system }) => system?.split('\n\n'));
    expect(child).toEqual([
      'You count.',
      'At 189.',
      'At 189.5.',
      expect.stringContaining('`structured_output`') as string,
      'At 190.5.',
      'At 191.',
    ]);
    expect(root).toEqual(['You count.', 'At 189.', 'At 189.5.', 'At 190.5.', 'At 191.']);
  });
});
