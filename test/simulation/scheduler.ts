/**
 * Takes one enabled action after the other, by the dice. Between two actions all microtasks have
 * run, so an action and what follows from it at once is one task of an event loop.
 */
import type { Dice } from '../interleavings/plan.ts';
import { here } from './life.ts';
import type { SetTimer, Thread } from './life.ts';
import { realImmediate } from './node-time.ts';
import type { Kind, Plan } from './plan.ts';
import { answerable } from './sim-store.ts';

export interface Action {
  readonly kind: Kind;
  readonly name: string;
  readonly run: () => unknown;
  /** Somebody only looks, or is let do so. */
  readonly isLook?: boolean;
}

/** What else can happen than what was set in motion. */
export interface Moves {
  readonly canAct: boolean;
  /** What a user does next. */
  act(): Action;
  /** Threads, models and the disk may all be slow for once. */
  readonly mayBeLate: boolean;
  isLate(): void;
  readonly canFail: boolean;
  /** What goes wrong next. */
  fault(): Action;
}

export type Ended = 'as wanted' | 'quiet' | 'endless' | 'broken';

/** So far time may go on by itself while there is something else to do. */
const SHORT_JUMP_MS = 20;
/** And so far when that is what goes wrong. */
const LONG_JUMP_MS = 15_000;
const AT_ONCE = 64;
/** More than a watchdog needs to make up its mind. */
const MOST_LOOKS = 800;
const KEPT = Number(process.env['KEPT'] ?? 40);

export class Scheduler {
  readonly #dice: Dice;
  readonly #plan: Plan;
  readonly #moves: Moves;
  readonly #afterEach: () => boolean;
  readonly last: string[] = [];
  steps = 0;
  hash = 0x811c_9dc5;
  /** No time passes while main has something to do; acts and faults are over. */
  isSettling = false;
  #looks = 0;
  readonly #counts: Partial<Record<Kind, number>> = {};

  /** @param afterEach looks at everything after each action; false ends the run */
  constructor(dice: Dice, plan: Plan, moves: Moves, afterEach: () => boolean) {
    this.#dice = dice;
    this.#plan = plan;
    this.#moves = moves;
    this.#afterEach = afterEach;
  }

  get counts(): Readonly<Partial<Record<Kind, number>>> {
    return this.#counts;
  }

  /** Until that is so, or nothing is left that could happen. */
  drive(isEnough: () => boolean, mostSteps: number): Promise<Ended> {
    return new Promise((resolve) => {
      const until = this.steps + mostSteps;
      let isOver = false;
      let left = 0;
      const end = (how: Ended): void => {
        isOver = true;
        resolve(how);
      };
      const turn = (): void => {
        if (isOver) return;
        left--;
        if (!this.#afterEach()) return end('broken');
        if (isEnough()) return end('as wanted');
        if (this.steps >= until) return end('endless');
        const action = this.#next();
        if (action === undefined) return end('quiet');
        this.#take(action);
        if (left === 0) more();
      };
      const more = (): void => {
        for (left = 0; left < AT_ONCE; left++) realImmediate(turn);
      };
      more();
    });
  }

  /** For whoever reads what led to a failure. */
  note(line: string): void {
    this.last.push(line);
    if (this.last.length > KEPT) this.last.shift();
  }

  /** Looks alone have not moved anything, for so long that they will not. */
  #mayLook(look: SetTimer['look']): boolean {
    return look === 'seldom' && this.#looks < MOST_LOOKS;
  }

  #take(action: Action): void {
    this.steps++;
    // Looks, and the time and the threads' answers between them, are no news.
    if (!action.isLook) this.#looks = 0;
    else this.#looks++;
    this.#counts[action.kind] = (this.#counts[action.kind] ?? 0) + 1;
    const said = action.run();
    const line = `${here.now % 10_000_000} ${action.name}${typeof said === 'string' ? ` ${said}` : ''}`;
    this.note(line);
    for (let at = 0; at < line.length; at++) {
      this.hash = Math.imul(this.hash ^ line.charCodeAt(at), 0x0100_0193) >>> 0;
    }
    if (this.#dice.chance(0.25)) here.now++;
  }

  #next(): Action | undefined {
    const dice = this.#dice;
    const { life } = here;
    const { weights } = this.#plan;
    while (life.immediates[0]?.isCancelled === true) life.immediates.shift();
    const tells = life.threads.filter((thread) => thread.canTell);
    const ready = life.threads.filter((thread) => thread.isReady);
    const exits = life.threads.filter((thread) => thread.canExit);
    const calls = answerable(life.calls, here.now);
    const isMainIdle = life.immediates.length === 0 && tells.length === 0;
    const [timer] = life.timers;
    // Who only looks again and again is let look when something else has let time pass.
    const nextAt = Math.min(
      life.timers.find(({ look }) => look === undefined || this.#mayLook(look))?.at ?? Infinity,
      ...life.calls.map(({ notBefore }) => (notBefore > here.now ? notBefore : Infinity)),
    );
    const isDue = timer !== undefined && timer.at <= here.now;
    const moves = this.isSettling ? undefined : this.#moves;
    const isBusy =
      !isMainIdle ||
      ready.length > 0 ||
      exits.length > 0 ||
      calls.length > 0 ||
      life.waits.length > 0;
    const mayJump =
      nextAt < Infinity &&
      !isDue &&
      (!isBusy ||
        (isMainIdle &&
          (nextAt - here.now <= SHORT_JUMP_MS ||
            (this.#moves.mayBeLate && nextAt - here.now <= LONG_JUMP_MS))));
    const options: [number, () => Action][] = [];
    const add = (weight: number, make: () => Action): void => void options.push([weight, make]);
    if (life.immediates.length > 0) {
      add(weights.main, () => ({
        kind: 'main',
        name: 'main goes on',
        run: () => life.immediates.shift()?.run(),
      }));
    }
    if (tells.length > 0)
      add(weights.tell, () => ofThread('tell', dice.pick(tells), (t) => t.tell()));
    if (ready.length > 0) {
      add(weights.thread, () =>
        ofThread('thread', dice.pick(ready), (t) => t.step(dice.chance(0.5))),
      );
    }
    if (exits.length > 0)
      add(weights.exit, () => ofThread('exit', dice.pick(exits), (t) => t.exit()));
    if (calls.length > 0) {
      add(weights.store, () => {
        const call = dice.pick(calls);
        return { kind: 'store', name: `store ${call.what}`, run: () => void call.finish() };
      });
    }
    if (life.waits.length > 0) {
      add(weights.wait, () => {
        const wait = dice.pick(life.waits);
        return { kind: 'wait', name: `${wait.what} goes on`, run: () => wait.open() };
      });
    }
    if (isDue) add(10, () => fires(timer));
    else if (mayJump) {
      const isLate = isBusy && nextAt - here.now > SHORT_JUMP_MS;
      add(isBusy ? weights.timer : 1, () => {
        if (isLate) this.#moves.isLate();
        return jump(nextAt, isLate);
      });
    }
    if (moves?.canAct === true) add(weights.act, () => moves.act());
    if (moves?.canFail === true) add(weights.fault, () => moves.fault());
    let total = 0;
    for (const [weight] of options) total += weight;
    let at = dice.next() * total;
    for (const [weight, make] of options) {
      at -= weight;
      if (at < 0) return make();
    }
    return options.at(-1)?.[1]();
  }
}

function ofThread(kind: Kind, thread: Thread, run: (thread: Thread) => unknown): Action {
  return { kind, name: `thread ${thread.threadId} ${kind}s`, run: () => run(thread) };
}

const fires = (timer: SetTimer): Action => ({
  kind: 'timer',
  isLook: timer.look !== undefined,
  name: 'a timer fires',
  run() {
    const { timers } = here.life;
    const place = timers.indexOf(timer);
    if (place >= 0) timers.splice(place, 1);
    here.life.isFiring = true;
    timer.run();
    here.life.isFiring = false;
  },
});

const jump = (at: number, isLate: boolean): Action => ({
  kind: 'timer',
  isLook: true,
  name: isLate ? 'FAULT everybody but main is late' : 'time passes',
  run() {
    here.now = Math.max(here.now, at);
  },
});
