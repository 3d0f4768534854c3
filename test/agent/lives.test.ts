import { describe, expect, it } from 'vitest';
import { WorkerError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { gate } from '../support/gate.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled } from '../support/until.ts';
import { watch } from './watch.ts';

describe('disposing', () => {
  it('discards what waits, tells it once, and refuses what comes later', async () => {
    await using temp = await tempStore();
    await using rt = await testHarness({ store: temp.path, script: ['One.'] });
    const handle = await rt.harness.agents.create({ sessionId: 'x' });
    await rt.ask('Hi', handle.agent);
    handle.agent.inject(message('aside'));
    const told = watch(rt.harness);
    const first = handle.dispose();
    expect(handle.dispose()).toBe(first);
    expect(() => handle.agent.followup(message('late'))).toThrow(
      expect.objectContaining({ code: 'DRAINING' }),
    );
    // Until the end it is found, and its log is told.
    expect(rt.harness.agents.get(handle.agent.id)).toBe(handle.agent);
    await first;
    expect(told).toEqual(['agent/disposed', 'session/disposed']);
    expect(rt.harness.agents.get(handle.agent.id)).toBeUndefined();
    const { events } = await rt.harness.sessions.inspect(handle.agent.id);
    expect(events.at(-1)?.data).toMatchObject({ outcome: 'canceled', removedCount: 1 });
  });

  it('of the harness keeps what waits for the next life', async () => {
    const store = new MemoryStore();
    {
      await using rt = await testHarness({ store, script: ['One.'] });
      const { agent } = await rt.harness.agents.create({ sessionId: 'x' });
      await rt.ask('Hi', agent);
      agent.inject(message('aside'));
    }
    await using rt = await testHarness({ store, script: ['Two.', 'Three.'] });
    const { agent } = await rt.harness.agents.resume('x');
    expect(agent.inbox.nextStep).toHaveLength(1);
    expect(agent.session.lastTurn).toBe(1);
    await settled();
    expect(rt.model.requests).toEqual([]);
    await rt.ask('Again', agent);
    expect(agent.session.lastTurn).toBe(2);
    expect(eventTypes(agent.session).filter((type) => type === 'request/header')).toHaveLength(2);
    const headers = agent.session.events.flatMap((event) =>
      event.type === 'request/header' ? [event.data.reason] : [],
    );
    expect(headers).toEqual(['initial', 'resume']);
  });

  it('of the harness refuses what is being made, and everything after', async () => {
    const rt = await testHarness();
    const creation = rt.harness.agents.create().catch((error: unknown) => error);
    const host = rt.harness.agents.createHost({ sessionId: 'h' }).catch((error: unknown) => error);
    const disposal = rt.harness.dispose();
    expect(rt.harness.dispose()).toBe(disposal);
    await disposal;
    expect(await creation).toMatchObject({ code: 'DRAINING' });
    expect(await host).toMatchObject({ code: 'DRAINING' });
    await expect(rt.harness.agents.create()).rejects.toMatchObject({ code: 'DRAINING' });
    await expect(rt.harness.agents.createHost()).rejects.toMatchObject({ code: 'DRAINING' });
    expect(rt.harness.agents.list()).toEqual([]);
  });
});

describe('resuming', () => {
  it('is refused for a session that is unknown, live, or held elsewhere', async () => {
    await using temp = await tempStore();
    await using rt = await testHarness({ store: temp.path, script: ['One.'] });
    const handle = await rt.harness.agents.create({ sessionId: 'x' });
    await rt.ask('Hi', handle.agent);
    const { agents } = rt.harness;
    await expect(agents.resume('nobody')).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await expect(agents.resume('x')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await using other = await testHarness({ store: temp.path });
    await expect(other.harness.agents.resume('x')).rejects.toMatchObject({
      code: 'SESSION_OWNED_ELSEWHERE',
    });
    await handle.dispose();
    const resumed = await other.harness.agents.resume('x');
    expect(resumed.agent.session.lastTurn).toBe(1);
  });

  it('runs what waited first, in order, at the next waking message', async () => {
    const store = new MemoryStore();
    {
      await using rt = await testHarness({ store, script: [{ hold: gate() }] });
      const { agent } = await rt.harness.agents.create({ sessionId: 'x' });
      for (const text of ['one', 'two', 'three']) agent.followup(message(text));
      await settled();
    }
    await using rt = await testHarness({ store, script: ['A.', 'B.', 'C.'] });
    const { agent } = await rt.harness.agents.resume('x');
    await rt.ask('four', agent);
    const prompts = rt.model.requests.map(({ messages }) => messages.at(-1)?.content);
    expect(prompts).toEqual(['two', 'three', 'four'].map((text) => [{ type: 'text', text }]));
  });

  it('gives the session up again when its thread does not start', async () => {
    await using temp = await tempStore();
    {
      await using rt = await testHarness({ store: temp.path, script: ['One.'] });
      const { agent } = await rt.harness.agents.create({ sessionId: 'x' });
      await rt.ask('Hi', agent);
    }
    const failure = new WorkerError('WORKER_START_FAILED', 'No thread today.');
    await using rt = await testHarness({
      store: temp.path,
      threads: { failStart: (index) => (index === 1 ? failure : undefined) },
    });
    await expect(rt.harness.agents.resume('x')).rejects.toBe(failure);
    await using other = await testHarness({ store: temp.path });
    await other.harness.agents.resume('x');
  });
});
