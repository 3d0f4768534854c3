import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import type { Session } from '../../src/session/session.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled, until } from '../support/until.ts';

const texts = (batch: readonly UserMessage[]): string[] =>
  batch.map(({ content }) => textOf(content));
const ends = (session: Session): object[] =>
  session.events.flatMap(({ type, data }) => (type === 'turn/end' ? [data] : []));
const message = createUserMessage;

describe('a host that answers by onMessage', () => {
  it('gets one batch per turn, claimed and in the log before it is called', async () => {
    const batches: string[][] = [];
    const logs: string[][] = [];
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      onMessage(batch) {
        batches.push(texts(batch));
        logs.push(eventTypes(agent.session).slice(-3));
      },
    });
    agent.inject(message('aside'));
    agent.followup(message('one'));
    agent.followup(message('two'));
    await agent.whenIdle();
    expect(batches).toEqual([['aside', 'one'], ['two']]);
    expect(logs[0]).toEqual(['step/start', 'user/message', 'user/message']);
    expect(agent.session.durable).toBeGreaterThan(0);
    expect(ends(agent.session)).toEqual([
      { turn: 1, reason: { kind: 'completed' } },
      { turn: 2, reason: { kind: 'completed' } },
    ]);
  });

  it('is asked for one batch at a time', async () => {
    const held = gate();
    const batches: string[][] = [];
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      async onMessage(batch) {
        batches.push(texts(batch));
        await held.wait();
      },
    });
    agent.followup(message('one'));
    await until(() => batches.length === 1);
    agent.steer(message('meanwhile'));
    agent.followup(message('two'));
    expect(agent.status).toBe('running');
    expect(batches).toHaveLength(1);
    held.open();
    await agent.whenIdle();
    expect(batches).toEqual([['one'], ['meanwhile', 'two']]);
  });

  it('is never given a message that could not be kept', async () => {
    const store = new StallingStore();
    const claimed: string[] = [];
    await using rt = await testHarness({ store });
    const { agent } = await rt.harness.agents.createHost({ onMessage() {} });
    rt.harness.on('agent/inbox/claimed', (told) => claimed.push(...texts([told.message])), {
      agent,
    });
    const held = (store.hold = gate());
    agent.followup(message('one'));
    await held.arrived();
    // In the inbox when that one is kept, and their write is another, which fails.
    agent.steer(message('lost'));
    agent.followup(message('lost as well'));
    const next = (store.hold = gate());
    held.open();
    await next.arrived();
    const told = [...claimed];
    store.failure = new StoreError('STORE_FULL', 'The disk is full.');
    next.open();
    await until(() => !agent.inbox.hasPending);
    store.failure = undefined;
    store.hold = undefined;
    agent.followup(message('last'));
    await until(() => claimed.length > 1);
    await agent.whenIdle();
    expect(told).toEqual([]);
    expect(claimed).toEqual(['one', 'last']);
  });

  it('is given what came before its turn, in order, and what is not kept yet in a later one', async () => {
    const store = new StallingStore();
    const answering = gate();
    const batches: string[][] = [];
    await using rt = await testHarness({ store });
    const { agent } = await rt.harness.agents.createHost({
      async onMessage(batch) {
        batches.push(texts(batch));
        if (batches.length === 1) await answering.wait();
      },
    });
    agent.followup(message('one'));
    agent.steer(message('aside'));
    await until(() => batches.length === 1);
    agent.followup(message('two'));
    await rt.harness.sessions.flush(agent.session);
    const held = (store.hold = gate());
    agent.steer(message('before the turn'));
    await held.arrived();
    answering.open();
    await settled();
    const next = (store.hold = gate());
    agent.steer(message('after that'));
    agent.followup(message('three'));
    const opened = agent.session.lastTurn;
    held.open();
    await next.arrived();
    const waits = texts([...agent.inbox.nextStep, ...agent.inbox.nextTurn]);
    next.open();
    await agent.whenIdle();
    expect([opened, waits]).toEqual([1, ['after that', 'three']]);
    expect(batches).toEqual([
      ['aside', 'one'],
      ['before the turn', 'two'],
      ['after that', 'three'],
    ]);
  });

  it('that throws has a turn that failed, the batch spent, and the rest parked', async () => {
    const batches: string[][] = [];
    const errors: object[] = [];
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      onMessage(batch) {
        batches.push(texts(batch));
        if (batches.length === 1) throw Object.assign(new Error('Not so.'), { code: 'E_HOST' });
      },
    });
    rt.harness.on('agent/error', ({ turn, error }) => errors.push({ turn, ...error }), { agent });
    agent.followup(message('one'));
    agent.followup(message('two'));
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual([
      { turn: 1, reason: { kind: 'error', error: { code: 'E_HOST', message: 'Not so.' } } },
    ]);
    expect(errors).toEqual([{ turn: 1, code: 'E_HOST', message: 'Not so.' }]);
    expect(texts(agent.inbox.nextTurn)).toEqual(['two']);
    expect(agent.status).toBe('idle');

    agent.followup(message('three'));
    await agent.whenIdle();
    expect(batches).toEqual([['one'], ['two'], ['three']]);
  });

  it('that throws nothing in particular has a turn that failed all the same', async () => {
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({
      onMessage: () => Promise.reject(undefined),
    });
    agent.followup(message('one'));
    await agent.whenIdle();
    expect(ends(agent.session)).toMatchObject([{ reason: { kind: 'error' } }]);
  });

  it('whose turn is cancelled ends it with the first cause, once it answers', async () => {
    const held = gate();
    await using rt = await testHarness();
    const { agent } = await rt.harness.agents.createHost({ onMessage: () => held.wait() });
    agent.followup(message('one'));
    await until(() => eventTypes(agent.session).at(-1) === 'user/message');
    agent.followup(message('two'));
    agent.cancel({ kind: 'user' }, { keepInbox: true });
    agent.cancel({ kind: 'parent' }, { keepInbox: true });
    held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual([
      { turn: 1, reason: { kind: 'aborted', reason: { kind: 'user' } } },
    ]);
    expect(texts(agent.inbox.nextTurn)).toEqual(['two']);
  });

  it('is disposed without waiting for it, and its late answer changes nothing', async () => {
    const held = gate();
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost({ onMessage: () => held.wait() });
    const { agent } = host;
    agent.followup(message('one'));
    await until(() => eventTypes(agent.session).at(-1) === 'user/message');
    await host.dispose();
    expect(ends(agent.session)).toEqual([
      { turn: 1, reason: { kind: 'aborted', reason: { kind: 'disposed' } } },
    ]);
    const { seq } = agent.session;
    held.open();
    await settled();
    expect(agent.session.seq).toBe(seq);
    expect(() => agent.followup(message('two'))).toThrow(
      expect.objectContaining({ code: 'DRAINING' }),
    );
  });
});

describe('a host that is read from', () => {
  it('gives its batches one by one; a turn ends when the next is asked for', async () => {
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost();
    const { agent } = host;
    agent.followup(message('early'));
    await until(() => agent.session.durable > 0);
    const reader = host.messages()[Symbol.asyncIterator]();
    expect(texts((await reader.next()).value as UserMessage[])).toEqual(['early']);
    expect(ends(agent.session)).toEqual([]);
    expect(agent.status).toBe('running');

    const second = reader.next();
    await agent.whenIdle();
    expect(ends(agent.session)).toHaveLength(1);
    agent.followup(message('later'));
    expect(texts((await second).value as UserMessage[])).toEqual(['later']);

    await host.dispose();
    expect(await reader.next()).toEqual({ done: true, value: undefined });
  });

  it('ends the turn of a batch when its reader leaves', async () => {
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost();
    host.agent.followup(message('one'));
    for await (const batch of host.messages()) {
      expect(texts(batch)).toEqual(['one']);
      break;
    }
    await host.agent.whenIdle();
    expect(ends(host.agent.session)).toEqual([{ turn: 1, reason: { kind: 'completed' } }]);
    // Another reader may take its place.
    host.agent.followup(message('two'));
    for await (const batch of host.messages()) {
      expect(texts(batch)).toEqual(['two']);
      break;
    }
  });

  it('ends a waiting reader when it is disposed', async () => {
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost();
    const waiting = host.messages()[Symbol.asyncIterator]().next();
    await host.dispose();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  it('has one reader at a time, and none beside onMessage', async () => {
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost();
    void host.messages()[Symbol.asyncIterator]().next();
    const second = host.messages()[Symbol.asyncIterator]().next();
    await expect(second).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    const answering = await rt.harness.agents.createHost({ onMessage() {} });
    const third = answering.messages()[Symbol.asyncIterator]().next();
    await expect(third).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('a host with an id', () => {
  it('is opened again from the file, with what waited for it', async () => {
    await using temp = await tempStore();
    {
      await using rt = await testHarness({ store: temp.path });
      const { agent } = await rt.harness.agents.createHost({ sessionId: 'server' });
      agent.followup(message('waits'));
      await rt.harness.sessions.flush(agent.session);
      // Nobody reads it before the program ends.
    }
    await using rt = await testHarness({ store: temp.path });
    const batches: string[][] = [];
    const host = await rt.harness.agents.createHost({
      sessionId: 'server',
      onMessage: (batch) => void batches.push(texts(batch)),
    });
    expect(texts(host.agent.inbox.nextTurn)).toEqual(['waits']);
    await settled();
    expect(batches).toEqual([]);
    host.agent.followup(message('now'));
    await host.agent.whenIdle();
    expect(batches).toEqual([['waits'], ['now']]);
    expect(host.agent.session.header.id).toBe('server');
  });

  it('is refused while it is live, and free again when its creation was vetoed', async () => {
    await using temp = await tempStore();
    await using rt = await testHarness({ store: temp.path });
    const { agents, sessions } = rt.harness;
    const first = await agents.createHost({ sessionId: 'server', onMessage() {} });
    await expect(agents.createHost({ sessionId: 'server' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    first.agent.followup(message('one'));
    await first.agent.whenIdle();
    await first.dispose();
    for (const type of ['session/created', 'agent/created'] as const) {
      const off = rt.harness.on(type, () => {
        throw new Error('Not this one.');
      });
      await expect(agents.createHost({ sessionId: 'server' })).rejects.toThrow('Not this one.');
      off();
      expect(agents.list()).toEqual([rt.root]);
      expect(sessions.list()).toEqual([rt.root.session]);
    }
    const again = await agents.createHost({ sessionId: 'server' });
    expect(again.agent.session.lastTurn).toBe(1);
  });
});
