/** Ends of a parent, and of a whole harness, with all that is below. */
import { describe, expect, it } from 'vitest';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { closeSubagents } from '../../src/subagents/runtime.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import { endless, ends, has, waiting } from '../worker-host/agent-words.ts';
import { chain, family, prompt, signal } from './family.ts';

const isIn = (agent: Agent): boolean => has(agent.session, 'step/start');

describe('the end of a parent', () => {
  it('comes after all below it, also through a one-shot child, and its handle resolves last', async () => {
    await using of = await family();
    const { subagents } = of.rt.harness;
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    const run = await subagents.start('spawn', {
      parent: c,
      prompt: prompt('Hold.'),
      signal: signal(),
    });
    await of.start('g', run.localAgent!, { text: 'Hold.' });
    await of.held.arrived(3);
    await of.rt.rootHandle.dispose().then(() => of.told.push('resolved'));
    const order = of.told.filter((text) => text.startsWith('gone') || text === 'resolved');
    expect(order).toEqual(['gone g', `gone ${run.id}`, 'gone c', 'gone root', 'resolved']);
    await settled();
    expect(of.told.at(-1)).toBe('resolved');
  });

  it.each(['subagent/end', 'agent/disposed', 'agent/status', 'agent/inbox/inserted'] as const)(
    'may begin in a listener of %s of its child',
    async (type) => {
      await using of = await family();
      const { harness, root, rootHandle } = of.rt;
      let disposed: Promise<void> | undefined;
      harness.on(type, (event) => {
        const { agent } = event as { agent?: Agent };
        // A notice is told of at the parent.
        const isIt =
          agent === undefined ||
          (type === 'agent/inbox/inserted' ? agent === root : agent !== root);
        const isIdle = !('status' in event) || event.status === 'idle';
        if (!isIt || !isIdle) return;
        disposed ??= rootHandle.dispose().then(() => void of.told.push('resolved'));
      });
      await of.start('c');
      await until(() => disposed !== undefined);
      await disposed;
      expect(of.told.slice(-2)).toEqual(['gone root', 'resolved']);
      expect(of.told.filter((text) => text.startsWith('end c'))).toHaveLength(1);
    },
  );

  it('may be asked for by a tool of its child', async () => {
    const clock = new ManualClock();
    let disposed: Promise<void> | undefined;
    await using of = await family({
      clock,
      tools: [
        {
          name: 'end',
          description: 'Ends the root.',
          parameters: { type: 'object' },
          async execute() {
            await (disposed = of.rt.rootHandle.dispose());
            return 'never';
          },
        },
      ],
    });
    await of.start('c', of.rt.root, { text: 'Call end.' });
    await until(() => disposed !== undefined);
    // The tool waits for the end of its own child: it is given up after the grace.
    await clock.advance(2_000);
    await disposed;
    expect(of.rt.harness.agents.list()).toEqual([]);
  });

  it('rejects the starts of its child that wait for a thread', async () => {
    await using of = await family({ limits: { maxThreads: 2 } });
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    of.rt.root.followup(createUserMessage('Hold.'));
    await of.held.arrived(2);
    const starting = of.start('g', c);
    starting.catch(() => {});
    await settled();
    const disposed = of.rt.rootHandle.dispose();
    await expect(starting).rejects.toMatchObject({ code: 'DRAINING' });
    await disposed;
    expect(of.rt.harness.agents.list()).toEqual([]);
  });
});

describe('the end of a harness', () => {
  it('releases a deep tree, and every thread, within one stop grace', async () => {
    const clock = new ManualClock();
    const { tools, threads } = endless;
    await using of = await family({ clock, tools, threads, limits: { stopGraceMs: 2_000 } });
    const agents = await chain(of, 6, 'Call endless.');
    await until(() => agents.every(({ session }) => has(session, 'tool/call')));
    let isOver = false;
    const disposed = of.rt.harness.dispose().then(() => (isOver = true));
    await clock.advance(1_999);
    await settled();
    expect(isOver).toBe(false);
    await clock.advance(1);
    await disposed;
    expect(of.told.filter((text) => text.startsWith('gone'))).toEqual(
      ['c6', 'c5', 'c4', 'c3', 'c2', 'c1', 'root'].map((id) => `gone ${id}`),
    );
    for (const thread of of.rt.threads.all) expect(thread.ports?.isClosed).toBe(true);
    expect(clock.pending).toBe(0);
    for (const { session } of agents) expect(ends(session)).toEqual(['aborted parent']);
  });

  it.each(['the root', 'all below it', 'one-shot'] as const)(
    'or of a part takes one stop grace, however deep the tree is (%s)',
    async (which) => {
      const clock = new ManualClock();
      const { tools, threads } = endless;
      await using of = await family({ clock, tools, threads, limits: { stopGraceMs: 2_000 } });
      const { subagents } = of.rt.harness;
      const top = await subagents.start('spawn', {
        parent: of.rt.root,
        prompt: prompt('Call endless.'),
        signal: signal(),
      });
      const c = await of.start('a', which === 'one-shot' ? top.localAgent : of.rt.root, {
        text: 'Call endless.',
      });
      const middle = await subagents.start('spawn', {
        parent: c,
        prompt: prompt('Call endless.'),
        signal: signal(),
      });
      const g = await of.start('b', middle.localAgent!, { text: 'Call endless.' });
      const all = [top.localAgent!, c, middle.localAgent!, g];
      await until(() => all.every(({ session }) => has(session, 'tool/call')));
      let isOver = false;
      const ended =
        which === 'the root'
          ? of.rt.rootHandle.dispose()
          : which === 'one-shot'
            ? top.dispose()
            : subagents.drainContinuableDescendants([of.rt.root]);
      void ended.then(() => (isOver = true));
      await clock.advance(1_999);
      expect(isOver).toBe(false);
      await clock.advance(1);
      await ended;
      expect(of.isResident(c)).toBe(false);
      expect(of.isResident(g)).toBe(false);
      const last = of.rt.harness.dispose();
      await clock.advance(2_000);
      await last;
    },
  );

  it('keeps what waits, and ends starts that wait for a thread', async () => {
    await using of = await family({ limits: { maxThreads: 2 } });
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    of.rt.root.followup(createUserMessage('Hold.'));
    await of.held.arrived(2);
    await of.tell(of.rt.root, c.id, 'More.');
    const starting = of.start('d');
    starting.catch(() => {});
    await settled();
    await of.rt.harness.dispose();
    await expect(starting).rejects.toMatchObject({ code: 'DRAINING' });
    expect(waiting(c)).toEqual([[], ['More.']]);
  });

  it.each(['agent/created', 'subagent/start', 'agent/inbox/inserted'] as const)(
    'may begin inside of %s',
    async (type) => {
      await using of = await family();
      let disposed: Promise<void> | undefined;
      of.rt.harness.on(type, () => {
        disposed ??= of.rt.harness.dispose();
      });
      const starting = of.start('c', of.rt.root, { text: 'Hold.' });
      const outcome = await starting.then(
        () => 'accepted',
        (error: { code?: string; message: string }) => error.code ?? error.message,
      );
      await disposed;
      // What was accepted before is kept, and is there after a restart.
      expect(outcome).toBe(type === 'agent/inbox/inserted' ? 'accepted' : 'DRAINING');
      expect(of.rt.harness.agents.list()).toEqual([]);
    },
  );

  it('ends children first and then refuses everything', async () => {
    await using of = await family();
    const [c, g] = (await chain(of, 2)) as [Agent, Agent];
    await of.held.arrived(2);
    await closeSubagents(of.rt.harness.subagents);
    expect(of.told.filter((text) => text.startsWith('gone'))).toEqual(['gone c2', 'gone c1']);
    for (const { id } of [c, g]) {
      expect((await of.rt.harness.sessions.inspect(id)).events.length).toBeGreaterThan(0);
    }
    await expect(of.start('d')).rejects.toMatchObject({ code: 'DRAINING' });
    await expect(of.tell(of.rt.root, c.id, 'More.')).rejects.toMatchObject({ code: 'DRAINING' });
  });

  it('releases the child of a thread that dies while its parent waits for the drain', async () => {
    await using of = await family();
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    const drained = of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
    of.rt.threads.of(c.id).crash();
    await drained;
    expect(of.isResident(c)).toBe(false);
    expect(isIn(c)).toBe(true);
  });
});
