/** Who gets a thread when many wait for one. */
import { expect, it } from 'vitest';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { settled, until } from '../support/until.ts';

const begin = (rt: TestHarness, parent: Agent, label: string) =>
  rt.harness.subagents.start('spawn', {
    parent,
    label,
    prompt: 'Work.',
    signal: new AbortController().signal,
  });

it('is one root after the other, however much one of them has started, at any depth', async () => {
  await using rt = await testHarness({ limits: { maxThreads: 1 }, script: () => 'Done.' });
  await rt.rootHandle.dispose();
  const hosts = [1, 2].map(() => rt.harness.agents.createHost());
  const [a, b] = (await Promise.all(hosts)).map(({ agent }) => agent) as [Agent, Agent];
  const order: string[] = [];
  const run = async (parent: Agent, label: string): Promise<void> => {
    const child = await begin(rt, parent, label);
    order.push(label);
    await child.result;
    await child.dispose();
  };
  const runs = ['a1', 'a2', 'a3', 'a4'].map((label) => run(a, label));
  runs.push(...['b1', 'b2'].map((label) => run(b, label)));
  await Promise.all(runs);
  expect(order).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
});

it('is nobody when the machine bears no thread: the start is refused, and why', async () => {
  let most = 1;
  const machine = { bound: 'memory maps', most: () => most };
  await using rt = await testHarness({ machine, script: () => 'Done.' });
  await rt.rootHandle.dispose();
  const { agent: host } = await rt.harness.agents.createHost();
  most = 0;
  await expect(begin(rt, host, 'a')).rejects.toMatchObject({
    code: 'CAPACITY',
    message: expect.stringContaining('the machine bears no further one, for want of memory maps'),
  });
  most = 1;
  const run = await begin(rt, host, 'a');
  await run.dispose();
});

it('is given up by a whole tree whose root ends while its starts wait', async () => {
  const held = gate();
  await using rt = await testHarness({
    limits: { maxThreads: 1, maxLiveChildren: 3 },
    script: () => ({ hold: held, text: 'Done.' }),
  });
  await rt.rootHandle.dispose();
  const owner = await rt.harness.agents.createHost();
  const { agent: other } = await rt.harness.agents.createHost();
  await begin(rt, owner.agent, 'a1');
  await held.arrived();
  const starts = ['a2', 'a3'].map((label) => begin(rt, owner.agent, label));
  const late = begin(rt, other, 'b1');
  const ends = Promise.allSettled(starts);
  await settled();
  held.open();
  await owner.dispose();
  for (const end of await ends) expect(end.status).toBe('rejected');
  const run = await late;
  await run.dispose();
  await until(() => rt.harness.agents.list().length === 1);
});
