/** `Agent.wake`: what waits runs, though nobody says anything. Each interleaving is held by gates. */
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled, until } from '../support/until.ts';
import { USER, ends, has, saysText, shown, statuses, waiting } from './agent-words.ts';

const KEEP = { keepInbox: true };

describe('waking an agent', () => {
  it('in the middle of a long turn leaves its thread all the time of that turn', async () => {
    const clock = new ManualClock();
    const hold = gate();
    await using rt = await testHarness({
      clock,
      limits: { unresponsiveMs: 1_000 },
      script: [{ hold, text: 'At last.' }, 'And then.'],
    });
    rt.root.followup(message('one'));
    await hold.arrived();
    rt.root.followup(message('two'));
    await clock.advance(600_000);
    hold.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
  });

  it('runs what an earlier life left, of both lists', async () => {
    await using temp = await tempStore();
    let id: string;
    {
      await using rt = await testHarness({ store: temp.path });
      id = rt.root.id;
      rt.root.inject(message('aside'));
      rt.harness.agents.enqueue(rt.root, message('one'));
      rt.harness.agents.enqueue(rt.root, message('two'));
      await rt.harness.sessions.flush(rt.root.session);
    }
    await using rt = await testHarness({ store: temp.path, script: ['A.', 'B.'] });
    const { agent } = await rt.harness.agents.resume(id);
    await settled();
    expect([agent.status, waiting(agent)]).toEqual(['idle', [['aside'], ['one', 'two']]]);
    const told = statuses(rt, agent);
    agent.wake();
    expect(agent.status).toBe('running');
    await agent.whenIdle();
    expect(shown(rt.model)).toEqual([
      ['aside', 'one'],
      ['aside', 'one', 'two'],
    ]);
    expect(told).toEqual(['running', 'idle']);
  });

  it('runs what only a steer of an earlier life left', async () => {
    await using temp = await tempStore();
    const store = temp.path;
    let id: string;
    {
      await using rt = await testHarness({ store });
      id = rt.root.id;
      rt.root.steer(message('steered'));
      rt.root.cancel(USER, KEEP);
      await rt.harness.sessions.flush(rt.root.session);
    }
    await using rt = await testHarness({ store, script: ['A.'] });
    const { agent } = await rt.harness.agents.resume(id);
    agent.wake();
    await agent.whenIdle();
    expect(shown(rt.model)).toEqual([['steered']]);
  });

  it('runs what an interrupt parked, and what a failure parked', async () => {
    const failure = { code: 'AUTH', message: 'No key.' };
    await using rt = await testHarness({ script: [{ failure }, 'B.'] });
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    rt.root.wake();
    rt.root.cancel(USER, KEEP);
    await rt.root.whenIdle();
    await settled();
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    rt.root.wake();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error AUTH', 'completed']);
  });

  it('lets a quiet message open a turn', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    rt.root.inject(message('aside'));
    await settled();
    expect(rt.root.status).toBe('idle');
    rt.root.wake();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['aside']]);
  });

  it('does nothing when nothing waits', async () => {
    await using rt = await testHarness();
    const told = statuses(rt);
    const { seq } = rt.root.session;
    rt.root.wake();
    expect(rt.root.status).toBe('idle');
    await settled();
    expect([told, rt.root.session.seq]).toEqual([[], seq]);
  });

  it('brings a thread back to an agent that lost its own', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    rt.harness.agents.enqueue(rt.root, message('one'));
    rt.threads.of(rt.root.id).crash();
    await settled();
    rt.root.wake();
    await rt.root.whenIdle();
    expect(rt.threads.all).toHaveLength(2);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });
});

describe('a wake and an interrupt in one tick', () => {
  it.each([
    ['the wake last', true],
    ['the interrupt last', false],
  ])('are decided by who comes last: %s', async (_, isLast) => {
    await using rt = await testHarness({ script: ['A.'] });
    const { root } = rt;
    root.followup(message('one'));
    root.cancel(USER, KEEP);
    await settled();
    if (!isLast) root.wake();
    root.cancel(USER, KEEP);
    if (isLast) root.wake();
    expect(root.status).toBe(isLast ? 'running' : 'idle');
    await root.whenIdle();
    await settled();
    expect(ends(root.session)).toEqual(isLast ? ['completed'] : []);
    expect(waiting(root)).toEqual([[], isLast ? [] : ['one']]);
  });

  it('leave nobody running when all that waited was discarded from inside a listener', async () => {
    await using rt = await testHarness();
    const { root } = rt;
    rt.harness.agents.enqueue(root, message('one'));
    await settled();
    // An event of the session is being told: what is discarded goes a moment later.
    const undo = rt.harness.on('session/event', () => {
      undo();
      root.cancel(USER);
      root.wake();
    });
    root.inject(message('aside'));
    await root.whenIdle();
    await settled();
    expect(rt.stalls()).toEqual([]);
    expect(root.session.lastTurn).toBe(0);
  });
});

describe('a wake before a commit', () => {
  it.each(['followup', 'inject'] as const)(
    'waits for that of a %s, and is no second turn',
    async (how) => {
      const store = new StallingStore();
      await using rt = await testHarness({ store, script: ['A.'] });
      const held = store.stall();
      rt.root[how](message('one'));
      rt.root.wake();
      await settled();
      expect([rt.root.status, rt.root.session.lastTurn]).toEqual(['running', 0]);
      held.open();
      await rt.root.whenIdle();
      expect(ends(rt.root.session)).toEqual(['completed']);
    },
  );

  it('runs what waited before, though what came with it is withdrawn', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['A.'] });
    rt.root.followup(message('parked'));
    rt.root.cancel(USER, KEEP);
    await settled();
    const held = (store.hold = gate());
    rt.root.followup(message('lost'));
    await held.arrived();
    rt.root.wake();
    store.failure = new StoreError('STORE_FULL', 'The disk is full.');
    held.open();
    await until(() => waiting(rt.root)[1]!.length === 1);
    store.failure = undefined;
    store.hold = undefined;
    await rt.root.whenIdle();
    expect(rt.stalls()).toEqual([]);
    expect(shown(rt.model)).toEqual([['parked']]);
  });

  it('of the only thing that waits makes nobody run when that is withdrawn', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store });
    const held = store.stall();
    rt.root.inject(message('lost'));
    rt.root.wake();
    store.failure = new StoreError('STORE_FULL', 'The disk is full.');
    held.open();
    await rt.root.whenIdle();
    store.failure = undefined;
    expect([rt.stalls(), rt.root.session.lastTurn, waiting(rt.root)]).toEqual([[], 0, [[], []]]);
  });
});

describe('a wake while a turn is open', () => {
  it('adds no turn to those of what waits', async () => {
    const held = gate();
    await using rt = await testHarness({ script: [{ hold: held, text: 'A.' }, 'B.', 'C.'] });
    rt.root.followup(message('one'));
    await held.arrived();
    rt.root.followup(message('two'));
    rt.root.wake();
    rt.root.wake();
    held.open();
    await rt.root.whenIdle();
    await settled();
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
  });

  it('runs a quiet message after it that came too late for its last step', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    const undo = rt.harness.on('session/event', ({ event }) => {
      if (event.type !== 'turn/end') return;
      undo();
      // The turn is over in the log; the loop has not asked for the next.
      queueMicrotask(() => {
        rt.root.inject(message('late'));
        rt.root.wake();
      });
    });
    await rt.ask('one');
    await settled();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'late']]);
  });

  it('that was told to stop goes on with what waits, once it has', async () => {
    const held = gate();
    await using rt = await testHarness({ script: [{ text: ['A', held] }, 'B.'] });
    rt.root.followup(message('one'));
    await until(() => saysText(rt.root.session));
    rt.root.followup(message('two'));
    rt.root.cancel(USER, KEEP);
    rt.root.wake();
    held.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user', 'completed']);
  });

  it('is forgotten by a failure that comes after it', async () => {
    const held = gate();
    const failure = { code: 'AUTH', message: 'No key.' };
    await using rt = await testHarness({ script: [{ text: [held], failure }] });
    rt.root.followup(message('one'));
    await held.arrived();
    rt.root.followup(message('two'));
    rt.root.wake();
    held.open();
    await rt.root.whenIdle();
    await settled();
    expect(ends(rt.root.session)).toEqual(['error AUTH']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
  });
});

describe('a wake from a listener', () => {
  it('of its idleness runs what is parked, before anybody hears that it is idle', async () => {
    await using rt = await testHarness({
      script: [{ failure: { code: 'AUTH', message: 'No key.' } }, 'B.'],
    });
    const undo = rt.harness.on('agent/status', ({ status }) => {
      if (status !== 'idle') return;
      undo();
      rt.root.wake();
    });
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error AUTH', 'completed']);
  });

  it('of a message outlives an interrupt that the same listener asked for before', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    const undo = rt.harness.on('agent/inbox/inserted', () => {
      rt.root.cancel(USER, KEEP);
      rt.root.wake();
    });
    rt.root.followup(message('one'));
    undo();
    expect(rt.root.status).toBe('running');
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('of an event of its log runs what waited, though nothing can be written then', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    rt.harness.agents.enqueue(rt.root, message('one'));
    await settled();
    const undo = rt.harness.on('session/event', () => {
      undo();
      rt.root.wake();
    });
    rt.root.inject(message('aside'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['aside', 'one']]);
  });

  it('of its creation is refused, as a message is', async () => {
    await using rt = await testHarness();
    const codes: unknown[] = [];
    rt.harness.on('agent/created', ({ agent }) => {
      try {
        agent.wake();
      } catch (error) {
        codes.push((error as { code: unknown }).code);
      }
    });
    await rt.harness.agents.create();
    expect(codes).toEqual(['DRAINING']);
  });
});

describe('a wake of an agent that ends', () => {
  it('is refused from the tick of its end on, and says what became of it', async () => {
    await using rt = await testHarness();
    const { agent, dispose } = await rt.harness.agents.create();
    const disposal = dispose();
    const refused = (fate: string): unknown =>
      expect.objectContaining({ code: 'DRAINING', message: expect.stringContaining(fate) });
    expect(() => agent.wake()).toThrow(refused('is being disposed'));
    await disposal;
    for (const tell of ['followup', 'steer', 'inject'] as const) {
      expect(() => agent[tell](message('late'))).toThrow(refused('was disposed'));
    }
    expect(() => agent.wake()).toThrow(refused('was disposed'));
  });

  it('runs nothing when the end comes in the tick of the wake', async () => {
    await using rt = await testHarness();
    rt.harness.agents.enqueue(rt.root, message('one'));
    await settled();
    rt.root.wake();
    await rt.rootHandle.dispose();
    expect([rt.root.status, has(rt.root.session, 'turn/start')]).toEqual(['idle', false]);
  });
});
