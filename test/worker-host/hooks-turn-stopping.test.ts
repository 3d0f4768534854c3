/** `agent/turn-stopping`: the last chance to give a turn more to do. */
import { expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled } from '../support/until.ts';
import { USER, ends, has, shown, waiting } from './agent-words.ts';

const calls = { toolCalls: [{ name: 'note', arguments: {} }] };
const note = {
  name: 'note',
  description: 'Notes.',
  parameters: { type: 'object' },
  execute: () => 'Noted.',
};

it('is asked once the last step is done and nothing waits, every hook of it', async () => {
  const held = gate();
  await using rt = await testHarness({
    tools: [note],
    script: [{ ...calls, hold: held }, 'Two.', { text: 'Three', finish: 'max-tokens' }],
  });
  const asked: string[] = [];
  for (const name of ['a', 'b']) {
    rt.harness.hooks.on('agent/turn-stopping', ({ agent, turn, signal }) => {
      expect([agent, signal.aborted]).toEqual([rt.root, false]);
      asked.push(`${name} of turn ${turn}, after ${rt.model.requests.length} requests`);
    });
  }
  rt.root.followup(message('go'));
  await held.arrived();
  held.open();
  rt.root.followup(message('more'));
  await rt.root.whenIdle();
  expect(asked).toEqual([
    'a of turn 1, after 2 requests',
    'b of turn 1, after 2 requests',
    'a of turn 2, after 3 requests',
    'b of turn 2, after 3 requests',
  ]);
  expect(ends(rt.root.session)).toEqual(['completed', 'max-tokens']);
});

it.each(['steer', 'inject'] as const)(
  'can give the turn a further step by %s, and is asked again after that',
  async (how) => {
    await using rt = await testHarness({ script: ['One.', 'Two.'] });
    let asked = 0;
    rt.harness.hooks.on('agent/turn-stopping', ({ agent }) => {
      if (++asked === 1) agent[how](message('and this'));
    });
    await rt.ask('go');
    expect(shown(rt.model)).toEqual([['go'], ['go', 'and this']]);
    expect(ends(rt.root.session)).toEqual(['completed']);
    expect(asked).toBe(2);
  },
);

it('lets a message join that was accepted while it ran', async () => {
  const held = gate();
  await using rt = await testHarness({ script: ['One.', 'Two.', 'Three.'] });
  let asked = 0;
  rt.harness.hooks.on('agent/turn-stopping', async () => {
    if (++asked === 1) await held.wait();
  });
  rt.root.followup(message('go'));
  await held.arrived();
  rt.root.followup(message('later'));
  rt.root.steer(message('now'));
  held.open();
  await rt.root.whenIdle();
  expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['go', 'now', 'later']);
  expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
});

it('waits until what was accepted meanwhile is committed', async () => {
  const store = new StallingStore();
  const asked = gate();
  await using rt = await testHarness({ store, script: ['One.', 'Two.'] });
  let held: { open(): void } | undefined;
  rt.harness.hooks.on('agent/turn-stopping', ({ agent }) => {
    if (held !== undefined) return;
    held = store.stall();
    agent.steer(message('now'));
    void asked.wait();
  });
  rt.root.followup(message('go'));
  await asked.arrived();
  await settled();
  expect(waiting(rt.root)).toEqual([['now'], []]);
  expect(ends(rt.root.session)).toEqual([]);
  held?.open();
  await rt.root.whenIdle();
  expect(shown(rt.model)).toEqual([['go'], ['go', 'now']]);
  expect(ends(rt.root.session)).toEqual(['completed']);
});

it('spends nothing that was not committed yet when the turn was stopped', async () => {
  const store = new StallingStore();
  const asked = gate();
  await using rt = await testHarness({ store, script: ['One.'] });
  let held: { open(): void } | undefined;
  rt.harness.hooks.on('agent/turn-stopping', ({ agent }) => {
    held = store.stall();
    agent.steer(message('now'));
    void asked.wait();
  });
  rt.root.followup(message('go'));
  await asked.arrived();
  await settled();
  rt.root.cancel(USER, { keepInbox: true });
  held?.open();
  await rt.root.whenIdle();
  expect(ends(rt.root.session)).toEqual(['aborted user']);
  expect(waiting(rt.root)).toEqual([['now'], []]);
});

it('fails the turn when it throws', async () => {
  await using rt = await testHarness({ script: ['One.'] });
  rt.harness.hooks.on('agent/turn-stopping', () => Promise.reject(new Error('No.')));
  await rt.ask('go');
  expect(ends(rt.root.session)).toEqual(['error UNKNOWN']);
  expect(has(rt.root.session, 'assistant/message')).toBe(true);
});

it.each(['returns', 'throws'])('is cut short by a stop, whatever it %s later', async (how) => {
  const held = gate();
  // The time in which a thread that does not obey is ended does not pass.
  await using rt = await testHarness({ clock: new ManualClock(), script: ['One.'] });
  rt.harness.hooks.on('agent/turn-stopping', async () => {
    await held.wait();
    if (how === 'throws') throw new Error('Late.');
  });
  rt.root.followup(message('go'));
  await held.arrived();
  rt.root.cancel(USER);
  await rt.root.whenIdle();
  const { seq } = rt.root.session;
  held.open();
  await settled();
  expect(rt.root.session.seq).toBe(seq);
  expect(ends(rt.root.session)).toEqual(['aborted user']);
});

it('may stop the turn itself', async () => {
  await using rt = await testHarness({ script: ['One.'] });
  rt.harness.hooks.on('agent/turn-stopping', ({ agent }) => agent.cancel(USER));
  await rt.ask('go');
  expect(ends(rt.root.session)).toEqual(['aborted user']);
});

it('leaves what it gave to a turn of its own when the turn was stopped', async () => {
  await using rt = await testHarness({ script: ['One.', 'Two.'] });
  rt.harness.hooks.on('agent/turn-stopping', ({ agent, turn }) => {
    if (turn > 1) return;
    agent.cancel(USER);
    agent.steer(message('and this'));
  });
  await rt.ask('go');
  expect(ends(rt.root.session)).toEqual(['aborted user', 'completed']);
});
