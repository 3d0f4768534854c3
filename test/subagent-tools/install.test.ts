import { describe, expect, it } from 'vitest';
import { installSubagentTools } from '../../src/subagent-tools/install.ts';
import type { SubagentProvider } from '../../src/subagents/provider.ts';
import { NO_CAPABILITIES, stubProvider } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { continuable, talking } from './talking.ts';

const named = (more: Partial<SubagentProvider> = {}): SubagentProvider => ({
  ...stubProvider({ name: 'later' }).provider,
  ...more,
});

/** What the model of a new root is shown. */
async function shown(
  rt: TestHarness,
): Promise<{ names: string[]; description: string; system: string }> {
  await rt.ask('What do you see?');
  const { tools = [], system = '' } = rt.model.requests.at(-1)!;
  const description = tools.find(({ name }) => name === 'subagent')?.description ?? '';
  return { names: tools.map(({ name }) => name), description, system };
}

describe('installSubagentTools', () => {
  it('gives by default one tool whose children go on, and what goes with it', async () => {
    await using rt = await testHarness({ script: () => 'Well.' });
    const withdraw = installSubagentTools(rt.harness);
    const { names, system } = await shown(rt);
    expect(names).toEqual(['interrupt_agent', 'list_agents', 'send_message', 'subagent']);
    expect(system).toMatch(/`subagent`/);
    withdraw();
    withdraw();
    expect(await shown(rt)).toEqual({ names: [], description: '', system: '' });
  });

  it('has the tool come and go with its provider, in the words of each', async () => {
    await using rt = await testHarness({ script: () => 'Well.', providers: [] });
    const { subagents } = rt.harness;
    const withdraw = installSubagentTools(rt.harness, { delegation: [{ provider: 'later' }] });
    expect((await shown(rt)).names).toEqual(['job_kill', 'job_output']);
    const unregister = subagents.registerProvider(named());
    subagents.registerProvider(stubProvider({ name: 'another' }).provider);
    expect((await shown(rt)).description).toMatch(/knows nothing of this conversation/);
    unregister();
    expect((await shown(rt)).names).toEqual(['job_kill', 'job_output']);
    const again = subagents.registerProvider(named({ inheritsParentContext: true }));
    expect((await shown(rt)).description).toMatch(/knows this conversation/);
    again();
    withdraw();
    subagents.registerProvider(named());
    expect((await shown(rt)).names).toEqual([]);
  });

  it('has a provider refused that comes later and cannot do what its tool is for', async () => {
    await using rt = await testHarness({ providers: [] });
    installSubagentTools(rt.harness, { delegation: [{ provider: 'later', maxDepth: 2 }] });
    expect(() =>
      rt.harness.subagents.registerProvider(named({ capabilities: NO_CAPABILITIES })),
    ).toThrow(expect.objectContaining({ code: 'UNSUPPORTED_CAPABILITY' }));
    expect(rt.harness.subagents.list()).toEqual([]);
  });

  it.each<[string, object, string | RegExp]>([
    ['an empty filter', { delegation: [{ provider: 'spawn', toolFilter: {} }] }, /neither/],
    ['a bad depth', { delegation: [{ provider: 'spawn', maxDepth: -1 }] }, /depth/i],
    [
      'the same name twice',
      { delegation: [{ provider: 'spawn' }, { provider: 'fork' }] },
      /already/,
    ],
    ['a switch that is none', { control: 'yes' }, /true or false/],
    ['a way of delivery that is none', { report: { delivery: 'soon' } }, /quiet, wakeup/],
    ['a key that is none', { tools: [] }, /has no "tools"/],
  ])('leaves nothing behind when it is given %s', async (_, options, words) => {
    await using rt = await testHarness({ script: () => 'Well.' });
    expect(() => installSubagentTools(rt.harness, options)).toThrow(words);
    expect(await shown(rt)).toEqual({ names: [], description: '', system: '' });
  });

  it('says nothing in the prompt of an agent from which the tool is hidden', async () => {
    await using t = await talking(
      () => 'Noted.',
      () => 'Done.',
      {
        delegation: [{ ...continuable, toolFilter: { deny: ['subagent'] } }],
      },
    );
    const start = (toolFilter?: { deny: string[] }) =>
      t.rt.harness.subagents.startContinuable({
        provider: 'spawn',
        label: 'child',
        request: {
          parent: t.root,
          prompt: 'Work.',
          agentOptions: { provider: 'child', model: 'test' },
          ...(toolFilter === undefined ? {} : { toolFilter }),
        },
        signal: new AbortController().signal,
      });
    const first = await start({ deny: ['subagent'] });
    await t.rt.harness.agents.get(first.childId)?.whenIdle();
    await start();
    await t.root.whenIdle();
    while (t.childModel.requests.length < 2) await new Promise(setImmediate);
    const [hidden, seen] = t.childModel.requests;
    expect(hidden?.system ?? '').not.toMatch(/`subagent`/);
    expect(seen?.system).toMatch(/`subagent`/);
    while (t.rt.harness.agents.list().length > 1) await new Promise(setImmediate);
    await t.root.whenIdle();
  });
});
