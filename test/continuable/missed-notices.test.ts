import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { testHarness } from '../support/harness.ts';
import { until } from '../support/until.ts';
import { waiting } from '../worker-host/agent-words.ts';
import { notices, told } from './children.ts';
import { before, finished, isNotice, storeOf } from './crashed.ts';
import type { Row } from './crashed.ts';

describe('a parent that is opened again after a crash', () => {
  it('is told of a child that had ended, once, before its first turn', async () => {
    const { parent, child } = await finished();
    const cut = { ...parent, events: before(parent.events, isNotice) };
    const store = await storeOf([cut, child]);
    const rt = await testHarness({ store, script: () => 'Noted.' });
    const { agents, sessions } = rt.harness;
    const { agent } = await agents.resume(parent.header.id);
    expect(notices(agent)).toEqual([
      `Your subagent "solver" (id ${child.header.id}) has finished, and is idle until you send it more work. | Its closing message: | The answer.`,
    ]);
    expect([agent.status, waiting(agent)[0]?.length]).toEqual(['idle', 2]);
    agent.followup(createUserMessage('Go on.'));
    await agent.whenIdle();
    expect(told(agent)).toEqual([['user', 'notice', 'user']]);
    expect(await sessions.isStored(child.header.id)).toBe(true);
    await rt[Symbol.asyncDispose]();

    const again = await testHarness({ store });
    const resumed = await again.harness.agents.resume(parent.header.id);
    expect(notices(resumed.agent)).toHaveLength(1);
    await again[Symbol.asyncDispose]();
  });

  it('is told so as a host as well', async () => {
    const { parent, child } = await finished();
    const store = await storeOf([{ ...parent, events: [] }, child]);
    await using rt = await testHarness({ store });
    const host = await rt.harness.agents.createHost({ sessionId: parent.header.id });
    expect(notices(host.agent)).toHaveLength(1);
  });

  it('is told nothing that it was told', async () => {
    const { parent, child } = await finished();
    await using rt = await testHarness({ store: await storeOf([parent, child]) });
    const { agent } = await rt.harness.agents.resume(parent.header.id);
    expect(notices(agent)).toHaveLength(1);
    expect(agent.inbox.hasPending).toBe(false);
  });

  it('hears it behind what that child reported', async () => {
    const { parent, child } = await finished('wakeup');
    const isReport = (event: SessionEvent): boolean =>
      event.type === 'agent/inbox/spliced' &&
      event.data.inserted.some(({ source }) => source.kind === 'subagent-report');
    const at = parent.events.findIndex(isReport);
    const cut = { ...parent, events: parent.events.slice(0, at + 1) };
    await using rt = await testHarness({
      store: await storeOf([cut, child]),
      script: () => 'Noted.',
    });
    const { agent } = await rt.harness.agents.resume(parent.header.id);
    agent.steer(createUserMessage('Go on.'));
    await until(() => agent.status === 'idle');
    expect(told(agent)).toEqual([['user', 'user', 'report'], ['notice']]);
  });

  it.each<[string, (row: Row) => Row]>([
    [
      'is somebody else’s',
      (row) => ({ ...row, header: { ...row.header, parentSession: SessionId('other') } }),
    ],
    [
      'cannot be continued',
      (row) => ({
        ...row,
        events: row.events.map((event) =>
          event.type === 'subagent/descriptor'
            ? { ...event, data: { version: 1, mode: 'one-shot', provider: 'spawn' } as never }
            : event,
        ),
      }),
    ],
  ])('is told nothing of a child that %s', async (_, change) => {
    const { parent, child } = await finished();
    const cut = { ...parent, events: before(parent.events, isNotice) };
    await using rt = await testHarness({ store: await storeOf([cut, change(child)]) });
    const { agent } = await rt.harness.agents.resume(parent.header.id);
    expect(notices(agent)).toEqual([]);
  });

  it('has only its own children read, and of those not what they inherited', async () => {
    const { parent, child } = await finished();
    const seed = [
      { seq: 0, time: 0, type: 'turn/start', data: { turn: 1 } },
      { seq: 1, time: 0, type: 'turn/end', data: { turn: 1, reason: { kind: 'completed' } } },
    ] as unknown as SessionEvent[];
    const own = child.events.map((event) => ({ ...event, seq: event.seq + seed.length }));
    const header = { ...child.header, seedLength: seed.length };
    const others = ['o1', 'o2'].map((id) => ({ ...child, header: { ...child.header, id } }));
    const store = await storeOf([
      { ...parent, events: before(parent.events, isNotice) },
      { header, events: [...seed, ...own] },
      ...(others as Row[]),
    ]);
    const read: unknown[][] = [];
    const readFrom = store.readFrom.bind(store);
    store.readFrom = (id, seq, signal) => {
      read.push([id, seq]);
      return readFrom(id, seq, signal);
    };
    const asked: unknown[][] = [];
    await using rt = await testHarness({
      store: Object.assign(store, {
        list: () => Promise.reject(new StoreError('STORE_IO', 'All of them are too many.')),
        listBelow: async (...[roots, levels]: [readonly SessionId[], number]) => {
          asked.push([roots, levels]);
          return [header];
        },
      }),
    });
    const { agent } = await rt.harness.agents.resume(parent.header.id);
    expect(notices(agent)).toHaveLength(1);
    expect(asked).toEqual([[[parent.header.id], 1]]);
    expect(read).toEqual([[child.header.id, seed.length]]);
  });

  it('goes on without, when the store cannot say what children there are', async () => {
    const { parent, child } = await finished();
    const cut = { ...parent, events: before(parent.events, isNotice) };
    const store = await storeOf([cut, child]);
    store.list = () => Promise.reject(new StoreError('STORE_IO', 'No.'));
    await using rt = await testHarness({ store });
    const { agent } = await rt.harness.agents.resume(parent.header.id);
    expect(notices(agent)).toEqual([]);
  });
});
