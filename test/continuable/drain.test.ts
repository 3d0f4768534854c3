/** Ends of parts of a tree. */
import { describe, expect, it } from 'vitest';
import type { Agent } from '../../src/agent/agent.ts';
import { closeSubagents } from '../../src/subagents/runtime.ts';
import { gate } from '../support/gate.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { ends, waiting } from '../worker-host/agent-words.ts';
import { chain, family, prompt, signal } from './family.ts';
import type { Family } from './family.ts';

const boom = (): never => {
  throw new Error('undo');
};
/** The end of this child's agent fails. */
const failing = ({ rt }: Family, ...names: string[]): void =>
  void rt.harness.subagents.registerContinuableSetup(({ agent }) =>
    names.includes(agent.id) ? boom : () => {},
  );
describe('a drain below a root', () => {
  it('tells all below it to stop, from the top down, in its own tick, and releases children first', async () => {
    await using of = await family();
    const agents = await chain(of, 4);
    await of.held.arrived(4);
    const order: string[] = [];
    of.rt.harness.on('agent/inbox/discarded', ({ agent }) => order.push(agent.id));
    for (const [at, child] of agents.slice(1).entries()) {
      await of.tell(agents[at]!, child.id, 'More.');
    }
    await of.tell(of.rt.root, agents[0]!.id, 'More.');
    const drained = of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
    expect(order).toEqual(['c1', 'c2', 'c3', 'c4']);
    await drained;
    const gone = of.told.filter((text) => text.startsWith('gone'));
    expect(gone).toEqual(['gone c4', 'gone c3', 'gone c2', 'gone c1']);
    expect(of.isResident(of.rt.root)).toBe(true);
    for (const { session } of agents) expect(ends(session)).toEqual(['aborted parent']);
  });

  it('leaves other trees alone, and keeps its own root closed until that has ended', async () => {
    await using of = await family();
    const { subagents, agents } = of.rt.harness;
    const other = await agents.create({ sessionId: 'other' });
    const mine = await of.start('mine', of.rt.root, { text: 'Hold.' });
    const theirs = await of.start('theirs', other.agent, { text: 'Hold.' });
    await Promise.all([
      subagents.drainContinuableDescendants([other.agent]),
      subagents.drainContinuableDescendants([other.agent, other.agent]),
    ]);
    expect(of.isResident(theirs)).toBe(false);
    expect(of.isResident(mine)).toBe(true);
    await of.start('mine2', of.rt.root, { text: 'Hold.' });
    await expect(of.start('theirs2', other.agent)).rejects.toMatchObject({ code: 'DRAINING' });
    await expect(of.tell(other.agent, theirs.id, 'More.')).rejects.toMatchObject({
      code: 'DRAINING',
    });
    await other.dispose();
    const again = await agents.resume('other');
    await of.start('theirs3', again.agent, { text: 'Hold.' });
  });

  it('has no effect for an agent that is not live any more', async () => {
    await using of = await family();
    const { subagents, agents } = of.rt.harness;
    const first = await agents.create({ sessionId: 'p' });
    await first.dispose();
    const second = await agents.create({ sessionId: 'p' });
    const child = await of.start('c', second.agent, { text: 'Hold.' });
    await subagents.drainContinuableDescendants([first.agent]);
    expect(of.isResident(child)).toBe(true);
    await of.start('d', second.agent, { text: 'Hold.' });
  });

  it('ends only what is below a child that is the root of it', async () => {
    await using of = await family();
    const [c, g] = (await chain(of, 2)) as [Agent, Agent];
    await of.rt.harness.subagents.drainContinuableDescendants([c]);
    expect(of.isResident(c)).toBe(true);
    expect(of.isResident(g)).toBe(false);
    await expect(of.start('h', c)).rejects.toMatchObject({ code: 'DRAINING' });
    await expect(
      of.rt.harness.subagents.reportFrom(c, prompt('Hi.'), { delivery: 'quiet' }),
    ).rejects.toMatchObject({ code: 'DRAINING' });
  });

  it('waits for a start that is under way, which is rejected and leaves nothing', async () => {
    const held = gate();
    let isHeld = false;
    await using of = await family({
      tools: [{ module: new URL('file:///held.mjs') }],
      threads: {
        async import() {
          if (isHeld) await held.wait();
          return { default: [] };
        },
      },
    });
    isHeld = true;
    const starting = of.start('c');
    starting.catch(() => {});
    await settled();
    await of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
    await expect(starting).rejects.toMatchObject({ code: 'DRAINING' });
    expect(of.rt.harness.agents.list()).toEqual([of.rt.root]);
    expect(of.told).toEqual([]);
    held.open();
  });

  it.each(['agent/created', 'subagent/start'] as const)(
    'that begins inside of %s ends the child before it is told anything',
    async (type) => {
      await using of = await family();
      const { subagents, agents } = of.rt.harness;
      let drained: Promise<void> | undefined;
      of.rt.harness.on(type, () => {
        drained ??= subagents.drainContinuableDescendants([of.rt.root]);
        void drained.then(() => of.told.push('drained'));
      });
      let inserted = 0;
      of.rt.harness.on('agent/inbox/inserted', () => void inserted++);
      const starting = of.start('c');
      await expect(starting).rejects.toMatchObject({ code: 'DRAINING' });
      await drained;
      expect(of.told).toEqual(
        type === 'agent/created'
          ? ['gone c', 'drained']
          : ['start c', 'gone c', 'end c aborted', 'drained'],
      );
      expect(inserted).toBe(0);
      expect(agents.list()).toEqual([of.rt.root]);
      expect(await of.rt.harness.sessionPersistence.list()).toEqual([]);
    },
  );

  it('comes after a message whose acceptance was before it, which is logged as waiting only', async () => {
    await using of = await family();
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    let drained: Promise<void> | undefined;
    of.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent !== c || drained !== undefined) return;
      drained = of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
    });
    const { messageId } = await of.tell(of.rt.root, c.id, 'More.');
    await drained;
    const { events } = await of.rt.harness.sessions.inspect(c.id);
    const told = events.filter(({ type }) => type === 'user/message');
    expect(told.map(({ data }) => (data as { id: string }).id)).not.toContain(messageId);
    expect(JSON.stringify(events)).toContain(messageId);
    expect(ends(c.session)).toEqual(['aborted parent']);
  });

  it('writes no more of a child than its end after it was told to stop', async () => {
    const store = new StallingStore();
    await using of = await family({ store });
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    const hold = store.stall();
    const drained = of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
    // Told to stop although nothing can be written now; and its end is in the last write.
    await until(() => c.status === 'idle');
    expect(ends(c.session)).toEqual(['aborted parent']);
    expect(of.isResident(c)).toBe(true);
    hold.open();
    await drained;
    const { events } = await of.rt.harness.sessions.inspect(c.id);
    expect(events).toEqual(c.session.events);
  });

  it('starts no turn anywhere for the notices on the way up', async () => {
    await using of = await family();
    const agents = await chain(of, 5);
    await of.held.arrived(5);
    const asked = of.rt.model.requests.length;
    await of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
    await settled();
    expect(of.rt.model.requests).toHaveLength(asked);
    for (const { session } of agents) expect(ends(session)).toHaveLength(1);
    // The root, which stays, finds one of them with its next turn.
    expect(waiting(of.rt.root)[0]).toHaveLength(1);
  });

  it('finds what is below a one-shot child, whose own end waits for it', async () => {
    await using of = await family();
    const { subagents, agents } = of.rt.harness;
    const run = await subagents.start('spawn', {
      parent: of.rt.root,
      prompt: prompt('Hold.'),
      signal: signal(),
    });
    const g = await of.start('g', run.localAgent!, { text: 'Hold.' });
    await of.held.arrived(2);
    await subagents.drainContinuableDescendants([of.rt.root]);
    expect(of.isResident(g)).toBe(false);
    expect(agents.get(run.id)).toBe(run.localAgent);
    await run.dispose();
  });

  it('joins the end of what is below a one-shot child that is being disposed', async () => {
    const held = gate();
    await using of = await family();
    const { subagents } = of.rt.harness;
    const run = await subagents.start('spawn', {
      parent: of.rt.root,
      prompt: prompt('Hold.'),
      signal: signal(),
    });
    const g = await of.start('g', run.localAgent!, { text: 'Hold.' });
    await of.held.arrived(2);
    const disposed = run.dispose();
    expect(of.isResident(g)).toBe(true);
    let isDrained = false;
    const drained = subagents
      .drainContinuableDescendants([of.rt.root])
      .then(() => (isDrained = true));
    held.open();
    await Promise.all([disposed, drained]);
    expect(isDrained).toBe(true);
    expect(of.told.filter((text) => text.startsWith('gone'))).toEqual(['gone g', `gone ${run.id}`]);
  });
});

describe('children chosen by their parent', () => {
  it('go with what they own, and their siblings stay and are told more', async () => {
    await using of = await family();
    const { subagents } = of.rt.harness;
    const a = await of.start('a', of.rt.root, { text: 'Hold.' });
    const g = await of.start('g', a, { text: 'Hold.' });
    const b = await of.start('b', of.rt.root, { text: 'Hold.' });
    await subagents.drainContinuableChildren(of.rt.root, [a.id, a.id, 'unknown' as typeof a.id]);
    expect(of.isResident(b)).toBe(true);
    expect(of.rt.harness.agents.list()).not.toContain(a);
    expect(of.rt.harness.agents.list()).not.toContain(g);
    await of.tell(of.rt.root, b.id, 'More.');
    await of.tell(of.rt.root, a.id, 'Again.');
  });

  it('have to be its own, and it has to be live', async () => {
    await using of = await family();
    const { subagents, agents } = of.rt.harness;
    const other = await agents.create();
    const mine = await of.start('mine', of.rt.root, { text: 'Hold.' });
    const theirs = await of.start('theirs', other.agent, { text: 'Hold.' });
    const drain = (parent: Agent, ...children: Agent[]): Promise<void> =>
      subagents.drainContinuableChildren(
        parent,
        children.map(({ id }) => id),
      );
    await expect(drain(of.rt.root, mine, theirs)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    expect(of.isResident(mine, theirs)).toBe(true);
    await other.dispose();
    await expect(drain(other.agent)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
  });
});

describe('a branch that cannot be released cleanly', () => {
  it.each(['below the root', 'chosen', 'all'] as const)(
    'keeps nobody: everything is released before the failure is told (%s)',
    async (which) => {
      await using of = await family();
      failing(of, 'c2');
      const agents = await chain(of, 3);
      const sibling = await of.start('s', of.rt.root, { text: 'Hold.' });
      await of.held.arrived(4);
      const { subagents } = of.rt.harness;
      const drained =
        which === 'below the root'
          ? subagents.drainContinuableDescendants([of.rt.root])
          : which === 'chosen'
            ? subagents.drainContinuableChildren(of.rt.root, [agents[0]!.id, sibling.id])
            : closeSubagents(subagents);
      await expect(drained).rejects.toMatchObject({
        code: 'ACTIVATION_TEARDOWN_FAILED',
        message: expect.stringContaining('undo'),
      });
      expect(of.rt.harness.agents.list()).toEqual([of.rt.root]);
      expect(of.told.filter((text) => text.startsWith('end')).sort()).toEqual([
        'end c1 error',
        'end c2 error',
        'end c3 aborted',
        'end s aborted',
      ]);
    },
  );

  it('is told with what failed before, and its child is gone', async () => {
    await using of = await family();
    failing(of, 'c');
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    const { session } = c;
    const read = session.eventsFrom.bind(session);
    // Where the residency began: only its outcome is read from there.
    session.eventsFrom = (seq) => {
      if (seq === 2) throw new Error('capture');
      return read(seq);
    };
    await expect(
      of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]),
    ).rejects.toMatchObject({ message: expect.stringMatching(/capture.*undo/) });
    expect(of.told.slice(-2)).toEqual(['gone c', 'end c error']);
  });
});
