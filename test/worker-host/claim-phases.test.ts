/** A claim that is answered when its thread, or its turn, is not any more what it was. */
import { expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { USER, ends, has, shown, waiting } from './agent-words.ts';

it('opens no turn in a thread that is leaving', async () => {
  const store = new StallingStore();
  await using rt = await testHarness({
    store,
    limits: { maxThreads: 1 },
    script: ['A.', 'B.', 'C.'],
  });
  let commits = gate();
  rt.harness.on('session/event', ({ event }) => {
    if (event.type !== 'turn/end' || event.data.turn !== 1) return;
    queueMicrotask(() => {
      commits = gate();
      store.hold = commits;
      rt.root.followup(message('two'));
    });
  });
  rt.root.followup(message('one'));
  await until(() => waiting(rt.root)[1]!.includes('two'));
  // By now its claim waits for the commit.
  await settled();
  rt.root.cancel(USER, { keepInbox: true });
  const creation = rt.harness.agents.create();
  await until(() => rt.threads.of(rt.root.id).ports?.waiting('worker') === 1);
  // What was parked may run again, and is committed when the claim is answered.
  rt.root.followup(message('three'));
  commits.open();
  await creation;
  await rt.root.whenIdle();
  expect(ends(rt.root.session)).toEqual(['completed', 'completed', 'completed']);
  expect(shown(rt.model).at(-1)).toEqual(['one', 'two', 'three']);
});

it('of a step takes nothing when its thread ended the turn meanwhile', async () => {
  const store = new StallingStore();
  const answer = gate();
  await using rt = await testHarness({ store, script: [{ hold: answer }] });
  const errors: string[] = [];
  rt.harness.on('agent/error', ({ error }) => errors.push(error.code));
  rt.root.followup(message('go'));
  await answer.arrived();
  const held = store.stall();
  rt.root.steer(message('and this'));
  const { worker } = rt.threads.of(rt.root.id).ports!;
  const post = (frame: object): void => worker.postMessage(pack(frame));
  const claim = {
    id: 'x',
    type: 'APPLY',
    path: ['claim'],
    argumentList: ['step', true].map((value) => ({ type: 'RAW', value })),
  };
  const turnEnd = { type: 'turn/end', data: { turn: 1, reason: { kind: 'completed' } } };
  post({ type: 'events', from: 0, events: [{ type: 'step/end', data: { turn: 1, step: 1 } }] });
  post({ type: 'call', message: claim });
  post({ type: 'events', from: 1, events: [turnEnd] });
  await until(() => has(rt.root.session, 'turn/end'));
  held.open();
  await until(() => errors.length > 0);
  expect(errors).toEqual(['PROTOCOL_VIOLATION']);
  await rt.root.whenIdle();
  expect(waiting(rt.root)).toEqual([['and this'], []]);
});
