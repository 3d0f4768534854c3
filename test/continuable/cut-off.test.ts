import { describe, expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { testHarness } from '../support/harness.ts';
import { waiting } from '../worker-host/agent-words.ts';
import { insertions, notices, noSignal, told } from './children.ts';
import { before, finished, inTurn, isNotice, storeOf, withMore } from './crashed.ts';
import type { Row } from './crashed.ts';

const sources = (events: readonly SessionEvent[]) =>
  events.flatMap((event) =>
    event.type === 'agent/inbox/spliced'
      ? event.data.inserted.flatMap(({ source }) =>
          source.kind === 'subagent-settled' ? [source] : [],
        )
      : [],
  );

/** What the parent finds when it is opened again, and what its log is after that was kept. */
async function opened(store: Awaited<ReturnType<typeof storeOf>>, { header }: Row) {
  const rt = await testHarness({ store, script: () => 'Noted.' });
  const { agent } = await rt.harness.agents.resume(header.id);
  const found = { said: notices(agent), sources: sources(agent.session.events) };
  const isIdle = agent.status === 'idle' && agent.session.open === undefined;
  const waits = waiting(agent);
  await rt[Symbol.asyncDispose]();
  return { ...found, isIdle, waits, log: await store.readFrom(header.id, 0) };
}

const notBegun = (row: Row): Row => ({
  ...row,
  events: before(row.events, ({ type }) => type === 'turn/start'),
});
const untold = ({ header, events }: Row): Row => ({ header, events: before(events, isNotice) });

describe('a child that the end of its process cut off', () => {
  it.each<[string, (row: Row) => Row, number, string]>([
    ['in its turn', inTurn, 1, 'and is idle until you send it more work.'],
    [
      'before it had begun',
      notBegun,
      0,
      'and is idle. 1 message waits for it still: what you send it next wakes it, and runs after that one.',
    ],
    [
      'with more to do',
      withMore,
      1,
      'and is idle. 1 message waits for it still: what you send it next wakes it, and runs after that one.',
    ],
  ])('%s is told of once, wakes nobody, and is not touched', async (_, change, turn, next) => {
    const { parent, child } = await finished();
    const cut = change(child);
    const store = await storeOf([untold(parent), cut]);
    const { id } = child.header;
    const first = await opened(store, parent);
    expect(first.said).toEqual([
      expect.stringContaining(
        `Your subagent "solver" (id ${id}) was cut off when the process ended, ${next}`,
      ),
    ]);
    const named = { senderSessionId: id, turn, stopReason: 'aborted' };
    expect(first.sources).toMatchObject([named]);
    // Nobody was woken: it waits behind what waited already.
    expect([first.isIdle, first.waits[0]?.length]).toEqual([true, 2]);
    expect(await store.readFrom(id, 0)).toEqual(cut.events);
    const again = await opened(store, parent);
    expect(again.said).toHaveLength(1);
    expect(again.log).toEqual(first.log);
  });

  it('is told of when it had been told more since its parent heard of it', async () => {
    const { parent, child } = await finished();
    const store = await storeOf([parent, withMore(child)]);
    const first = await opened(store, parent);
    expect(first.said).toEqual([
      expect.stringContaining('has finished'),
      expect.stringContaining('was cut off when the process ended, and is idle. 1 message waits'),
    ]);
    expect(first.sources).toMatchObject([{ waiting: 0 }, { turn: 1, waiting: 1 }]);
    expect((await opened(store, parent)).log).toEqual(first.log);
  });

  it('is not told of by what an older version wrote of its end', async () => {
    const { parent, child } = await finished();
    const log = JSON.parse(JSON.stringify(parent.events)) as SessionEvent[];
    for (const source of sources(log)) {
      Object.assign(source, { stopReason: undefined, waiting: undefined });
    }
    const older = { ...parent, events: JSON.parse(JSON.stringify(log)) as SessionEvent[] };
    const { said } = await opened(await storeOf([older, withMore(child)]), parent);
    expect(said).toHaveLength(1);
  });

  it('says what it had said, which is no final answer', async () => {
    const { parent, child } = await finished();
    const cut = { ...child, events: before(child.events, ({ type }) => type === 'step/end') };
    const { said } = await opened(await storeOf([untold(parent), cut]), parent);
    expect(said[0]).toContain(
      'What it had said by then, which is not a final answer: | The answer.',
    );
  });

  it('is told of as always when it ends later', async () => {
    const { parent, child } = await finished();
    const store = await storeOf([untold(parent), inTurn(child)]);
    const models = { child: scriptedModel(() => 'Once more.') };
    const rt = await testHarness({ store, models, script: () => 'Noted.' });
    const { agents, subagents } = rt.harness;
    const { agent } = await agents.resume(parent.header.id);
    const end = new Promise<void>((resolve) => rt.harness.on('subagent/end', () => resolve()));
    const { id } = child.header;
    const options = { source: { kind: 'user' }, signal: noSignal() } as const;
    await subagents.followup(agent, id, 'Once more.', options);
    await end;
    await agent.whenIdle();
    expect(sources(agent.session.events)).toMatchObject([
      { turn: 1, stopReason: 'aborted' },
      { turn: 2 },
    ]);
    expect(told(agent)[0]).toEqual(['user', 'notice', 'notice']);
    await rt[Symbol.asyncDispose]();
    const { said } = await opened(store, parent);
    expect(said).toHaveLength(2);
  });

  it('is one notice with an end that was not told either', async () => {
    const { parent, child } = await finished();
    const seq = child.events.length;
    const turn = [{ seq, time: 0, type: 'turn/start', data: { turn: 2 } }];
    const events = [...child.events, ...(turn as unknown as SessionEvent[])];
    const { sources: found } = await opened(
      await storeOf([untold(parent), { ...child, events }]),
      parent,
    );
    expect(found).toMatchObject([{ turn: 2, stopReason: 'aborted' }]);
  });

  it('is not told of while another process goes on with it', async () => {
    const { parent, child } = await finished();
    const store = await storeOf([untold(parent), inTurn(child)]);
    const asked: unknown[] = [];
    const held = Object.assign(store, {
      isHeldElsewhere: async (id: unknown) => asked.push(id) > 0,
    });
    expect((await opened(held, parent)).said).toEqual([]);
    expect(asked).toEqual([child.header.id]);
  });

  it('is told of to a parent that was never told anything before', async () => {
    const held = gate();
    const store = new MemoryStore();
    await using rt = await testHarness({ store, script: [{ hold: held, text: 'A' }] });
    const host = await rt.harness.agents.createHost({ sessionId: 'server' });
    const { childId } = await rt.harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'worker',
      request: { parent: host.agent, prompt: 'Go.' },
      signal: noSignal(),
    });
    await held.arrived();
    const rows = await Promise.all((await store.list()).map(({ id }) => store.inspect(id)));
    expect(rows.map(({ header }) => header.id).sort()).toEqual([childId, 'server'].sort());
    await using again = await testHarness({ store: await storeOf(rows) });
    const opened = await again.harness.agents.createHost({ sessionId: 'server' });
    expect(notices(opened.agent)).toEqual([expect.stringContaining('was cut off')]);
    held.open();
  });

  it('is told of to a host as well', async () => {
    const { parent, child } = await finished();
    const store = await storeOf([{ ...parent, events: [] }, inTurn(child)]);
    await using rt = await testHarness({ store });
    const host = await rt.harness.agents.createHost({ sessionId: parent.header.id });
    expect(notices(host.agent)).toEqual([expect.stringContaining('was cut off')]);
    expect(insertions(host.agent)[0]?.list).toBe('next-step');
  });
});

it('a child that had failed with more to do is told of as one that failed, and why', async () => {
  const { parent, child } = await finished();
  const error = { code: 'AUTH', message: 'bad\nkey' };
  const events = withMore(child).events.map((event) =>
    event.type === 'turn/end'
      ? { ...event, data: { turn: 1, reason: { kind: 'error', error } } }
      : event,
  );
  const row = { ...child, events: events as SessionEvent[] };
  const store = await storeOf([untold(parent), row]);
  const { said, sources: found } = await opened(store, parent);
  expect(said[0]).toContain('failed before it finished (AUTH: bad key), and is idle. 1 message');
  expect(found).toMatchObject([{ stopReason: 'error', waiting: 1 }]);
});
