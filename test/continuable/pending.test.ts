/** How many messages may wait for one agent. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import { gate } from '../../src/base/gate.ts';
import { text } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import { settled, until } from '../support/until.ts';
import { waiting } from '../worker-host/agent-words.ts';
import { insertions } from './children.ts';
import { continuing, holding, told } from './continuing.ts';

const limits = { maxPending: 2 };
const CAPACITY = {
  name: 'SubagentError',
  code: 'CAPACITY',
  message: expect.stringContaining('limits.maxPending is 2'),
};

describe('what waits for an agent', () => {
  it.each(['followup', 'steer', 'inject'] as const)(
    'has a bound, beyond which %s throws and nothing is accepted',
    async (how) => {
      const held = gate();
      await using rt = await testHarness({ limits, script: [{ hold: held, text: 'A' }, 'B', 'C'] });
      rt.root.followup(message('go'));
      await held.arrived();
      rt.root.followup(message('one'));
      rt.root.inject(message('two'));
      const { seq } = rt.root.session;
      expect(() => rt.root[how](message('three'))).toThrow(expect.objectContaining(CAPACITY));
      expect(rt.root.session.seq).toBe(seq);
      expect(waiting(rt.root)).toEqual([['two'], ['one']]);
      held.open();
      await rt.root.whenIdle();
      await rt.ask('three');
    },
  );

  it('has it for a host without a loop as well', async () => {
    await using rt = await testHarness({ limits });
    const { agent: host } = await rt.harness.agents.createHost();
    host.followup(message('one'));
    host.followup(message('two'));
    expect(() => host.followup(message('three'))).toThrow(expect.objectContaining(CAPACITY));
  });

  it('has none where it was taken away', async () => {
    await using rt = await testHarness({ limits: { maxPending: 'unlimited' } });
    const { agent: host } = await rt.harness.agents.createHost();
    for (let i = 0; i < 10_001; i++) host.inject(message('more'));
    expect(host.inbox.nextStep).toHaveLength(10_001);
  });

  it('may be followed by what its own tools defer', async () => {
    const held = gate();
    const note = {
      name: 'note',
      description: 'Notes.',
      parameters: { type: 'object' },
      async execute(_: unknown, { deferContext }: ToolContext<unknown>) {
        for (const words of ['a', 'b', 'c']) deferContext(message(words));
        await held.wait();
        return 'Noted.';
      },
    };
    await using rt = await testHarness({
      limits,
      tools: [note],
      script: [{ toolCalls: [{ name: 'note', arguments: {} }] }, 'A', 'B'],
    });
    rt.root.followup(message('go'));
    await held.arrived();
    for (const words of ['one', 'two']) rt.root.inject(message(words));
    held.open();
    await rt.root.whenIdle();
    expect(told(rt.root)).toEqual(['go', 'one', 'two', 'a', 'b', 'c']);
  });

  it('is not added to by one call without bound', async () => {
    const failures: unknown[] = [];
    const note = {
      name: 'note',
      description: 'Notes.',
      parameters: { type: 'object' },
      execute(_: unknown, { deferContext }: ToolContext<unknown>) {
        try {
          for (;;) deferContext(message('more'));
        } catch (error) {
          failures.push(error);
        }
      },
    };
    await using rt = await testHarness({
      tools: [note],
      script: [{ toolCalls: [{ name: 'note', arguments: {} }] }, 'A'],
    });
    await rt.ask('go');
    expect(failures).toMatchObject([{ code: 'INVALID_ARGUMENT' }]);
    expect(told(rt.root)).toHaveLength(101);
  });
});

describe('what waits for a child', () => {
  it('has the bound for follow-ups, none of which is accepted beyond it', async () => {
    const held = gate();
    await using t = await continuing({ limits, script: holding({ 'Work.': held }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await held.arrived();
    for (const words of ['One.', 'Two.']) await t.tell(childId, words);
    await expect(t.tell(childId, 'Three.')).rejects.toMatchObject(CAPACITY);
    held.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.', 'One.', 'Two.']);
  });

  it('has it also when the child has to be brought back, which then goes again', async () => {
    const held = gate();
    await using t = await continuing({
      limits,
      script: ({ sessionId }) =>
        sessionId === t.root.id ? 'Heard.' : { hold: held, throws: new Error('It broke.') },
    });
    const { childId } = await t.start();
    await held.arrived();
    for (const words of ['One.', 'Two.']) await t.tell(childId, words);
    held.open();
    await t.gone(childId);
    await expect(t.tell(childId, 'Three.')).rejects.toMatchObject(CAPACITY);
    await until(() => t.agents.get(childId) === undefined);
    expect(t.model.requests.filter(({ sessionId }) => sessionId === childId)).toHaveLength(1);
  });
});

describe('what waits for a parent', () => {
  const full = async (host: Agent) => {
    for (const words of ['one', 'two']) host.inject(message(words));
  };

  it('is not added to by a report beyond the bound, and always by the notice of an end', async () => {
    const held = gate();
    await using t = await continuing({ limits, script: holding({ 'Work.': held }) });
    const { agent: host } = await t.agents.createHost();
    const { childId } = await t.start({ request: { parent: host, prompt: [text('Work.')] } });
    const child = t.agents.get(childId)!;
    await held.arrived();
    await full(host);
    for (const delivery of ['quiet', 'wakeup', 'next-step'] as const) {
      await expect(
        t.subagents.reportFrom(child, 'Half of it.', { delivery }),
      ).rejects.toMatchObject(CAPACITY);
    }
    held.open();
    await until(() => t.agents.get(childId) === undefined);
    await settled();
    expect(insertions(host).map(({ message: { source } }) => source.kind)).toEqual([
      'user',
      'user',
      'subagent-settled',
    ]);
  });
});
