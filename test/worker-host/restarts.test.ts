/** An agent that goes on in another thread when its own dies. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { spawning } from '../subagents/spawning.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { USER, callsEndless, endless, ends, has, shown, waiting } from './agent-words.ts';

const limits = { restarts: { max: 2, withinMs: 1_000 } };

/** Every task that begins with "Die" is held until its thread is dead. */
async function dying(options: TestHarnessOptions = {}) {
  const clock = new ManualClock();
  const never = gate();
  const rt: TestHarness = await testHarness({
    clock,
    limits,
    script: () => (shown(rt.model).at(-1)!.at(-1)!.startsWith('Die') ? { hold: never } : 'Done.'),
    ...options,
  });
  return {
    rt,
    clock,
    tell: (...texts: string[]) => texts.forEach((words) => rt.root.followup(message(words))),
    /** The n-th request, whose thread dies now. */
    async dies(request: number) {
      await until(() => rt.model.requests.length === request);
      await settled();
      rt.threads.of(rt.root.id).crash();
    },
    [Symbol.asyncDispose]: () => rt[Symbol.asyncDispose](),
  };
}

describe('restarts', () => {
  it('run what waited in a new thread; the turn that died stays an error', async () => {
    await using t = await dying();
    const { root } = t.rt;
    t.tell('Die.', 'two', 'three');
    await t.dies(1);
    await root.whenIdle();
    expect(ends(root.session)).toEqual(['error WORKER_CRASHED', 'completed', 'completed']);
    expect(shown(t.rt.model).map((texts) => texts.at(-1))).toEqual(['Die.', 'two', 'three']);
    expect(t.rt.threads.all).toHaveLength(2);
  });

  it('are over beyond their intensity, and what waits stays', async () => {
    await using t = await dying();
    t.tell('Die 1.', 'Die 2.', 'Die 3.', 'four');
    for (const request of [1, 2, 3]) await t.dies(request);
    await t.rt.root.whenIdle();
    expect(ends(t.rt.root.session)).toEqual(Array(3).fill('error WORKER_CRASHED'));
    expect(waiting(t.rt.root)).toEqual([[], ['four']]);
  });

  it('count only deaths of the period', async () => {
    await using t = await dying();
    t.tell('Die 1.', 'Die 2.', 'Die 3.', 'four');
    await t.dies(1);
    await t.dies(2);
    await until(() => t.rt.model.requests.length === 3);
    await t.clock.advance(1_000);
    await t.dies(3);
    await t.rt.root.whenIdle();
    expect(ends(t.rt.root.session).at(-1)).toBe('completed');
    expect(waiting(t.rt.root)).toEqual([[], []]);
  });

  it('are off by default', async () => {
    await using t = await dying({ limits: {} });
    t.tell('Die.', 'two');
    await t.dies(1);
    await t.rt.root.whenIdle();
    expect(waiting(t.rt.root)).toEqual([[], ['two']]);
  });

  it('take up again what was claimed for a step that did not begin', async () => {
    await using t = await dying();
    const held = gate();
    let asked = 0;
    t.rt.harness.hooks.on('agent/pre-step', async (_, next) => {
      if (asked++ === 0) await held.wait();
      return next();
    });
    t.tell('one');
    await held.arrived();
    t.rt.threads.of(t.rt.root.id).crash();
    await t.rt.root.whenIdle();
    expect(ends(t.rt.root.session)).toEqual(['error WORKER_CRASHED', 'completed']);
    expect(shown(t.rt.model)).toEqual([['one']]);
    held.open();
  });

  it('go on with what was accepted and not claimed yet', async () => {
    const store = new StallingStore();
    await using t = await dying({ store });
    const write = store.stall();
    t.tell('one');
    t.rt.threads.of(t.rt.root.id).crash();
    await settled();
    write.open();
    await t.rt.root.whenIdle();
    expect(ends(t.rt.root.session)).toEqual(['completed']);
  });

  it('leave what an interrupt parked, also when its thread had to be ended', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, limits, ...endless, script: [callsEndless, 'B.'] });
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await until(() => has(rt.root.session, 'tool/call'));
    await settled();
    rt.root.cancel(USER, { keepInbox: true });
    await clock.advance(5_000);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    rt.root.wake();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user', 'completed']);
  });

  it('follow the end of a thread that passed a limit, and not the limit itself', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({
      clock,
      limits: { ...limits, toolMs: 100 },
      ...endless,
      script: [callsEndless, 'B.'],
    });
    const { agent } = await rt.harness.agents.create({ meta: { delegationDepth: 1 } });
    agent.followup(message('one'));
    agent.followup(message('two'));
    await until(() => has(agent.session, 'tool/call'));
    await settled();
    await clock.advance(5_100);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED', 'completed']);
    const held = gate();
    await using other = await testHarness({
      clock,
      limits: { ...limits, turnMs: 100 },
      script: [{ hold: held }],
    });
    const { agent: polite } = await other.harness.agents.create({ meta: { delegationDepth: 1 } });
    polite.followup(message('one'));
    polite.followup(message('two'));
    await held.arrived();
    await clock.advance(100);
    await polite.whenIdle();
    expect(ends(polite.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(waiting(polite)).toEqual([[], ['two']]);
  });

  it('are no matter of a one-shot child, which settles with its error', async () => {
    const held = gate();
    await using t = await spawning({ limits, script: [{ hold: held }] });
    const run = await t.start();
    run.localAgent!.followup(message('And this.'));
    await held.arrived();
    t.threads.of(run.id).crash();
    const { stopReason, diagnostic } = await run.result;
    expect([stopReason, diagnostic]).toEqual(['error', expect.stringMatching(/^WORKER_CRASHED: /)]);
    expect(ends(run.localAgent!.session)).toHaveLength(1);
    await run.dispose();
  });
});
