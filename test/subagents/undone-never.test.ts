/** What a setup registered to be undone, and never is, keeps nobody from ending. */
import { describe, expect, it } from 'vitest';
import type { AgentHandle } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { rejection } from './stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled } from '../support/until.ts';

const unhandled = watchUnhandled();
const STOP_GRACE_MS = 1_000;
const FAILED = { code: 'ACTIVATION_TEARDOWN_FAILED' };
const LATE = 'What was to be undone with an agent was not done in time.';

async function built() {
  const clock = new ManualClock();
  const t = await testHarness({ clock, limits: { stopGraceMs: STOP_GRACE_MS } });
  return { clock, t, late: () => t.warnings.filter(({ message }) => message === LATE).length };
}
type Undo = () => void | Promise<void>;
const agent = (t: TestHarness, ...undo: Undo[]) =>
  t.harness.agents.create({ setup: (child) => undo.forEach((one) => child.onDispose(one)) });

const ENDS = {
  'its own disposal': (_: TestHarness, own: AgentHandle) => own.dispose(),
  'the disposal of the harness': ({ harness }: TestHarness) => harness.dispose(),
} as const;

describe.each(Object.entries(ENDS))('of an agent that ends by %s', (_, end) => {
  it('is waited for as long as its thread is, and then told as a failure', async () => {
    const { clock, t, late } = await built();
    const hold = gate();
    const ran: string[] = [];
    const handle = await agent(
      t,
      () => void ran.push('registered before'),
      () => hold.wait(),
    );
    let isOver = false;
    const told = rejection(end(t, handle)).finally(() => (isOver = true));
    await hold.arrived();
    await clock.advance(STOP_GRACE_MS - 1);
    expect([isOver, ran, late()]).toEqual([false, [], 0]);
    await clock.advance(1);
    await settled();
    expect(await told).toMatchObject(FAILED);
    expect(ran).toEqual(['registered before']);
    expect(late()).toBe(1);
    expect(t.harness.agents.get(handle.agent.id)).toBeUndefined();
    hold.open();
    await t.harness.dispose().catch(() => {});
    expect(clock.pending).toBe(0);
  });
});

it('of several agents that end together takes that time once', async () => {
  const { clock, t, late } = await built();
  const hold = gate();
  let owner = t.root;
  for (let depth = 0; depth < 4; depth++) {
    const made = await t.harness.agents.create({
      owner,
      setup: ({ onDispose }) => onDispose(() => hold.wait()),
    });
    owner = made.agent;
  }
  const told = rejection(t.rootHandle.dispose());
  await hold.arrived();
  await clock.advance(STOP_GRACE_MS);
  await settled();
  await clock.advance(0);
  expect(await told).toMatchObject(FAILED);
  expect(late()).toBe(4);
  hold.open();
  await t.harness.dispose();
});

it('of a child ends with the drain, which tells it', async () => {
  const { clock, t, late } = await built();
  const hold = gate();
  t.harness.subagents.registerContinuableSetup(({ onDispose }) => {
    onDispose(() => hold.wait());
    return () => {};
  });
  const { childId } = await t.harness.subagents.startContinuable({
    provider: 'spawn',
    label: 'child',
    request: { parent: t.root, prompt: 'Work.' },
    signal: new AbortController().signal,
  });
  const drained = rejection(t.harness.subagents.drainContinuableChildren(t.root, [childId]));
  await hold.arrived();
  await clock.advance(STOP_GRACE_MS);
  await settled();
  expect(await drained).toMatchObject(FAILED);
  expect(late()).toBe(1);
  expect(t.harness.agents.list()).toEqual([t.root]);
  hold.open();
  await t.harness.dispose();
});

it('of a start that fails keeps nobody from hearing of that', async () => {
  const { clock, t } = await built();
  const hold = gate();
  const failure = new Error('Not this one.');
  const made = t.harness.agents.create({
    setup({ onDispose }) {
      onDispose(() => hold.wait());
      throw failure;
    },
  });
  const told = rejection(made);
  await hold.arrived();
  await clock.advance(STOP_GRACE_MS);
  expect(await told).toBe(failure);
  hold.open();
  await t.harness.dispose();
});

it('is let go of when it fails after that time', async () => {
  const { clock, t } = await built();
  const hold = gate();
  const handle = await agent(t, async () => {
    await hold.wait();
    throw new Error('Too late.');
  });
  const told = rejection(handle.dispose());
  await hold.arrived();
  await clock.advance(STOP_GRACE_MS);
  expect(await told).toMatchObject(FAILED);
  hold.open();
  await settled();
  expect(unhandled).toEqual([]);
  await t.harness.dispose();
});
