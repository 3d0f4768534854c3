import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/base/logger.ts';
import { SubagentRuntime } from '../../src/subagents/runtime.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import { callsEndless, endless, ends, has, shown, waiting } from '../worker-host/agent-words.ts';
import { cancels, codeOf, family, noSignal, notices, text } from './children.ts';
import type { Family } from './children.ts';

const byUser = ({ rt }: Family, target: Agent) =>
  rt.harness.subagents.interrupt(target.id, { kind: 'user', parentSessionId: rt.root.id });
const KEEPING = { keepInbox: true };

describe('interrupting a child', () => {
  it('stops its turn once, keeps what waits, and goes on with that at the next message', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }, 'B', 'C', 'D'] });
    const child = await all.start({ prompt: 'A.' });
    const calls = cancels(child);
    await held.arrived();
    await all.tell(child, 'B.');
    await all.tell(child, 'C.');
    byUser(all, child);
    expect(calls).toEqual([[{ kind: 'user' }, KEEPING]]);
    held.open();
    await child.whenIdle();
    await settled();
    expect(all.isLive(child)).toBe(true);
    expect(waiting(child)).toEqual([[], ['B.', 'C.']]);
    expect(all.models.child.requests).toHaveLength(1);

    await all.tell(child, 'D.');
    await all.gone(child);
    expect(ends(child.session)).toEqual(['aborted user', 'completed', 'completed', 'completed']);
    expect(
      shown(all.models.child)
        .at(-1)
        ?.filter((said) => /^.\.$/.test(said)),
    ).toEqual(['A.', 'B.', 'C.', 'D.']);
  });

  it('returns before it reacts, and says nothing to its own children', async () => {
    const held = gate();
    const below = gate();
    await using all = await family({
      child: [{ hold: held, text: 'never' }, 'Heard of it.'],
      grandchild: [{ hold: below, text: 'Done below.' }],
    });
    const child = await all.start();
    await held.arrived();
    const grandchild = await all.start({ parent: child });
    const calls = cancels(grandchild);
    await below.arrived();
    byUser(all, child);
    expect(child.status).toBe('running');
    await child.whenIdle();
    await settled();
    expect(calls).toEqual([]);
    expect([child, grandchild].map(all.isLive)).toEqual([true, true]);
    below.open();
    await all.gone(child);
    expect(ends(grandchild.session)).toEqual(['completed']);
    expect(ends(child.session)).toEqual(['aborted user', 'completed']);
    expect(notices(child)).toMatchObject([expect.stringContaining('Done below.')]);
  });

  it('takes a user at the word of which parent it has', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const child = await all.start();
    const calls = cancels(child);
    await held.arrived();
    const wrong = { kind: 'user', parentSessionId: child.id } as const;
    expect(await codeOf(() => all.rt.harness.subagents.interrupt(child.id, wrong))).toBe(
      'UNAUTHORIZED',
    );
    expect(calls).toEqual([]);
    byUser(all, child);
    expect(calls).toEqual([[{ kind: 'user' }, KEEPING]]);
    await all.gone(child);
  });

  it('is for every agent that was above it when it began', async () => {
    const held = gate();
    const below = gate();
    await using all = await family({
      child: [{ hold: held, text: 'A' }],
      grandchild: [{ hold: below, text: 'B' }],
    });
    const child = await all.start();
    await held.arrived();
    const grandchild = await all.start({ parent: child });
    await below.arrived();
    const calls = [cancels(child), cancels(grandchild)];
    const byRoot = (target: Agent) =>
      all.rt.harness.subagents.interrupt(target.id, { kind: 'ancestor', agent: all.rt.root });
    byRoot(grandchild);
    byRoot(child);
    expect(calls).toEqual([[[{ kind: 'parent' }, KEEPING]], [[{ kind: 'parent' }, KEEPING]]]);
    await all.gone(child);
    expect(ends(grandchild.session)).toEqual(['aborted parent']);
    expect(ends(child.session)[0]).toBe('aborted parent');
  });

  it('is for nobody else, whoever that says it is', async () => {
    const held = gate();
    await using all = await family({ child: () => ({ hold: held, text: 'A' }) });
    const { agents, subagents } = all.rt.harness;
    const child = await all.start();
    const sibling = await all.start();
    const calls = cancels(child);
    await held.arrived(2);
    const stranger = (await agents.create()).agent;
    const stale = await agents.create();
    await stale.dispose();
    const { root } = all.rt;
    const throwing = new Proxy(root, {
      get() {
        throw new Error('A trap.');
      },
    });
    const forged = { id: root.id, session: root.session, followup() {} };
    const callers = [child, sibling, stranger, stale.agent, forged, throwing, undefined, null, 7];
    for (const agent of callers) {
      const authority = { kind: 'ancestor', agent: agent as Agent } as const;
      expect(await codeOf(() => subagents.interrupt(child.id, authority))).toBe('UNAUTHORIZED');
    }
    const handle = { kind: 'ancestor', agent: all.rt.rootHandle as never } as const;
    expect(() => subagents.interrupt(child.id, handle)).toThrow(/handle\.agent/);
    // Looked at before the target: also for one that is not there.
    for (const agent of [stale.agent, forged, throwing]) {
      const authority = { kind: 'ancestor', agent: agent as Agent } as const;
      expect(await codeOf(() => subagents.interrupt('nobody' as never, authority))).toBe(
        'UNAUTHORIZED',
      );
    }
    expect(calls).toEqual([]);
    held.open();
    await all.gone(child);
  });

  it.each([
    ['no authority', 'id', undefined],
    ['an authority of another kind', 'id', { kind: 'root' }],
    ['a user without a parent', 'id', { kind: 'user' }],
    ['a target that is no text', 7, { kind: 'user', parentSessionId: 'p' }],
    [
      'an authority that throws',
      'id',
      {
        get kind() {
          throw new Error('A trap.');
        },
      },
    ],
  ])('is refused for %s', async (_, target, authority) => {
    await using all = await family({});
    const { subagents } = all.rt.harness;
    const interrupt = () => subagents.interrupt(target as never, authority as never);
    expect(await codeOf(interrupt)).toBe('INVALID_ARGUMENT');
  });

  it('does nothing to what is not resident, and brings nobody back', async () => {
    const held = gate();
    await using all = await family({ root: [{ hold: held, text: 'A' }] });
    const { agents, subagents } = all.rt.harness;
    const child = await all.start();
    await all.gone(child);
    const run = await subagents.start('spawn', {
      parent: all.rt.root,
      prompt: text('Go.'),
      signal: noSignal(),
      agentOptions: { provider: 'child' },
    });
    const calls = cancels(run.localAgent!);
    for (const target of ['nobody', run.id, child.id]) {
      byUser(all, { id: target } as Agent);
      subagents.interrupt(target as Agent['id'], { kind: 'ancestor', agent: all.rt.root });
    }
    await settled();
    expect(calls).toEqual([]);
    expect((await run.result).stopReason).toBe('completed');
    expect(agents.get(child.id)).toBeUndefined();
    await run.dispose();
    held.open();
  });

  it('does nothing to one that is being released', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const { subagents } = all.rt.harness;
    const child = await all.start();
    const calls = cancels(child);
    await held.arrived();
    const drained = subagents.drainContinuableChildren(all.rt.root, [child.id]);
    byUser(all, child);
    subagents.interrupt(child.id, { kind: 'ancestor', agent: all.rt.root });
    await drained;
    expect(calls).toEqual([]);
    expect(ends(child.session)).toEqual(['aborted parent']);
  });

  it('is accepted where nobody keeps children', () => {
    const service = new SubagentRuntime({ agents: { get: () => undefined }, logger: silentLogger });
    service.interrupt('child' as never, { kind: 'user', parentSessionId: 'parent' as never });
  });

  it('leaves what comes afterwards to run by itself, while the turn still ends', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }, 'B'] });
    const child = await all.start();
    await held.arrived();
    byUser(all, child);
    expect(child.session.open).toBeDefined();
    await all.tell(child, 'More.');
    await all.gone(child);
    expect(ends(child.session)).toEqual(['aborted user', 'completed']);
  });

  it('before its first step, and with nothing else to do, settles it as stopped', async () => {
    const deciding = gate();
    await using all = await family({});
    const { root, harness } = all.rt;
    let isFirst = true;
    harness.hooks.on('agent/pre-step', async ({ agent }, next) => {
      if (agent !== root && isFirst) {
        isFirst = false;
        await deciding.wait();
      }
      return next();
    });
    const child = await all.start();
    await deciding.arrived();
    byUser(all, child);
    deciding.open();
    await all.gone(child);
    expect(all.models.child.requests).toEqual([]);
    const [notice] = notices(root);
    expect(notice).toContain('was stopped before it finished');
    expect(notice).toContain('It left no closing message.');
  });

  it.each<[string, (all: Family, child: Agent) => void]>([
    ['an interrupt', byUser],
    ['a cancel', (_, child) => child.cancel({ kind: 'user' })],
  ])('by %s inside the start of it stops nothing: its task comes afterwards', async (_, stop) => {
    await using all = await family({ child: ['A'] });
    const { harness } = all.rt;
    harness.on('subagent/start', ({ id }) => stop(all, harness.agents.get(id)!));
    const child = await all.start({ prompt: 'A.' });
    await all.gone(child);
    expect(ends(child.session)).toEqual(['completed']);
    expect(notices(all.rt.root)[0]).toContain('has finished');
  });

  it('before its message is claimed opens no turn, and parks it until the next', async () => {
    await using all = await family({ child: ['A', 'B'] });
    const child = await all.start({ prompt: 'A.' });
    byUser(all, child);
    await child.whenIdle();
    await settled();
    expect(all.isLive(child)).toBe(true);
    expect(has(child.session, 'turn/start')).toBe(false);
    await all.tell(child, 'B.');
    await all.gone(child);
    expect(ends(child.session)).toEqual(['completed', 'completed']);
  });

  it('that its tool ignores ends its thread after the grace, and nothing else of it', async () => {
    const clock = new ManualClock();
    await using all = await family(
      { child: [callsEndless, 'B', 'C'] },
      { ...endless, clock, limits: { interruptGraceMs: 100 } },
    );
    const child = await all.start({ prompt: 'A.' });
    await all.tell(child, 'B.');
    await until(() => has(child.session, 'tool/call'));
    await settled();
    byUser(all, child);
    await clock.advance(99);
    expect(child.status).toBe('running');
    await clock.advance(1);
    expect(ends(child.session)).toEqual(['aborted user']);
    expect([child.status, all.isLive(child)]).toEqual(['idle', true]);
    expect(waiting(child)).toEqual([[], ['B.']]);
    const threads = all.rt.threads.all.length;
    await all.tell(child, 'C.');
    await all.gone(child);
    expect(all.rt.threads.all.filter(({ init }) => init?.sessionId === child.id)).toHaveLength(2);
    expect(all.rt.threads.all.length).toBeGreaterThan(threads);
    expect(ends(child.session)).toEqual(['aborted user', 'completed', 'completed']);
  });

  it('and then releasing it leaves the first of the two causes in the log', async () => {
    const held = gate();
    const signals: AbortSignal[] = [];
    await using all = await family({
      child: [
        (_request, { signal }) => {
          signals.push(signal);
          return { hold: held, text: 'A' };
        },
      ],
    });
    const child = await all.start();
    await held.arrived();
    let aborts = 0;
    signals[0]?.addEventListener('abort', () => aborts++);
    byUser(all, child);
    await all.rt.harness.subagents.drainContinuableDescendants([all.rt.root]);
    expect(ends(child.session)).toEqual(['aborted user']);
    expect(aborts).toBe(1);
  });
});
