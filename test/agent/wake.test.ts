/** Waking hosts, and children that go on. */
import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled } from '../support/until.ts';
import { family } from '../continuable/children.ts';
import { USER, ends, waiting } from '../worker-host/agent-words.ts';

const KEEP = { keepInbox: true };
const texts = (batch: readonly UserMessage[]): string[] =>
  batch.map(({ content }) => textOf(content));

describe('waking a host', () => {
  it('hands over what an earlier life left', async () => {
    await using temp = await tempStore();
    const store = temp.path;
    {
      await using rt = await testHarness({ store });
      const { agent } = await rt.harness.agents.createHost({ sessionId: 'server' });
      agent.followup(message('waits'));
      agent.inject(message('aside'));
      await rt.harness.sessions.flush(agent.session);
    }
    const batches: string[][] = [];
    await using rt = await testHarness({ store });
    const { agent } = await rt.harness.agents.createHost({
      sessionId: 'server',
      onMessage: (batch) => void batches.push(texts(batch)),
    });
    await settled();
    expect(batches).toEqual([]);
    agent.wake();
    await agent.whenIdle();
    expect(batches).toEqual([['aside', 'waits']]);
  });

  it('hands what a failure parked to onMessage, also from a listener of that failure', async () => {
    const batches: string[][] = [];
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      onMessage(batch) {
        batches.push(texts(batch));
        if (batches.length === 1) throw new Error('Not so.');
      },
    });
    rt.harness.on('agent/error', () => agent.wake(), { agent });
    agent.followup(message('one'));
    agent.followup(message('two'));
    await agent.whenIdle();
    await settled();
    await agent.whenIdle();
    expect(batches).toEqual([['one'], ['two']]);
    expect(ends(agent.session)).toEqual(['error UNKNOWN', 'completed']);
  });

  it('opens its turn after that tick: a stop in it comes first, and nothing is spent', async () => {
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({ onMessage() {} });
    agent.followup(message('one'));
    agent.cancel(USER, KEEP);
    await settled();
    agent.wake();
    agent.cancel(USER, KEEP);
    await settled();
    expect([agent.status, agent.session.lastTurn, waiting(agent)]).toEqual([
      'idle',
      0,
      [[], ['one']],
    ]);
  });

  it('opens its turn after an event of its log that is being told', async () => {
    const batches: string[][] = [];
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      onMessage: (batch) => void batches.push(texts(batch)),
    });
    agent.followup(message('one'));
    agent.cancel(USER, KEEP);
    await settled();
    // Nothing can be written while it is told.
    const undo = rt.harness.on('session/event', () => {
      undo();
      agent.wake();
    });
    agent.inject(message('aside'));
    await agent.whenIdle();
    expect(batches).toEqual([['aside', 'one']]);
  });

  it('gives what waits to a reader, who may come later', async () => {
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost();
    host.agent.inject(message('aside'));
    const reader = host.messages()[Symbol.asyncIterator]();
    const first = reader.next();
    await settled();
    expect(host.agent.status).toBe('idle');
    host.agent.wake();
    expect(texts((await first).value as UserMessage[])).toEqual(['aside']);
    await reader.return?.();
    await host.agent.whenIdle();
    host.agent.inject(message('later'));
    host.agent.wake();
    await settled();
    for await (const batch of host.messages()) {
      expect(texts(batch)).toEqual(['later']);
      break;
    }
  });

  it('does nothing when nothing waits, nor beside a batch that is being answered', async () => {
    const held = gate();
    const batches: string[][] = [];
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      async onMessage(batch) {
        batches.push(texts(batch));
        await held.wait();
      },
    });
    agent.wake();
    expect(agent.status).toBe('idle');
    agent.followup(message('one'));
    await held.arrived();
    agent.inject(message('aside'));
    agent.wake();
    await settled();
    expect(batches).toEqual([['one']]);
    held.open();
    await agent.whenIdle();
    expect(batches).toEqual([['one'], ['aside']]);
  });

  it('is refused once it is disposed', async () => {
    await using rt = await testHarness();
    const { agent, dispose } = await rt.harness.agents.createHost();
    await dispose();
    expect(() => agent.wake()).toThrow(
      expect.objectContaining({ code: 'DRAINING', message: expect.stringContaining('disposed') }),
    );
  });
});

describe('waking a child that goes on', () => {
  it('runs what an interrupt parked, and it settles after that', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }, 'B'] });
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'B.');
    child.cancel(USER, KEEP);
    held.open();
    await child.whenIdle();
    await settled();
    expect([all.isLive(child), waiting(child)]).toEqual([true, [[], ['B.']]]);
    child.wake();
    expect(child.status).toBe('running');
    await all.gone(child);
    expect(ends(child.session)).toEqual(['aborted user', 'completed']);
  });

  it('keeps it, when a failure has just parked what waits', async () => {
    const failure = { code: 'AUTH', message: 'No key.' };
    const held = gate();
    await using all = await family({ child: [{ text: [held], failure }, 'B'] });
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'B.');
    // Idle from here on, and about to be judged: it would settle as failed.
    const undo = all.rt.harness.on(
      'agent/status',
      ({ status }) => {
        if (status !== 'idle') return;
        undo();
        child.wake();
      },
      { agent: child },
    );
    held.open();
    await all.gone(child);
    expect(ends(child.session)).toEqual(['error AUTH', 'completed']);
  });

  it('is refused from its release on, and says how to tell it more', async () => {
    await using all = await family({ child: ['A', 'B'] });
    const child = await all.start();
    const { promise, resolve } = deferred<unknown>();
    all.rt.harness.on('subagent/end', () => {
      try {
        child.wake();
      } catch (error) {
        resolve(error);
      }
    });
    const hint = expect.stringContaining('has settled; use harness.subagents.followup');
    expect(await promise).toMatchObject({ code: 'DRAINING', message: hint });
    await all.gone(child);
    for (const tell of ['followup', 'steer', 'inject'] as const) {
      expect(() => child[tell](message('late'))).toThrow(
        expect.objectContaining({ code: 'DRAINING', message: hint }),
      );
    }
  });
});
