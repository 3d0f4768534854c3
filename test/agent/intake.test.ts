import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent, AgentEvents } from '../../src/agent/agent.ts';
import { Intake, Phase } from '../../src/agent/intake.ts';
import { Emitter } from '../../src/base/emitter.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled } from '../support/until.ts';

const message = createUserMessage;

function taking({ resumed = false } = {}) {
  const store = new StallingStore();
  const sessions = new Sessions({ store, clock: new ManualClock(), logger: silentLogger });
  const session = sessions.prepare({});
  sessions.enter(session);
  sessions.accept(session);
  const agent = { id: session.id } as Agent;
  const observers = new Emitter<AgentEvents>(silentLogger);
  const told: string[] = [];
  observers.on('agent/error', ({ error }) => told.push(`error ${error.code}`));
  const intake = new Intake({
    agent,
    session,
    observers,
    resumed,
    maxPending: Infinity,
    onAccepted: () => told.push('accepted'),
    onWake: () => told.push('wake'),
    onSettled: () => told.push('settled'),
  });
  return { store, session, intake, observers, told, close: () => sessions.close() };
}

describe('an intake', () => {
  it('takes nothing before its agent is published, and nothing once it is closed', async () => {
    const { intake, session, close } = taking();
    const refused = expect.objectContaining({ code: 'DRAINING' });
    expect(() => intake.accept(message('early'), 'next-turn', true)).toThrow(refused);
    intake.open();
    intake.close();
    expect(() => intake.accept(message('late'), 'next-turn', true)).toThrow(refused);
    expect(session.seq).toBe(0);
    await close();
  });

  it('accepts in the call, and wakes once that is committed', async () => {
    const { intake, store, told, close } = taking();
    intake.open();
    const held = store.stall();
    intake.accept(message('one'), 'next-turn', true);
    expect(told).toEqual(['accepted']);
    expect(intake.mayOpenTurn).toBe(true);
    let isSettled = false;
    const waiting = intake.settled().then(() => (isSettled = true));
    await settled();
    expect(isSettled).toBe(false);
    held.open();
    await waiting;
    expect(told).toEqual(['accepted', 'wake']);
    await close();
  });

  it('takes back what could not be committed, and only that', async () => {
    const { intake, store, told, close } = taking();
    intake.open();
    intake.accept(message('kept'), 'next-step', false);
    await intake.settled();
    store.failure = new StoreError('STORE_FULL', 'Full.');
    intake.accept(message('lost'), 'next-turn', true);
    await intake.settled();
    await settled();
    expect(told).toEqual(['settled', 'accepted', 'error STORE_FULL', 'settled']);
    expect(intake.inbox.nextTurn).toEqual([]);
    expect(intake.inbox.nextStep).toHaveLength(1);
    expect(intake.mayOpenTurn).toBe(false);
    store.failure = undefined;
    await close();
  });

  it('wakes nobody for context, which alone opens no turn', async () => {
    const { intake, told, close } = taking();
    intake.open();
    intake.accept(message('aside'), 'next-step', false);
    await intake.settled();
    expect(told).toEqual(['settled']);
    expect(intake.mayOpenTurn).toBe(false);
    intake.accept(message('steered'), 'next-step', true);
    expect(intake.mayOpenTurn).toBe(true);
    await close();
  });

  it('does not wake an agent that was closed while the message was committed', async () => {
    const { intake, store, told, close } = taking();
    intake.open();
    const held = store.stall();
    intake.accept(message('one'), 'next-turn', true);
    intake.close();
    held.open();
    await intake.settled();
    expect(told).toEqual(['accepted']);
    expect(intake.mayOpenTurn).toBe(false);
    await close();
  });

  it('that is parked opens no turn until something waking comes', async () => {
    const { intake, close } = taking({ resumed: true });
    intake.open();
    expect(intake.parkedBy).toBe('resume');
    intake.accept(message('aside'), 'next-step', false);
    expect(intake.parkedBy).toBe('resume');
    intake.accept(message('go'), 'next-turn', true);
    expect(intake.mayOpenTurn).toBe(true);
    intake.park('failure');
    expect(intake.mayOpenTurn).toBe(false);
    await close();
  });

  it('stays parked for the last reason when what came meanwhile is not kept', async () => {
    const { intake, store, close } = taking({ resumed: true });
    intake.open();
    store.failure = new StoreError('STORE_IO', 'No disk.');
    const fail = async (): Promise<void> => {
      intake.accept(message('lost'), 'next-turn', true);
      await intake.settled();
    };
    await fail();
    expect(intake.parkedBy).toBe('resume');
    intake.park('failure');
    await fail();
    expect(intake.parkedBy).toBe('failure');
    await close();
  });

  it('knows a message as waking before anybody is told of it', async () => {
    const { intake, observers, close } = taking();
    intake.open();
    const seen: boolean[] = [];
    observers.on('agent/inbox/inserted', () => seen.push(intake.mayOpenTurn));
    observers.on('agent/inbox/inserted', ({ message: { id } }) => intake.inbox.remove(id));
    intake.accept(message('steered'), 'next-step', true);
    expect(seen).toEqual([true]);
    expect(intake.mayOpenTurn).toBe(false);
    await close();
  });

  it('accepts the same message again once it was claimed, as waking or not', async () => {
    const { intake, close } = taking();
    intake.open();
    const one = message('one');
    intake.accept(one, 'next-step', true);
    expect(() => intake.accept(one, 'next-turn', true)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    );
    expect(intake.mayOpenTurn).toBe(true);
    intake.inbox.claim('turn', 1);
    intake.accept(one, 'next-step', false);
    expect(intake.mayOpenTurn).toBe(false);
    await close();
  });
});

describe('the claim of an intake', () => {
  it('waits for what was accepted before it, and takes nothing that is not committed', async () => {
    const { intake, store, close } = taking();
    intake.open();
    const first = store.stall();
    const names = (): string[] =>
      intake.claim('turn', 1).map(({ content }) => (content[0] as { text: string }).text);
    intake.accept(message('one'), 'next-turn', true);
    intake.accept(message('aside'), 'next-step', false);
    const before = intake.settled();
    await settled();
    const second = store.stall();
    intake.accept(message('late'), 'next-step', true);
    intake.accept(message('later'), 'next-turn', true);
    expect([intake.mayOpenTurn, intake.hasCommittedTurn]).toEqual([true, false]);
    first.open();
    await before;
    expect(intake.hasCommittedTurn).toBe(true);
    expect(names()).toEqual(['aside', 'one']);
    expect([intake.mayOpenTurn, intake.hasCommittedTurn]).toEqual([true, false]);
    expect(names()).toEqual([]);
    second.open();
    await intake.settled();
    expect(intake.hasCommittedTurn).toBe(true);
    expect(names()).toEqual(['late', 'later']);
    await close();
  });

  it('takes what was put back without another wait', async () => {
    const { intake, store, close } = taking();
    intake.open();
    intake.accept(message('one'), 'next-turn', true);
    await intake.settled();
    intake.claim('turn', 1);
    const held = store.stall();
    intake.putBack();
    expect(intake.claim('turn', 2)).toHaveLength(1);
    held.open();
    await close();
  });

  it.each(['next-step', 'next-turn'] as const)(
    'puts a waking message back into %s as one, and what wakes nobody as that',
    async (target) => {
      const { intake, close } = taking();
      intake.open();
      intake.accept(message('steer'), target, true);
      await intake.settled();
      intake.claim('turn', 1);
      intake.putBack();
      expect([intake.mayOpenTurn, intake.hasUnparkedWork]).toEqual([true, true]);
      // Of a claim after that nothing of the one before is left.
      intake.claim('turn', 2);
      intake.accept(message('aside'), 'next-turn', false);
      await intake.settled();
      intake.claim('turn', 3);
      intake.putBack();
      expect([intake.mayOpenTurn, intake.hasUnparkedWork]).toEqual([true, false]);
      await close();
    },
  );

  it('knows two insertions of one message apart', async () => {
    const { intake, store, told, close } = taking();
    intake.open();
    intake.accept(message('kept'), 'next-step', false);
    await intake.settled();
    const [first, one] = [store.stall(), message('one')];
    store.failure = new StoreError('STORE_IO', 'Broken.');
    intake.accept(one, 'next-turn', true);
    await settled();
    const second = store.stall();
    intake.inbox.remove(one.id);
    intake.accept(one, 'next-turn', true);
    first.open();
    await settled();
    expect(told).toContain('error STORE_IO');
    expect([intake.inbox.nextTurn.length, intake.hasCommittedTurn]).toEqual([1, false]);
    store.failure = undefined;
    second.open();
    await intake.settled();
    expect(intake.hasCommittedTurn).toBe(true);
    await close();
  });
});

describe('a phase', () => {
  it('is told at every change, and only at changes', async () => {
    const observers = new Emitter<AgentEvents>(silentLogger);
    const told: string[] = [];
    observers.on('agent/status', ({ status }) => told.push(status));
    const phase = new Phase({} as Agent, observers);
    await phase.whenIdle();
    phase.set('idle');
    phase.set('running');
    phase.set('running');
    phase.set('idle');
    expect(told).toEqual(['running', 'idle']);
  });

  it('is waited for until it stays idle', async () => {
    const observers = new Emitter<AgentEvents>(silentLogger);
    const phase = new Phase({} as Agent, observers);
    let runs = 0;
    observers.on('agent/status', ({ status }) => {
      // New work, given by whoever is told.
      if (status === 'idle' && ++runs === 1) phase.set('running');
    });
    phase.set('running');
    let isIdle = false;
    const waiting = phase.whenIdle().then(() => (isIdle = true));
    phase.set('idle');
    await settled();
    expect([phase.status, isIdle]).toEqual(['running', false]);
    phase.set('idle');
    await waiting;
  });
});
