/** One run: everything that a seed lets happen, and what was wrong with it. */
import { census } from '../../src/base/census.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { Acts } from './acts.ts';
import { drawFault } from './faults.ts';
import { ground } from './ground.ts';
import type { Ground } from './ground.ts';
import { HookWatch } from './hooks.ts';
import { EPOCH, here, Life } from './life.ts';
import { mindsOf } from './minds.ts';
import { checkDisk } from './on-disk.ts';
import { Oracle } from './oracle.ts';
import { planOf, STOP_GRACE_MS } from './plan.ts';
import type { Cut, Plan } from './plan.ts';
import { Scheduler } from './scheduler.ts';
import type { Action } from './scheduler.ts';
import { SimThread } from './sim-thread.ts';

export interface Verdict {
  readonly seed: number;
  readonly plan: Plan;
  readonly violations: readonly string[];
  readonly last: readonly string[];
  readonly steps: number;
  readonly restarts: number;
  readonly faults: number;
  readonly acts: number;
  /** Of every action that was taken, in order. */
  readonly hash: string;
}

/** More than any run takes whose agents get anywhere. */
const MOST_STEPS = 30_000;
/** From the call of `dispose` on, beside the stop grace. */
const DISPOSAL_MS = 3_000;
/** A store that is asked for the first time when all that is over gets some more. */
const SLACK_MS = 1_000;
/** After a disposal, whatever is tried again has been by then. */
const PARTING_MS = 60_000;
/** What the actions themselves take. */
const COUNTED_MS = 300;

export async function simulate(seed: number, cut: Cut = {}): Promise<Verdict> {
  const { plan, dice } = planOf(seed, cut);
  const oracle = new Oracle(plan);
  const disk = new MemoryStore();
  const now = (): number => here.now;
  here.now = EPOCH;
  here.ids = 0;
  here.life = new Life(now);
  let threads = 0;
  const hooks = new HookWatch(dice, oracle);
  here.make = (life, options) =>
    new SimThread(
      life,
      {
        modules: minds.modules,
        said: (...told) => oracle.heard(...told),
        leaked: ({ threadId }) => oracle.say(`main printed what thread ${threadId} printed`),
      },
      threads++,
      options,
    );
  const acts = new Acts(dice, oracle, { children: [] as never[], pending: new Set(), asked: 0 });
  const minds = mindsOf(
    dice,
    {
      delegations: plan.delegations,
      answers: plan.answers,
      get children() {
        return acts.state.children.map(({ id }) => id);
      },
    },
    { oracle, hooks },
  );
  const left = { acts: plan.acts, faults: plan.faults, late: plan.lates };
  const taken = { acts: 0, faults: 0 };
  let current: Ground | undefined;
  let isDead = false;
  const scheduler = new Scheduler(
    dice,
    plan,
    {
      get canAct() {
        return left.acts > 0 && current !== undefined;
      },
      act(): Action {
        left.acts--;
        taken.acts++;
        return acts.draw(current as Ground);
      },
      get mayBeLate() {
        return left.late > 0;
      },
      isLate() {
        left.late--;
        acts.hasFaults = true;
        oracle.causes.wasLate();
        if (here.life.calls.length > 0) oracle.hasStoreFailed = oracle.hasEverFailed = true;
      },
      get canFail() {
        return left.faults > 0 && current !== undefined && left.acts < plan.acts;
      },
      fault(): Action {
        const drawn = drawFault(dice, oracle, () => void (isDead = true));
        if (drawn === undefined) return { kind: 'fault', name: 'no fault', run: () => {} };
        left.faults--;
        taken.faults++;
        acts.hasFaults = true;
        return drawn;
      },
    },
    () => {
      oracle.look();
      return oracle.violations.length === 0;
    },
  );
  if (process.env['EVENTS'] === '1') oracle.note = (line) => scheduler.note(line);
  here.lastTrace = () => scheduler.last;
  const onThrow = (error: unknown): void =>
    oracle.say(`nobody handled ${String((error as Error | undefined)?.stack ?? error)}`);
  process.on('unhandledRejection', onThrow);
  process.on('uncaughtException', onThrow);
  try {
    await play();
  } finally {
    process.off('unhandledRejection', onThrow);
    process.off('uncaughtException', onThrow);
    here.life.end();
    here.make = undefined;
    forgetCensus();
  }
  return {
    seed,
    plan,
    violations: oracle.violations,
    last: scheduler.last,
    steps: scheduler.steps,
    restarts: oracle.restarts,
    acts: taken.acts,
    faults: taken.faults,
    hash: scheduler.hash.toString(16).padStart(8, '0'),
  };

  async function play(): Promise<void> {
    try {
      await begin(false);
    } catch (error) {
      return oracle.say(`main does not start: ${String(error)}`);
    }
    if (oracle.violations.length > 0) return;
    for (;;) {
      const isIdle = (): boolean =>
        isDead || (left.acts === 0 && (!plan.isPatient || left.faults === 0));
      const how = await scheduler.drive(isIdle, MOST_STEPS);
      if (how === 'broken') return;
      if (how === 'endless') return oracle.say('it does not come to an end');
      if (!isDead) break;
      await die();
      if (oracle.violations.length > 0) return;
    }
    scheduler.isSettling = true;
    if (plan.isPatient && !(await settle())) return;
    await dispose();
    if (oracle.violations.length > 0) return;
    await until(checkDisk(disk, oracle), 'the check of the disk');
  }

  async function begin(isAgain: boolean): Promise<void> {
    const parts = {
      plan,
      dice,
      oracle,
      minds,
      disk,
      hooks,
    };
    current = await until(ground(parts, here.life, isAgain), 'the start of main');
  }

  /** The process is gone in the middle of whatever it did; another one opens what it left. */
  async function die(): Promise<void> {
    current = undefined;
    isDead = false;
    const { life } = here;
    const write = life.calls.find(({ isWrite }) => isWrite);
    const isKept = write !== undefined && dice.chance(0.5);
    life.end();
    here.life = new Life(now);
    here.life.isOver = true;
    if (isKept) await write.doOnly();
    // What was about to run has run, and reached nothing.
    await scheduler.drive(() => true, 1);
    oracle.cut();
    acts.state.pending.clear();
    forgetCensus();
    here.life = new Life(now);
    await begin(true);
  }

  /** Everything ends that can. False: something did not. */
  async function settle(): Promise<boolean> {
    const isFine = (how: string): boolean => {
      if (how === 'endless') oracle.say('it does not come to rest');
      return how === 'quiet';
    };
    if (!isFine(await scheduler.drive(() => false, MOST_STEPS))) return false;
    for (const run of current?.runs ?? []) acts.disposal(current as Ground, run).run();
    if (!isFine(await scheduler.drive(() => false, MOST_STEPS))) return false;
    for (const what of acts.state.pending) {
      oracle.say(`it never came to an end: ${what}`);
    }
    oracle.quiet();
    return oracle.violations.length === 0;
  }

  async function dispose(): Promise<void> {
    const { harness } = current as Ground;
    const since = here.now;
    const disposal = harness.dispose().catch((error: { code?: string }) => {
      if (!acts.hasFaults) oracle.say(`the disposal failed: ${String(error)}`);
    });
    await until(disposal, 'the disposal');
    const took = here.now - since;
    if (took > STOP_GRACE_MS + DISPOSAL_MS + (oracle.hasStoreFailed ? SLACK_MS : 0) + COUNTED_MS)
      oracle.say(`the disposal took ${took} ms`);
    oracle.disposed();
    const { life } = here;
    // What a dead thread's port still tells, and what a parting tries again, comes to an end.
    const endedAt = here.now;
    const how = await scheduler.drive(() => false, MOST_STEPS);
    if (how === 'endless') oracle.say('something goes on after the disposal');
    if (here.now - endedAt > PARTING_MS)
      oracle.say(`a timer was left that fired ${here.now - endedAt} ms after the disposal`);
    for (const what of acts.state.pending) oracle.say(`the disposal left it open: ${what}`);
    if (life.timers.length > 0) oracle.say(`${life.timers.length} timers are left`);
    if (life.calls.length > 0) oracle.say(`the store is still asked: ${life.calls[0]?.what}`);
    const isLeft = life.threads.filter(({ isStuck }) => !isStuck);
    if (isLeft.length > 0)
      oracle.say(`threads are left: ${isLeft.map(({ threadId }) => threadId).join()}`);
    for (const { threadId, terminatedAt } of life.threads) {
      if (terminatedAt !== undefined && !oracle.causes.toldStuck.has(threadId))
        oracle.say(`nobody is told that thread ${threadId} does not end`);
    }
    const kept = Object.entries(census.open()).filter(
      ([kind]) => !(life.threads.length > 0 && /thread|port/.test(kind)),
    );
    if (kept.length > 0) oracle.say(`it is left open: ${JSON.stringify(Object.fromEntries(kept))}`);
  }

  async function until<T>(work: Promise<T>, what: string): Promise<T> {
    let isDone = false;
    let value: T | undefined;
    let error: unknown;
    work.then(
      (got) => {
        isDone = true;
        value = got;
      },
      (thrown: unknown) => {
        isDone = true;
        error = thrown;
      },
    );
    const how = await scheduler.drive(() => isDone, MOST_STEPS);
    if (!isDone && oracle.violations.length === 0)
      oracle.say(`${what} does not come to an end (${how})`);
    if (error !== undefined) throw error;
    return value as T;
  }
}

/** What a dead process held open is counted no more. */
function forgetCensus(): void {
  const shared = globalThis as { [key: symbol]: Map<string, number> | undefined };
  shared[Symbol.for('subagent-runtime.census')]?.clear();
}
