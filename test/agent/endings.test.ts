/** Starts and ends that meet each other, and failures on the way out. */
import { expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { gate } from '../support/gate.ts';
import { testHarness } from '../support/harness.ts';
import { settled } from '../support/until.ts';

const boom = (): never => {
  throw new Error('undo');
};

it('tells whoever disposes of a parent what failed, though a child takes its time', async () => {
  await using rt = await testHarness();
  const held = gate();
  const { agents } = rt.harness;
  const parent = await agents.create({ setup: (child) => child.onDispose(boom) });
  await agents.create({
    owner: parent.agent,
    setup: (child) => child.onDispose(() => held.wait()),
  });
  const disposal = parent.dispose();
  await settled();
  held.open();
  await expect(disposal).rejects.toThrow('undo');
  expect(agents.list()).toEqual([rt.root]);
});

it('tells why a start failed, not what failed while it was taken back, and gives the session up', async () => {
  const store = new MemoryStore();
  {
    await using rt = await testHarness({ store, script: ['Hello.'] });
    const { agent } = await rt.harness.agents.create({ sessionId: 'kept' });
    await rt.ask('Hi', agent);
  }
  await using rt = await testHarness({ store });
  const { agents } = rt.harness;
  const failing = agents.resume('kept', {
    setup(child) {
      child.onDispose(boom);
      throw new Error('setup');
    },
  });
  await expect(failing).rejects.toThrow('setup');
  const { agent } = await agents.resume('kept');
  expect(agent.id).toBe(SessionId('kept'));
});

it('minds an abort that comes while the agent is composed', async () => {
  await using rt = await testHarness();
  const controller = new AbortController();
  const reason = new Error('Changed my mind.');
  const creation = rt.harness.agents.create({
    signal: controller.signal,
    setup: () => controller.abort(reason),
  });
  await expect(creation).rejects.toBe(reason);
  expect(rt.harness.agents.list()).toEqual([rt.root]);
});

it('ends a child that is being made with its owner', async () => {
  const held = gate();
  let isHeld = false;
  await using rt = await testHarness({
    tools: [{ module: new URL('file:///held.mjs') }],
    threads: {
      async import() {
        if (isHeld) await held.wait();
        return { default: [] };
      },
    },
  });
  const owner = await rt.harness.agents.create();
  isHeld = true;
  const creation = rt.harness.agents.create({ owner: owner.agent });
  creation.catch(() => {});
  await settled();
  await owner.dispose();
  await expect(creation).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
  expect(rt.harness.agents.list()).toEqual([rt.root]);
  held.open();
});

it('leaves nothing on a signal that outlives the agents made with it', async () => {
  await using rt = await testHarness();
  const { signal } = new AbortController();
  const added: string[] = [];
  const removed: string[] = [];
  const watched = new Proxy(signal, {
    get(target, key) {
      const value = Reflect.get(target, key, target) as unknown;
      if (typeof value !== 'function') return value;
      return (...given: unknown[]) => {
        if (key === 'addEventListener') added.push(String(given[0]));
        if (key === 'removeEventListener') removed.push(String(given[0]));
        return (value as (...all: unknown[]) => unknown).apply(target, given);
      };
    },
  });
  const handle = await rt.harness.agents.create({ signal: watched });
  expect(added.length).toBeGreaterThan(0);
  expect(removed).toEqual(added);
  await handle.dispose();
});

it('keeps what waits for a child when the harness ends, and drops it when its parent is disposed', async () => {
  const store = new MemoryStore();
  const waiting = async (end: 'harness' | 'parent') => {
    {
      await using rt = await testHarness({ store, script: ['Hello.'] });
      const parent = await rt.harness.agents.create();
      const child = await rt.harness.agents.create({ sessionId: end, owner: parent.agent });
      child.agent.inject(createUserMessage('For later.'));
      await child.agent.session.committed();
      if (end === 'parent') await parent.dispose();
    }
    await using rt = await testHarness({ store });
    const { agent } = await rt.harness.agents.resume(end);
    return agent.inbox.nextStep.map(({ content }) => content);
  };
  expect(await waiting('parent')).toEqual([]);
  expect(await waiting('harness')).toEqual([[{ type: 'text', text: 'For later.' }]]);
});
