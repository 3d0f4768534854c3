import { describe, expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { nothingWaits } from '../../src/session/waiting.ts';
import { foldFates } from '../../src/subagents/settlement.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { ends, has, waiting } from '../worker-host/agent-words.ts';
import { family, notices } from './children.ts';
import type { Family } from './children.ts';

const THROWN_AWAY = /(\d+) messages? that waited for it (?:was|were) thrown away/;
const NOT_TOLD = /(\d+) messages? that it had taken up (?:was|were) not told to it/;
const WAITS = /(\d+) messages? waits? for it still/;
const counted = (notice = ''): number[] =>
  [WAITS, THROWN_AWAY, NOT_TOLD].map((words) => Number(words.exec(notice)?.[1] ?? 0));

/** A child whose first step is being decided, and how many messages it has by then. */
async function deciding(options: Parameters<typeof family>[1] = {}) {
  const decision = gate();
  const all = await family({}, options);
  const { root, harness } = all.rt;
  let isFirst = true;
  harness.hooks.on('agent/pre-step', async ({ agent }, next) => {
    if (agent !== root && isFirst) {
      isFirst = false;
      await decision.wait();
    }
    return next();
  });
  const discarded: string[] = [];
  harness.on('agent/inbox/discarded', ({ agent, message }) => {
    if (agent !== root) discarded.push(message.id);
  });
  const child = await all.start();
  await decision.arrived();
  return { all, child, decision, discarded };
}

/** Ids that its log says were thrown away. */
function canceled(events: readonly SessionEvent[]): string[] {
  const lists: Record<string, string[]> = { 'next-turn': [], 'next-step': [] };
  return events.flatMap((event) => {
    if (event.type !== 'agent/inbox/spliced') return [];
    const { target, start, removedCount = 0, inserted, outcome } = event.data;
    const removed = lists[target]!.splice(start, removedCount, ...inserted.map(({ id }) => id));
    return outcome === 'canceled' ? removed : [];
  });
}

const interrupt = ({ rt }: Family, child: Agent): void =>
  rt.harness.subagents.interrupt(child.id, { kind: 'user', parentSessionId: rt.root.id });

describe('a message that a turn took up and no step told', () => {
  it('is counted in the notice when the turn was interrupted', async () => {
    const { all, child, decision } = await deciding();
    await using _ = all;
    interrupt(all, child);
    decision.open();
    await all.gone(child);
    expect(has(child.session, 'step/start')).toBe(false);
    expect(counted(notices(all.rt.root)[0])).toEqual([0, 0, 1]);
  });

  it.each(['a drain', 'the end of its parent'] as const)(
    'is counted beside what %s threw away, as the log and the events say',
    async (by) => {
      const { all, child, decision, discarded } = await deciding();
      await using _ = all;
      const { rt } = all;
      await all.tell(child, 'More.');
      const given = new Set([...waiting(child)[1]!]);
      const heard: string[] = [];
      rt.harness.on('agent/inbox/inserted', ({ agent }) => {
        if (agent === rt.root) heard.push(...notices(rt.root));
      });
      const ended =
        by === 'a drain'
          ? rt.harness.subagents.drainContinuableChildren(rt.root, [child.id])
          : rt.rootHandle.dispose();
      decision.open();
      await ended;
      expect(given.size).toBe(1);
      expect(heard).toHaveLength(1);
      expect(counted(heard[0])).toEqual([0, 1, 1]);
      const { events } = await rt.harness.sessions.inspect(child.id);
      expect(canceled(events)).toEqual(discarded);
      expect(discarded).toHaveLength(1);
      expect(ends(child.session)).toEqual(['aborted parent']);
    },
  );

  it('is counted also when a later turn went well', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }, 'C'] });
    const { root, harness } = all.rt;
    const child = await all.start();
    await held.arrived();
    harness.hooks.on('agent/pre-step', async ({ agent, messages }, next) => {
      const isRefused = agent === child && JSON.stringify(messages).includes('B.');
      if (isRefused) await all.tell(child, 'C.');
      return isRefused ? { kind: 'reject' } : next();
    });
    await all.tell(child, 'B.');
    held.open();
    await all.gone(child);
    // What comes while it is refused waits: a refusal parks it like a failure.
    expect(ends(child.session)).toEqual(['completed', 'blocked']);
    expect(counted(notices(root)[0])).toEqual([1, 0, 1]);
  });

  it('waits again when the child is to go on later', async () => {
    const { all, child, decision } = await deciding();
    await using _ = all;
    const notes: string[] = [];
    all.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent === all.rt.root) notes.push(...notices(all.rt.root));
    });
    all.rt.threads.of(child.id).crash();
    decision.open();
    await all.gone(child);
    expect(counted(notes[0])).toEqual([1, 0, 0]);
  });
});

describe('messages that wait', () => {
  it('are counted as thrown away whoever throws them away', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'B.');
    await all.tell(child, 'C.');
    child.cancel({ kind: 'user' });
    held.open();
    await all.gone(child);
    expect(counted(notices(all.rt.root)[0])).toEqual([0, 2, 0]);
  });

  it('are not counted as kept when they are thrown away after the child was told to stop', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const { root, harness } = all.rt;
    const child = await all.start();
    await held.arrived();
    harness.on('agent/status', ({ agent, status }) => {
      if (agent === child && status === 'idle') child.inject(createUserMessage('By the way.'));
    });
    await harness.subagents.drainContinuableChildren(root, [child.id]);
    expect(counted(notices(root)[0])).toEqual([0, 1, 0]);
  });

  it.each(['followup', 'steer'] as const)(
    'keep an interrupted child here, also when somebody else gave them to it (%s)',
    async (give) => {
      const held = gate();
      await using all = await family({ child: [{ hold: held, text: 'A' }, 'B', 'C'] });
      const child = await all.start();
      await held.arrived();
      child[give](createUserMessage('B.'));
      interrupt(all, child);
      await child.whenIdle();
      await settled();
      expect(all.isLive(child)).toBe(true);
      held.open();
      await all.tell(child, 'C.');
      await all.gone(child);
    },
  );

  it('keep an interrupted child here until they are thrown away', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const child = await all.start();
    await held.arrived();
    child.followup(createUserMessage('B.'));
    interrupt(all, child);
    await child.whenIdle();
    await settled();
    expect(all.isLive(child)).toBe(true);
    child.cancel({ kind: 'user' });
    await all.gone(child);
    expect(counted(notices(all.rt.root)[0])).toEqual([0, 1, 0]);
  });

  it('do not keep an interrupted child here when they wake nobody', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const child = await all.start();
    await held.arrived();
    child.inject(createUserMessage('By the way.'));
    interrupt(all, child);
    held.open();
    await all.gone(child);
    expect(counted(notices(all.rt.root)[0])).toEqual([1, 0, 0]);
  });
});

describe('a drain of a child that is settling with messages waiting', () => {
  /**
   * A failed child whose end has begun: its last write waits, or the undoing of what was made for
   * it does, when nothing is accepted any more; or it has left, and its parent's notice waits.
   */
  async function settling(at: 'its last write' | 'its undoing' | 'the notice') {
    const store = new StallingStore();
    const held = gate();
    const undoing = gate();
    const all = await family(
      { child: [{ hold: held, throws: new Error('It broke.') }, 'B', 'C', 'D'] },
      { store },
    );
    const { harness } = all.rt;
    harness.subagents.registerContinuableSetup(({ onDispose }) => {
      onDispose(() => (at === 'its undoing' ? undoing.wait() : undefined));
      return () => {};
    });
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'B.');
    await all.tell(child, 'C.');
    harness.on('agent/status', ({ agent, status }) => {
      if (at !== 'its last write' || agent !== child || status !== 'idle') return;
      store.stall();
      child.inject(createUserMessage('By the way.'));
    });
    harness.on('agent/disposed', ({ agent }) => {
      if (at === 'the notice' && agent === child) store.stall();
    });
    held.open();
    if (at === 'its undoing') await undoing.arrived();
    else await until(() => store.hold !== undefined);
    await settled();
    const go = (): void => {
      const stall = store.hold;
      store.hold = undefined;
      stall?.open();
      undoing.open();
    };
    const dispose = async (): Promise<void> => {
      go();
      await all[Symbol.asyncDispose]();
    };
    return { all, child, go, [Symbol.asyncDispose]: dispose };
  }

  it.each([
    ['its last write', 'chosen'],
    ['its last write', 'below its parent'],
    ['its undoing', 'chosen'],
    ['its undoing', 'below its parent'],
  ] as const)('throws them away before %s (%s)', async (at, which) => {
    await using t = await settling(at);
    const { all, child, go } = t;
    const { root, harness } = all.rt;
    expect([all.isLive(child), waiting(child)[1]]).toEqual([true, ['B.', 'C.']]);
    const drained =
      which === 'chosen'
        ? harness.subagents.drainContinuableChildren(root, [child.id])
        : harness.subagents.drainContinuableDescendants([root]);
    expect(waiting(child)).toEqual([[], []]);
    // What comes behind that goes the same way.
    if (at === 'its last write') child.inject(createUserMessage('Once more.'));
    go();
    await drained;
    const thrown = at === 'its last write' ? 4 : 2;
    expect(counted(notices(root)[0])).toEqual([0, thrown, 0]);
    expect(notices(root)[0]).toContain('failed before it finished');
    const { events } = await harness.sessions.inspect(child.id);
    expect(canceled(events)).toHaveLength(thrown);
  });

  it('comes too late in the very tick in which it leaves, before its session does', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, throws: new Error('It broke.') }] });
    const { root, harness } = all.rt;
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'B.');
    let drained: Promise<void> | undefined;
    harness.on('agent/disposed', ({ agent }) => {
      if (agent !== child) return;
      drained = harness.subagents.drainContinuableChildren(root, [child.id]);
    });
    held.open();
    await all.gone(child);
    expect(drained).toBeDefined();
    await drained;
    expect(counted(notices(root)[0])).toEqual([1, 0, 0]);
    const { events } = await harness.sessions.inspect(child.id);
    expect(canceled(events)).toEqual([]);
  });

  it('comes too late when it has left the registry: they wait for its next residency', async () => {
    await using t = await settling('the notice');
    const { all, child, go } = t;
    const { root, harness } = all.rt;
    expect(all.isLive(child)).toBe(false);
    let isDrained = false;
    const drained = harness.subagents
      .drainContinuableChildren(root, [child.id])
      .then(() => (isDrained = true));
    await settled();
    expect(isDrained).toBe(false);
    go();
    await drained;
    expect(counted(notices(root)[0])).toEqual([2, 0, 0]);
    await all.tell(child, 'D.');
    const again = harness.agents.get(child.id)!;
    await all.gone(again);
    expect(ends(again.session).slice(1)).toEqual(['completed', 'completed', 'completed']);
  });
});

describe('the fates of messages, by a log', () => {
  const [one, two] = [createUserMessage('One.'), createUserMessage('Two.')];
  type Fold = Parameters<typeof foldFates>;
  const events = (...list: readonly (readonly [string, object])[]): Fold[0] =>
    list.map(([type, data], seq) => ({ type, data, seq, time: 0 })) as never;
  const put = (...inserted: unknown[]) =>
    ['agent/inbox/spliced', { target: 'next-turn', start: 0, inserted }] as const;
  const take = (removedCount: number, more: object = {}) =>
    [
      'agent/inbox/spliced',
      { target: 'next-turn', start: 0, removedCount, inserted: [], ...more },
    ] as const;
  const start = ['turn/start', { turn: 1 }] as const;
  const step = ['step/start', { turn: 1, step: 1 }] as const;
  const end = ['turn/end', { turn: 1, reason: { kind: 'aborted' } }] as const;
  const canceledBy = { outcome: 'canceled' };

  it.each<[string, Fold[0], number[]]>([
    ['told', events(put(one), start, take(1), step, end), [0, 0, 0]],
    ['taken up and not told', events(put(one), start, take(1), end), [0, 0, 1]],
    ['put back', events(put(one), start, take(1), put(one), end), [1, 0, 0]],
    ['put back behind the end', events(put(one), start, take(1), end, put(one)), [1, 0, 0]],
    ['thrown away', events(put(one, two), take(2, canceledBy)), [0, 2, 0]],
    ['edited', events(put(one), take(1, { ...canceledBy, inserted: [two] })), [1, 0, 0]],
  ])('are as they were %s', (_, log, [left, discarded, untold]) => {
    expect(foldFates(log, nothingWaits())).toEqual({ waiting: left, discarded, untold });
  });

  it('begin with what waited before, and leave out what was withdrawn', () => {
    const before = { 'next-turn': [one, two], 'next-step': [] };
    const log = events(take(2, canceledBy));
    const fates = { waiting: 0, discarded: 1, untold: 0 };
    expect(foldFates(log, before, new Set([two.id]))).toEqual(fates);
    expect(foldFates([], before)).toMatchObject({ waiting: 2 });
  });
});
