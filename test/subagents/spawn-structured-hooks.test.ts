import { describe, expect, it } from 'vitest';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import { gate } from '../support/gate.ts';
import { lookTool, resultCodes, spawning, toolResults } from './spawning.ts';
import { text } from './stubs.ts';

const schema: ObjectJsonSchema = {
  type: 'object',
  properties: { count: { type: 'integer' } },
  required: ['count'],
};
const PRE = 'tool/pre-execute';
const POST = 'tool/post-execute';
const handsIn = (value: object, id?: string) => ({
  name: 'structured_output',
  arguments: value,
  ...(id === undefined ? {} : { id }),
});
const isErrors = (child: Parameters<typeof toolResults>[0]) =>
  toolResults(child).map(({ isError }) => isError === true);

describe('spawn with an output schema and hooks', () => {
  it('fails when its capture is blocked, after another step', async () => {
    await using t = await spawning({
      script: [{ toolCalls: [handsIn({ count: 1 })] }, 'Then not.', 'Never asked for.'],
    });
    t.harness.hooks.on(POST, () => ({ kind: 'block', reason: 'Count again.' }));
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toEqual({
      output: [text('Then not.')],
      stopReason: 'error',
      diagnostic: expect.stringContaining('NO_STRUCTURED_OUTPUT'),
    });
    expect(t.model.requests).toHaveLength(2);
    expect(toolResults(child)).toMatchObject([
      { isError: true, content: [text('Error: Count again.')] },
    ]);
  });

  it('fails when an outermost wrapper that came late blocks its capture', async () => {
    const asked = gate();
    await using t = await spawning({
      script: [{ hold: asked, toolCalls: [handsIn({ count: 1 })] }, 'Then not.'],
    });
    t.harness.hooks.on(POST, () => ({ kind: 'accept' }));
    const run = await t.start({ outputSchema: schema });
    t.harness.hooks.on(
      POST,
      async (_, next) => {
        await next();
        return { kind: 'block', reason: 'Too late.' };
      },
      { prepend: true },
    );
    asked.open();
    const result = await run.result;
    await run.dispose();
    expect([result.stopReason, 'structured' in result]).toEqual(['error', false]);
  });

  it('gives the value that was handed in when its model is shown another', async () => {
    await using t = await spawning({ script: [{ toolCalls: [handsIn({ count: 2 })] }] });
    t.harness.hooks.on(POST, () => ({ kind: 'accept', content: [text('Noted.')] }));
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toMatchObject({ structured: { count: 2 }, stopReason: 'completed' });
    expect(toolResults(child)).toMatchObject([{ content: [text('Noted.')] }]);
  });

  it('runs no call that follows the capture, although a hook that came last allows it', async () => {
    const look = lookTool();
    const captured = gate();
    await using t = await spawning({
      tools: [look.tool],
      script: [{ toolCalls: [handsIn({ count: 1 }), { name: 'look', arguments: {} }] }],
    });
    t.harness.hooks.on(POST, async ({ name }) => {
      if (name === 'structured_output') {
        t.harness.hooks.on(PRE, () => ({ kind: 'allow' }), { prepend: true });
        captured.open();
      }
    });
    const { result, child } = await t.run({ outputSchema: schema });
    await captured.wait();
    expect(result).toMatchObject({ structured: { count: 1 }, stopReason: 'completed' });
    expect([isErrors(child), look.calls]).toEqual([[false, true], []]);
  });

  it('takes a valid value after one that was blocked and an invalid one, all of one id', async () => {
    await using t = await spawning({
      script: [
        { toolCalls: [handsIn({ count: 1 }, 'same')] },
        { toolCalls: [handsIn({ count: 'x' }, 'same')] },
        { toolCalls: [handsIn({ count: 3 }, 'same')] },
      ],
    });
    let asked = 0;
    t.harness.hooks.on(POST, () =>
      asked++ === 0 ? { kind: 'block', reason: 'Again.' } : undefined,
    );
    const { result, child } = await t.run({ outputSchema: schema });
    expect(result).toMatchObject({ structured: { count: 3 }, stopReason: 'completed' });
    expect(isErrors(child)).toEqual([true, true, false]);
    expect(resultCodes(child)).toEqual([undefined, 'INVALID_ARGS', undefined]);
  });

  it('is aborted when it is cancelled while hooks decide about its capture', async () => {
    const [asked, open] = [gate(), gate()];
    await using t = await spawning({ script: [{ toolCalls: [handsIn({ count: 1 })] }] });
    t.harness.hooks.on(POST, async () => {
      asked.open();
      await open.wait();
    });
    const controller = new AbortController();
    const run = await t.start({ outputSchema: schema, signal: controller.signal });
    await asked.wait();
    controller.abort();
    const result = await run.result;
    await run.dispose();
    open.open();
    expect([result.stopReason, 'structured' in result]).toEqual(['aborted', false]);
    expect(resultCodes(run.localAgent!)).toEqual(['ABORTED']);
  });

  it('hands in nothing when it dies while hooks decide about its capture', async () => {
    const [asked, open] = [gate(), gate()];
    await using t = await spawning({ script: [{ toolCalls: [handsIn({ count: 1 })] }] });
    t.harness.hooks.on(POST, async () => {
      asked.open();
      await open.wait();
    });
    const run = await t.start({ outputSchema: schema });
    await asked.wait();
    await run.dispose();
    open.open();
    const result = await run.result;
    expect(result).not.toHaveProperty('structured');
  });

  it('tells hooks of the agent, the turn and the step they are asked about', async () => {
    await using t = await spawning({ script: [{ toolCalls: [handsIn({ count: 1 })] }] });
    const told: unknown[] = [];
    t.harness.hooks.on(PRE, ({ agent, turn, step, name, args }) => {
      told.push([agent, turn, step, name, args]);
    });
    const { child } = await t.run({ outputSchema: schema });
    expect(told).toEqual([[child, 1, 1, 'structured_output', { count: 1 }]]);
  });

  it.each([1_000, 40_000])(
    'is not made for a schema of %d levels, which no log can hold',
    async (levels) => {
      await using t = await spawning();
      let x: object = { type: 'string' };
      for (let level = 0; level < levels; level++) x = { type: 'array', items: x };
      const before = t.live();
      const outputSchema = { type: 'object', properties: { x } } as unknown as ObjectJsonSchema;
      await expect(t.start({ outputSchema })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      expect(t.live()).toEqual(before);
    },
  );

  it('shows its model what a hook adds, behind the results of the step', async () => {
    const look = lookTool();
    await using t = await spawning({
      tools: [look.tool],
      script: [{ toolCalls: [{ name: 'look', arguments: {} }] }, 'Done.'],
    });
    t.harness.hooks.on(POST, () => ({
      kind: 'accept',
      contexts: [
        {
          id: 'hint' as never,
          role: 'user',
          content: [text('Look twice.')],
          source: { kind: 'plugin', plugin: 'hints' },
        },
      ],
    }));
    await t.run();
    const last = t.model.requests[1]?.messages.at(-1);
    expect(last).toMatchObject({ role: 'user', content: [text('Look twice.')] });
  });
});
