import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../support/gate.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { USER, callsDeaf, deafTool, ends, has, shown, statuses, waiting } from './agent-words.ts';

describe('a waking message', () => {
  it('makes the agent running at once, and runs when it is committed', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['Hello.'] });
    const told = statuses(rt);
    const held = store.stall();
    rt.root.followup(message('Hi'));
    expect(rt.root.status).toBe('running');
    await settled();
    expect(waiting(rt.root)).toEqual([[], ['Hi']]);
    expect(has(rt.root.session, 'turn/start')).toBe(false);
    held.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed']);
    expect(told).toEqual(['running', 'idle']);
  });

  it('that cannot be committed is withdrawn, and nothing of it runs', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['Hello.'] });
    const errors: object[] = [];
    rt.harness.on('agent/error', ({ error }) => errors.push(error));
    store.failure = new StoreError('STORE_FULL', 'The disk is full.');
    rt.root.followup(message('Hi'));
    await rt.root.whenIdle();
    expect(errors).toMatchObject([{ code: 'STORE_FULL' }]);
    expect(waiting(rt.root)).toEqual([[], []]);
    expect(rt.model.requests).toEqual([]);
    store.failure = undefined;
    await rt.ask('Again');
    expect(shown(rt.model)).toEqual([['Again']]);
  });

  it('that waits behind a turn is not claimed before it is committed', async () => {
    const store = new StallingStore();
    const turn = gate();
    await using rt = await testHarness({ store, script: [{ hold: turn, text: 'A.' }, 'B.'] });
    rt.root.followup(message('one'));
    await until(() => rt.model.requests.length === 1);
    const held = store.stall();
    rt.root.followup(message('two'));
    turn.open();
    await until(() => has(rt.root.session, 'step/end'));
    await settled();
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    expect(ends(rt.root.session)).toEqual([]);
    held.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
  });

  it('that is removed before it is claimed leaves a running and an idle, and no turn', async () => {
    await using rt = await testHarness();
    const told = statuses(rt);
    const one = message('Hi');
    rt.root.followup(one);
    rt.root.cancel(USER);
    expect(waiting(rt.root)).toEqual([[], []]);
    await rt.root.whenIdle();
    expect(told).toEqual(['running', 'idle']);
    expect(has(rt.root.session, 'turn/start')).toBe(false);
  });

  it('opens one turn of its own, and status is told once for all of them', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    const told = statuses(rt);
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
    expect(told).toEqual(['running', 'idle']);
  });

  it('that is sent by whoever hears that the agent is idle is run as well', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    let isFirst = true;
    rt.harness.on('agent/status', ({ agent, status }) => {
      if (status !== 'idle' || !isFirst) return;
      isFirst = false;
      agent.followup(message('two'));
    });
    rt.root.followup(message('one'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });

  it('that is accepted while the loop asks for more is run without another', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    // Between the end of the turn and the claim that follows it.
    rt.harness.on('session/event', ({ session, event }) => {
      if (event.type !== 'turn/end' || event.data.turn !== 1) return;
      queueMicrotask(() => rt.harness.agents.get(session.id)?.followup(message('two')));
    });
    rt.root.followup(message('one'));
    await rt.root.whenIdle();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });
});

describe('steering and injecting', () => {
  it('joins the running turn at its next step', async () => {
    const tool = deafTool();
    await using rt = await testHarness({ tools: [tool], script: [callsDeaf, 'Done.'] });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'tool/call'));
    rt.root.steer(message('left'));
    rt.root.inject(message('aside'));
    tool.held.open();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['go'], ['go', 'left', 'aside']]);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('adds a step to a turn that would have ended', async () => {
    const held = gate();
    await using rt = await testHarness({ script: [{ hold: held, text: 'A.' }, 'B.'] });
    rt.root.followup(message('go'));
    await until(() => rt.model.requests.length === 1);
    rt.root.inject(message('aside'));
    held.open();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['go'], ['go', 'aside']]);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('of an idle agent opens a turn when it wakes, and waits when it does not', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    rt.root.inject(message('aside'));
    await settled();
    expect(rt.root.status).toBe('idle');
    expect(waiting(rt.root)).toEqual([['aside'], []]);
    rt.root.steer(message('now'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['aside', 'now']]);
  });
});

describe('a turn that fails', () => {
  it('parks what waits; the next message runs it first', async () => {
    const failure = { code: 'AUTH', message: 'No key.' };
    await using rt = await testHarness({ script: [{ failure }, 'B.', 'C.'] });
    const errors: object[] = [];
    rt.harness.on('agent/error', ({ turn, error }) => errors.push({ turn, ...error }));
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(errors).toEqual([{ turn: 1, ...failure }]);
    expect(ends(rt.root.session)).toEqual(['error AUTH']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    await rt.ask('three');
    expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['one', 'two', 'three']);
  });

  it('because its runtime context could not be made has no step', async () => {
    await using rt = await testHarness();
    rt.harness.prompt.context({ name: 'c', order: 1, text: '{{missing}}' });
    await rt.ask('go');
    expect(eventTypes(rt.root.session).slice(1)).toEqual([
      'turn/start',
      'agent/inbox/spliced',
      'turn/end',
    ]);
    expect(ends(rt.root.session)).toEqual(['error UNKNOWN']);
  });

  it('because its system text could not be made fails in its first step, unasked', async () => {
    await using rt = await testHarness();
    rt.harness.prompt.section({ name: 's', order: 1, text: '{{missing}}' });
    const asked: string[] = [];
    rt.harness.hooks.on('agent/request', () => void asked.push('request'));
    rt.harness.hooks.on('agent/request-error', () => void asked.push('request-error'));
    await rt.ask('go');
    expect(eventTypes(rt.root.session).slice(1)).toEqual([
      'turn/start',
      'agent/inbox/spliced',
      'step/start',
      'user/message',
      'step/end',
      'turn/end',
    ]);
    expect(ends(rt.root.session)).toEqual(['error UNKNOWN']);
    expect(asked).toEqual([]);
  });

  it('because its step could not be committed asks no model', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['Never.', 'B.'] });
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/start') store.failure = new StoreError('STORE_IO', 'Broken.');
    });
    rt.root.followup(message('go'));
    await rt.root.whenIdle();
    expect(rt.model.requests).toEqual([]);
    expect(ends(rt.root.session)).toEqual(['error STORE_IO']);
    expect(eventTypes(rt.root.session).slice(-2)).toEqual(['step/end', 'turn/end']);
    store.failure = undefined;
  });
});

it('is not disturbed by a listener that throws, or appends where it may not', async () => {
  await using rt = await testHarness({ script: ['A.'] });
  rt.harness.on('session/event', ({ session }) => {
    session.append('session/end-seed', {});
  });
  rt.harness.on('agent/status', () => {
    throw new Error('A bad listener.');
  });
  await rt.ask('go');
  expect(ends(rt.root.session)).toEqual(['completed']);
  expect(has(rt.root.session, 'session/end-seed')).toBe(false);
  expect(rt.warnings.some(({ error }) => error?.message === 'A bad listener.')).toBe(true);
});
