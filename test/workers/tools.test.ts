import { describe, expect, it } from 'vitest';
import type { ToolCallRequest, ToolOutcome } from '../../protocol/host-services.ts';
import { MessageId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { defineTool } from '../../protocol/tool.ts';
import type { ToolContext, ToolDefinition } from '../../protocol/tool.ts';
import { gate } from '../../src/base/gate.ts';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import type { FakeAgent, MainScript } from '../support/fake-main.ts';
import { asksFor } from '../support/parts.ts';

const parameters = { type: 'object' } as const;
const tool = (
  execute: ToolDefinition['execute'],
  more: Partial<ToolDefinition> = {},
): ToolDefinition =>
  defineTool({ name: 'probe', description: 'Probe.', parameters, execute, ...more });

/** One turn that asks for `calls`; main lets every module tool run here. */
function arranged(
  tools: ToolDefinition | readonly ToolDefinition[],
  calls: readonly (readonly [string, string, string?])[],
  script: MainScript = {},
  more: Parameters<typeof fakeAgent>[0] = {},
): FakeAgent & { outcomes: ToolOutcome[]; run(): Promise<void> } {
  const outcomes: ToolOutcome[] = [];
  const agent = fakeAgent({
    ...more,
    modules: { 'file:///tools.js': tools },
    init: { toolModules: [{ url: 'file:///tools.js' }], ...more.init },
    script: {
      claim: claims(enter(1), close(1)),
      openModel: () => asksFor(...calls),
      callTool: ({ arguments: text }) => ({
        done: false,
        runHere: true,
        args: JSON.parse(text) as JsonObject,
      }),
      finishTool(_, outcome) {
        outcomes.push(outcome);
        return { done: true, concludesTurn: outcome.ok && outcome.concludesTurn === true };
      },
      ...script,
    },
  });
  return {
    ...agent,
    outcomes,
    async run() {
      agent.main.wake();
      await agent.main.untilSeen('turn/end');
      await agent.stop();
    },
  };
}
const requests = ({ main }: FakeAgent): ToolCallRequest[] =>
  main.calls.flatMap(({ name, values }) =>
    name === 'callTool' ? [values[0] as ToolCallRequest] : [],
  );

describe('a tool of a module', () => {
  it('runs here when main says so, with the arguments that main checked', async () => {
    let seen: { args: JsonObject; context: ToolContext } | undefined;
    const body = tool((args, context) => {
      seen = { args, context };
      return { size: 3 };
    });
    const t = arranged(body, [['c1', 'probe', '{"path":"raw"}']], {
      callTool: () => ({ done: false, runHere: true, args: { path: 'checked' } }),
    });
    await t.run();
    expect(seen?.args).toEqual({ path: 'checked' });
    expect(seen?.context).toMatchObject({
      agent: { id: 'agent-1', cwd: '/work', depth: 1 },
      callId: 'c1',
    });
    expect(t.outcomes).toEqual([
      { ok: true, value: { size: 3 }, content: [{ type: 'text', text: '{"size":3}' }] },
    ]);
    expect(t.main.trail.slice(3, 7)).toEqual([
      'assistant/message',
      'callTool(c1)',
      'finishTool(c1)',
      'step/end',
    ]);
  });

  it.each<[string, Partial<ToolDefinition>, unknown, string]>([
    ['a text as it is', {}, 'plain', 'plain'],
    ['that nothing came', {}, undefined, '(no output)'],
    ['null as JSON', {}, null, 'null'],
    [
      'what the tool renders',
      {
        output: {
          schema: {},
          render: (args, value) => [
            { type: 'text', text: `${String(args['n'])}:${String(value)}` },
          ],
        },
      },
      7,
      '1:7',
    ],
  ])('shows %s', async (_, more, value, text) => {
    const t = arranged(
      tool(() => value as never, more),
      [['c1', 'probe', '{"n":1}']],
    );
    await t.run();
    expect(t.outcomes[0]).toMatchObject({ ok: true, content: [{ type: 'text', text }] });
  });

  it('hands in what its body throws as data', async () => {
    const t = arranged(
      tool(() => {
        throw Object.assign(new TypeError('no such file'), { code: 'ENOENT' });
      }),
      [['c1', 'probe']],
    );
    await t.run();
    expect(t.outcomes[0]).toMatchObject({
      ok: false,
      error: { name: 'TypeError', code: 'ENOENT', message: 'no such file' },
    });
  });

  it.each<[string, unknown]>([
    ['is no JSON', { at: new Date(0) }],
    ['is a function', () => 1],
    ['nests too deeply', nested(80)],
    ['is larger than a frame', 'x'.repeat(1_100_000)],
  ])('fails with INVALID_TOOL_OUTPUT when its value %s', async (_, value) => {
    const t = arranged(
      tool(() => value as never),
      [['c1', 'probe']],
    );
    await t.run();
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { code: 'INVALID_TOOL_OUTPUT' } });
    expect(t.main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'completed' });
  });

  it('fails when its own rendering is no text', async () => {
    const output = { schema: {}, render: () => [{ type: 'image', url: 'x' }] as never };
    const t = arranged(
      tool(() => 1, { output }),
      [['c1', 'probe']],
    );
    await t.run();
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { code: 'INVALID_TOOL_OUTPUT' } });
  });

  it('can defer context and conclude the turn', async () => {
    const message = {
      id: MessageId('m1'),
      role: 'user',
      content: [{ type: 'text', text: 'note' }],
      source: { kind: 'plugin', plugin: 'notes' },
    } as const;
    const t = arranged(
      tool((_, context) => {
        context.deferContext(message);
        context.concludeTurn();
      }),
      [['c1', 'probe']],
    );
    await t.run();
    expect(t.outcomes[0]).toMatchObject({ ok: true, contexts: [message], concludesTurn: true });
    expect(t.main.count('claim(step,true)')).toBe(1);
  });

  it.each<[string, unknown]>([
    ['is no message', {}],
    ['has an id main refuses', { id: 'x'.repeat(257), role: 'user', content: [], source: {} }],
    ['is an assistant’s', { id: 'm', role: 'assistant', content: [], source: {} }],
    ['holds other blocks', { id: 'm', role: 'user', content: [{ type: 'x' }], source: {} }],
  ])('cannot defer a context that %s', async (_, message) => {
    const body = tool((_args, context) => context.deferContext(message as never));
    const t = arranged(body, [['c1', 'probe']]);
    await t.run();
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { name: 'TypeError' } });
  });

  it('gets a signal that aborts with the turn', async () => {
    const started = gate();
    const t = arranged(
      tool(
        (_, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason));
            started.open();
          }),
      ),
      [['c1', 'probe']],
    );
    const ran = t.run();
    await started.wait();
    t.flag.raise(1, 'user');
    t.main.send({ type: 'interrupt', turn: 1 });
    await ran;
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { name: 'AbortError' } });
    expect(t.main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });

  it('is not begun once the flag is raised', async () => {
    let runs = 0;
    const t = arranged(
      tool(() => void runs++),
      [['c1', 'probe']],
      {
        callTool() {
          t.flag.raise(1, 'user');
          return { done: false, runHere: true, args: {} };
        },
      },
    );
    await t.run();
    expect(runs).toBe(0);
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { code: 'ABORTED_BEFORE_DISPATCH' } });
  });

  it('is told by its signal when its time is up, and fails with TOOL_TIMEOUT', async () => {
    const t = arranged(
      tool(
        (_, { signal }) =>
          new Promise((resolve) => signal.addEventListener('abort', () => resolve('too late'))),
        { timeoutMs: 250 },
      ),
      [['c1', 'probe']],
    );
    const ran = t.run();
    await t.main.untilSeen('callTool(c1)');
    await untilDelay(t, 1);
    expect(t.delays[0]?.ms).toBe(250);
    t.delays[0]?.end();
    await ran;
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { code: 'TOOL_TIMEOUT' } });
  });

  it('fails with TOOL_TIMEOUT also when it does not heed its signal', async () => {
    const t = arranged(
      tool(() => new Promise(() => {}), { timeoutMs: 250 }),
      [['c1', 'probe']],
    );
    const ran = t.run();
    await untilDelay(t, 1);
    t.delays[0]?.end();
    await untilDelay(t, 2);
    t.delays[1]?.end();
    await ran;
    expect(t.outcomes[0]).toMatchObject({ ok: false, error: { code: 'TOOL_TIMEOUT' } });
  });

  it('leaves no timer when it ends in time', async () => {
    const t = arranged(
      tool(() => 'quick', { timeoutMs: 250 }),
      [['c1', 'probe']],
    );
    await t.run();
    expect(t.outcomes[0]).toMatchObject({ ok: true });
    expect(t.delays[0]?.signal.aborted).toBe(true);
  });
});

describe('the calls of one step', () => {
  it('are asked for in the order of the model, no more at once than allowed', async () => {
    const gates = [gate(), gate(), gate()];
    let open = 0;
    const t = arranged(
      [],
      [
        ['c0', 'a'],
        ['c1', 'b'],
        ['c2', 'c'],
      ],
      {
        async callTool({ callId }) {
          await gates[Number(callId.slice(1))]?.wait();
          return { done: true, concludesTurn: false };
        },
      },
      { init: { toolConcurrency: 2 } },
    );
    const ran = t.run();
    await t.main.untilSeen('callTool(c1)');
    expect(requests(t).map(({ callId }) => callId)).toEqual(['c0', 'c1']);
    gates[1]?.open();
    await t.main.untilSeen('callTool(c2)');
    expect(open++).toBe(0);
    gates[0]?.open();
    gates[2]?.open();
    await ran;
  });

  it('say of a module tool what its own classifier says of the arguments', async () => {
    const isConcurrencySafe = (args: JsonObject): boolean => {
      if (args['fail'] === true) throw new Error('cannot tell');
      return args['read'] === true;
    };
    const t = arranged(
      tool(() => null, { isConcurrencySafe }),
      [
        ['c1', 'probe', '{"read":true}'],
        ['c2', 'probe', '{}'],
        ['c3', 'probe', '{"fail":true}'],
        ['c4', 'probe', 'no json'],
        ['c5', 'other', '{}'],
      ],
      { callTool: () => ({ done: true, concludesTurn: false }) },
    );
    await t.run();
    expect(requests(t).map(({ concurrencySafe }) => concurrencySafe)).toEqual([
      true,
      false,
      false,
      false,
      undefined,
    ]);
  });

  it('end the turn when main cannot settle one, after those that run are done', async () => {
    const held = gate();
    const t = arranged(
      [],
      [
        ['c0', 'a'],
        ['c1', 'b'],
        ['c2', 'c'],
      ],
      {
        async callTool({ callId }) {
          if (callId === 'c0') throw Object.assign(new Error('disk full'), { code: 'STORE_FULL' });
          await held.wait();
          return { done: true, concludesTurn: false };
        },
      },
      { init: { toolConcurrency: 2 } },
    );
    const ran = t.run();
    await t.main.untilSeen('callTool(c1)');
    await new Promise((resolve) => setImmediate(resolve));
    expect(t.main.count('step/end')).toBe(0);
    held.open();
    await ran;
    expect(requests(t)).toHaveLength(2);
    expect(t.main.eventsOf('turn/end')[0]?.reason).toMatchObject({ error: { code: 'STORE_FULL' } });
  });
});

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
}
async function untilDelay({ delays }: FakeAgent, count: number): Promise<void> {
  while (delays.length < count) await new Promise((resolve) => setImmediate(resolve));
}
