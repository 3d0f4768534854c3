/**
 * Agents that share too few threads, which die and are taken, while they are told things and
 * stopped. A seed makes the whole of a walk; `SEED=17` walks that one alone. Whatever happens,
 * nobody who has work is forgotten: it ends in a turn, or is parked, which the next message ends.
 */
import { setImmediate as macrotask } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { testHarness } from '../support/harness.ts';
import type { InProcessThread } from '../support/in-process-threads.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { Dice } from './plan.ts';

const WALKS = Number(process.env['WALKS'] ?? 150);
const IN_ONE_TEST = 20;
const { SEED } = process.env;
const firsts =
  SEED === undefined
    ? Array.from({ length: Math.ceil(WALKS / IN_ONE_TEST) }, (_, block) => block * IN_ONE_TEST + 1)
    : [Number(SEED)];
const GRACE_MS = 50;
/** Turns of the event loop in which everything that can end has ended. */
const MANY_TURNS = 3_000;

async function walk(seed: number): Promise<readonly string[]> {
  const dice = new Dice(seed);
  const clock = new ManualClock();
  const problems = new Set<string>();
  // By hand: in what order the frames of all threads are delivered is random, too.
  const delivery = dice.chance(0.4) ? 'manual' : 'auto';
  const made: InProcessThread[] = [];
  const state = { isOver: false };
  let stalls = (): readonly string[] => [];
  const tick = async (): Promise<void> => {
    await macrotask();
    for (const stall of stalls()) problems.add(stall);
    if (dice.chance(0.2)) await clock.advance(dice.int(8));
    if (delivery === 'auto') return;
    for (const { ports } of made) ports?.flush(dice.int(3), dice.pick(['main', 'worker']));
  };
  // Whoever waits for something here needs the threads to go on meanwhile.
  const pumping = (async () => {
    while (!state.isOver) await tick();
  })();
  await using rt = await testHarness({
    clock,
    limits: {
      maxThreads: dice.pick([1, 1, 2, 3]),
      stopGraceMs: GRACE_MS,
      interruptGraceMs: GRACE_MS,
    },
    tools: [{ module: new URL('file:///none.mjs') }],
    threads: {
      delivery,
      made: (thread) => void made.push(thread),
      async import() {
        for (let left = dice.int(4); left > 0; left--) await macrotask();
        return { default: [] };
      },
    },
    // Some of it does not look at its signal, so that a thread is ended for it.
    script: async (_, { signal }) => {
      const ends = dice.chance(0.1) ? [] : [signal];
      for (let left = dice.int(6); left > 0 && !ends.some(({ aborted }) => aborted); left--) {
        await macrotask();
      }
      return 'Well.';
    },
  });
  stalls = () => rt.stalls();
  const agents: Agent[] = [rt.root];
  const creating = Array.from({ length: 1 + dice.int(3) }, () => rt.harness.agents.create());
  for (const creation of creating) agents.push((await creation).agent);
  for (let act = 20 + dice.int(30); act > 0; act--) {
    const agent = dice.pick(agents);
    const what = dice.next();
    if (what < 0.4) agent.followup(message('Do.'));
    else if (what < 0.5) agent.steer(message('Turn.'));
    else if (what < 0.55) agent.inject(message('Aside.'));
    else if (what < 0.6) rt.harness.agents.enqueue(agent, message('Later.'));
    else if (what < 0.85) agent.cancel({ kind: 'user' }, { keepInbox: dice.chance(0.8) });
    else if (rt.threads.all.some(({ init }) => init?.sessionId === agent.id)) {
      rt.threads.of(agent.id).crash();
    }
    for (let left = dice.int(12); left > 0; left--) {
      await (dice.chance(0.5) ? undefined : macrotask());
    }
  }
  const isDone = (): boolean => agents.every(({ status }) => status === 'idle');
  for (let turn = 0; turn < MANY_TURNS && !isDone(); turn++) await macrotask();
  if (!isDone()) problems.add('somebody still runs');
  // A thread that crashed says so in a frame, and what comes before that is parked by it.
  const isHeard = (): boolean =>
    made.every(({ ports }) => ports === undefined || ports.waiting('main') === 0);
  for (let turn = 0; turn < MANY_TURNS && !isHeard(); turn++) await macrotask();
  // What was parked goes with the next message.
  for (const agent of agents) agent.followup(message('All of it.'));
  for (let turn = 0; turn < MANY_TURNS && !isDone(); turn++) await macrotask();
  for (const { status, inbox, id } of agents) {
    if (status !== 'idle') problems.add(`${id} still runs`);
    if (inbox.hasPending) problems.add(`${id} has something waiting`);
  }
  const disposal = rt.harness.dispose();
  await disposal;
  state.isOver = true;
  await pumping;
  return [...problems].map((problem) => `seed ${seed}: ${problem}`);
}

it.each(firsts)('forgets nobody, with the seeds from %i on', async (first) => {
  const problems: string[] = [];
  const last = SEED === undefined ? first + IN_ONE_TEST - 1 : first;
  for (let seed = first; seed <= last; seed++) problems.push(...(await walk(seed)));
  expect(problems).toEqual([]);
});
