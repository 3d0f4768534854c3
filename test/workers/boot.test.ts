import { describe, expect, it } from 'vitest';
import { defineTool } from '../../protocol/tool.ts';
import { gate } from '../../src/base/gate.ts';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import type { FakeAgent } from '../support/fake-main.ts';
import { asksFor, begins } from '../support/parts.ts';

const probe = (name = 'probe') =>
  defineTool({ name, description: 'Probe.', parameters: { type: 'object' }, execute: () => null });
const URL_A = 'file:///a.js';
const URL_B = 'file:///b.js';

function loading(modules: Readonly<Record<string, unknown>>, options?: unknown): FakeAgent {
  return fakeAgent({
    modules,
    init: {
      toolModules: Object.keys(modules).map((url) => ({
        url,
        ...(options === undefined ? {} : { options }),
      })),
    },
  });
}
async function faultOf({ agent, main }: FakeAgent): Promise<string> {
  await agent.done;
  await main.until(() => main.isClosed);
  const fault = main.frames.find((frame) => frame.type === 'fault');
  expect(main.frames).toHaveLength(1);
  expect(fault?.error.code).toBe('WORKER_START_FAILED');
  return fault?.error.message ?? '';
}

describe('boot', () => {
  it('says ready with the tools of its modules, and nothing of what only they know', async () => {
    const t = loading({ [URL_A]: probe('a'), [URL_B]: [probe('b'), probe('c')] });
    await t.main.untilSeen('ready');
    await t.stop();
    const spec = { description: 'Probe.', parameters: { type: 'object' } };
    expect(t.main.frames[0]).toEqual({
      type: 'ready',
      tools: [
        { name: 'a', ...spec },
        { name: 'b', ...spec },
        { name: 'c', ...spec },
      ],
    });
  });

  it.each<[string, (options: never) => unknown]>([
    ['one tool', ({ name }: { name: string }) => probe(name)],
    ['a promise of several', async ({ name }: { name: string }) => [probe(name)]],
  ])('calls a default export that is a function with its options: %s', async (_, make) => {
    const t = loading({ [URL_A]: make }, { name: 'made' });
    await t.main.untilSeen('ready');
    await t.stop();
    expect(t.main.frames[0]).toMatchObject({ tools: [{ name: 'made' }] });
  });

  it.each<[string, unknown, RegExp]>([
    ['has no default export', undefined, /no default export/],
    ['exports no object', 'text', /its tool is no object/],
    ['exports a tool without a name', { ...probe(), name: undefined }, /"name"/],
    ['exports a tool with a bad name', probe('no spaces'), /"name": no spaces/],
    [
      'lacks a description',
      [probe(), { ...probe('x'), description: 1 }],
      /tool 1 \("x"\) "description"/,
    ],
    ['lacks parameters', { ...probe(), parameters: 'object' }, /"parameters"/],
    ['has parameters that are no JSON', { ...probe(), parameters: { a: () => 1 } }, /"parameters"/],
    ['lacks a body', { ...probe(), execute: undefined }, /"execute"/],
    ['has an output that cannot be shown', { ...probe(), output: {} }, /"output"/],
    ['has no usable time limit', { ...probe(), timeoutMs: 0 }, /"timeoutMs"/],
    ['has no usable classifier', { ...probe(), isConcurrencySafe: true }, /"isConcurrencySafe"/],
    ['names two tools alike', [probe(), probe()], /named "probe" is loaded already/],
    [
      'throws in its default export',
      () => {
        throw new Error('no key');
      },
      /default export threw: no key/,
    ],
  ])('faults, naming the module, when one %s', async (_, exported, message) => {
    const told = await faultOf(loading({ [URL_A]: exported }));
    expect(told).toContain(URL_A);
    expect(told).toMatch(message);
  });

  it('faults when a module cannot be loaded', async () => {
    const t = fakeAgent({ init: { toolModules: [{ url: 'file:///missing.js' }] } });
    expect(await faultOf(t)).toMatch(/file:\/\/\/missing\.js.*Cannot find module/);
  });

  it('faults when two modules name a tool alike', async () => {
    expect(await faultOf(loading({ [URL_A]: probe(), [URL_B]: probe() }))).toMatch(
      /b\.js.*"probe" is loaded already/,
    );
  });

  it('faults when the module of the model is no model', async () => {
    const t = fakeAgent({ modules: { [URL_A]: { a: 1 } }, init: { modelModule: { url: URL_A } } });
    expect(await faultOf(t)).toMatch(/a\.js.*"stream"/);
  });

  it('ends the open turn when it is told to stop, then says so and closes its port', async () => {
    const t = fakeAgent({ script: { claim: claims(enter(1)), openModel: () => begins('Half') } });
    t.main.wake();
    await t.main.until(() => t.main.count('openModel') === 1 && t.main.partsInFlight === 0);
    await t.stop();
    expect(t.main.trail.filter((entry) => !entry.startsWith('claim')).slice(-4)).toEqual([
      'assistant/message',
      'step/end',
      'turn/end',
      'stopped',
    ]);
    expect(t.main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
    expect(t.ports.isClosed).toBe(true);
  });

  it('ends a turn that main opened while it was told to stop', async () => {
    const held = gate();
    const t = fakeAgent({
      script: {
        async claim() {
          await held.wait();
          return enter(1);
        },
      },
    });
    t.main.wake();
    await held.arrived();
    t.main.send({ type: 'stop', deadlineMs: 1_000 });
    held.open();
    await t.agent.done;
    await t.main.until(() => t.main.isClosed);
    expect(t.main.trail).toEqual(['ready', 'claim(turn,false)', 'step/end', 'turn/end', 'stopped']);
  });

  it.each(['claim', 'callTool', 'openModel'] as const)(
    'ends when the port closes during a call of %s',
    async (name) => {
      const t = fakeAgent({
        script: {
          claim: claims(enter(1)),
          openModel: () => asksFor(['c1', 'read']),
          [name]: () => new Promise<never>(() => {}),
        },
      });
      t.main.wake();
      await t.main.until(() => t.main.calls.at(-1)?.name === name);
      t.ports.close();
      await t.agent.done;
      expect(t.main.trail).not.toContain('stopped');
      expect(t.main.trail).not.toContain('fault');
    },
  );

  it('ends when the port closes while it waits for parts', async () => {
    const t = fakeAgent({ script: { claim: claims(enter(1)), openModel: () => begins('a') } });
    t.main.wake();
    await t.main.until(() => t.main.count('openModel') === 1 && t.main.partsInFlight === 0);
    t.ports.close();
    await t.agent.done;
    expect(t.main.events).toEqual([]);
  });

  it('names the turn it leaves open when something outside the loop breaks', async () => {
    const t = fakeAgent({ script: { claim: claims(enter(6)), openModel: () => begins('a') } });
    t.main.wake();
    await t.main.until(() => t.main.count('openModel') === 1 && t.main.partsInFlight === 0);
    t.agent.fault(Object.assign(new Error('late throw'), { code: 'E_LATE' }));
    await t.agent.done;
    await t.main.until(() => t.main.isClosed);
    expect(t.main.frames.at(-1)).toMatchObject({
      type: 'fault',
      turn: 6,
      error: { code: 'E_LATE', message: 'late throw' },
    });
    expect(t.main.events).toEqual([]);
  });

  it('keeps calls of several agents in one thread apart', async () => {
    const agents = [1, 2, 3].map((turn) =>
      fakeAgent({ script: { claim: claims(enter(turn), close(turn)) } }),
    );
    for (const { main } of agents) main.wake();
    await Promise.all(agents.map(({ main }) => main.untilSeen('turn/end')));
    await Promise.all(agents.map((t) => t.stop()));
    expect(agents.map(({ main }) => main.eventsOf('turn/end')[0]?.turn)).toEqual([1, 2, 3]);
  });
});
