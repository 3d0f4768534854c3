/**
 * Why something failed, as whoever set it going knows it. Every code that is told of an agent (the
 * end of its turn, an error of it, a call that was refused) has to have a cause that was there: a
 * fault of that agent's thread that shows as this code, a limit that this very turn has reached, a
 * model that failed, a hook that would not.
 */
import type { Failure } from '../../protocol/model.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { INTERRUPT_GRACE_MS, ROOT } from './plan.ts';
import type { Plan } from './plan.ts';
import { here } from './life.ts';
import type { Breach, Death, Thread } from './life.ts';

/** What a fault shows as, by what main can see of it. */
const OF_DEATHS: Readonly<Record<Death, readonly string[]>> = {
  throw: ['WORKER_CRASHED'],
  exit: ['WORKER_EXITED'],
  'exit 0': ['WORKER_EXITED'],
  'out of memory': ['WORKER_OUT_OF_MEMORY'],
  silent: ['WORKER_CRASHED'],
};
const OF_BREACHES: Readonly<Record<Breach, readonly string[]>> = {
  garbage: ['PROTOCOL_VIOLATION'],
  'no bytes': ['PROTOCOL_VIOLATION'],
  flood: ['WORKER_FLOODED'],
  prints: ['WORKER_FLOODED'],
  // From one that was asked to stop it is polite; with its turn open it has gone all the same.
  stopped: ['PROTOCOL_VIOLATION', 'WORKER_EXITED'],
};
const OF_HANGS = ['WORKER_UNRESPONSIVE', 'WORKER_START_TIMEOUT'];
/** From a thread that was slow for once; a grace, or the time that it has to start, was over. */
const OF_LATENESS = ['WORKER_UNRESPONSIVE', 'WORKER_START_TIMEOUT', 'WORKER_STUCK'];
/** A thread that is lost before its agent ran says so around what it was. */
const OF_STARTS = 'WORKER_START_FAILED';

/** What main warns of when its store fails it. */
const OF_STORES: readonly string[] = [
  'Sessions were not written.',
  'A parent could not be told of its child.',
  'A subagent was not released cleanly.',
  'The best-effort final session flush failed.',
  'A start that failed could not be taken back wholly.',
];
/** Some tools do not listen. */
const OF_TOOLS = 'A tool ignored that it was to stop.';
const STUCK = 'A thread cannot be ended.';
const PRINTED = 'A thread that did not end well had printed this.';

/** Default of the product. */
const UNRESPONSIVE_MS = 120_000;
/** From a limit to the end of its turn: graces of whoever is told one after the other, and a long jump. */
const ENDING_MS = INTERRUPT_GRACE_MS + 25_000;

interface Fault {
  readonly thread: Thread;
  readonly codes: readonly string[];
  readonly isHang: boolean;
}

interface Turn {
  readonly number: number;
  readonly since: number;
  step: number;
  bytes: number;
}

export class Causes {
  readonly #plan: Plan;
  readonly #oracle: { say(problem: string): void; readonly hasStoreFailed: boolean };
  #faults: Fault[] = [];
  /** What others than threads did to an agent's turn. */
  readonly #others = new Map<string, Set<string>>();
  #turns = new Map<SessionId, Turn>();
  /** How their last turn failed that did. */
  readonly #ends = new Map<SessionId, { readonly turn: number; readonly code: string }>();
  /** This life of main. */
  #since = 0;
  #wasLate = false;
  /** Threads that main said it cannot end. */
  readonly toldStuck = new Set<number>();
  constructor(
    plan: Plan,
    oracle: { say(problem: string): void; readonly hasStoreFailed: boolean },
  ) {
    this.#plan = plan;
    this.#oracle = oracle;
  }

  died(thread: Thread, how: Death): void {
    // After a breach that its port still held, what it says of its death is not looked at.
    const codes = [...OF_DEATHS[how], ...(thread.hasMisbehaved ? ['WORKER_EXITED'] : [])];
    this.#faults.push({ thread, codes, isHang: false });
  }

  misbehaved(thread: Thread, how: Breach): void {
    this.#faults.push({ thread, codes: OF_BREACHES[how], isHang: false });
  }

  hung(thread: Thread, isStuck: boolean): void {
    const codes = isStuck ? [...OF_HANGS, 'WORKER_STUCK'] : OF_HANGS;
    this.#faults.push({ thread, codes, isHang: true });
  }

  wasLate(): void {
    this.#wasLate = true;
  }

  /** A model, a hook, or a tool made this turn of it fail, or would. */
  failed(id: string | undefined, code: string): void {
    const codes = this.#others.get(String(id)) ?? new Set();
    this.#others.set(String(id), codes.add(code));
  }

  /** Main begins another life. */
  begin(): void {
    this.#faults = [];
    this.#turns = new Map();
    this.#since = here.now;
    this.#wasLate = false;
    this.#others.clear();
  }

  event(id: SessionId, event: SessionEvent): void {
    const turn = this.#turns.get(id);
    if (turn !== undefined) turn.bytes += JSON.stringify(event).length;
    switch (event.type) {
      case 'turn/start':
        this.#turns.set(id, { number: event.data.turn, since: here.now, step: 0, bytes: 0 });
        break;
      case 'step/start':
        if (turn !== undefined) turn.step = event.data.step;
        break;
      case 'turn/end':
        if (event.data.reason.kind === 'error')
          this.#ended(id, event.data.turn, event.data.reason.error);
        this.#turns.delete(id);
        this.#others.delete(id);
        break;
      default:
    }
  }

  /** After each action: no turn is open for much longer than its limit. */
  look(): void {
    for (const [id, { number, since }] of this.#turns) {
      const turnMs = this.#turnMs(id);
      if (here.now - since > turnMs + ENDING_MS) {
        this.#oracle.say(
          `turn ${number} of ${id} is open for ${here.now - since} ms, of at most ${turnMs}`,
        );
      }
    }
  }

  /** An error of this agent is told. */
  told(id: SessionId, turn: number | undefined, error: Failure): void {
    if (turn === undefined) return this.#assertCaused(id, error);
    const end = this.#ends.get(id);
    if (end?.turn === turn && end.code === error.code) return;
    this.#oracle.say(`turn ${turn} of ${id} is told as ${error.code}, and ended as ${end?.code}`);
  }

  #assertCaused(id: SessionId, { code, message }: Failure): void {
    if (this.#isOthers(id, code)) return;
    if (!this.mayBe(code, id))
      this.#oracle.say(`${id} failed with ${code}, and nothing did that: ${message}`);
  }

  /** What is wrong with a warning of main, if anything: it has a reason, and says what is so. */
  unwarranted(text: string, fields: object): string | undefined {
    if (text === OF_TOOLS) return undefined;
    if (OF_STORES.includes(text) && this.#hasStoreFailed) return undefined;
    if (text === STUCK && this.mayBe('WORKER_STUCK')) {
      const { thread, agent } = fields as { readonly thread: number; readonly agent?: string };
      this.toldStuck.add(thread);
      const { init } = here.life.threads.find(({ threadId }) => threadId === thread) ?? {};
      if (init === undefined || init.sessionId === agent) return undefined;
    }
    if (text === PRINTED) {
      const { output } = fields as { readonly output: string };
      if (/^x+$/.test(output) || here.life.threads.some(({ printed }) => printed === output))
        return undefined;
    }
    return `main warns of what is not so: ${text} ${JSON.stringify(fields)}`;
  }

  /** Whether something went wrong that shows as this code, with this agent if one is named. */
  mayBe(code: string, id?: SessionId): boolean {
    if (code.startsWith('STORE_')) return this.#hasStoreFailed;
    if (OF_LATENESS.includes(code) && this.#wasLate) return true;
    const some = this.#faults.filter(
      ({ thread }) => id === undefined || thread.init === undefined || thread.init.sessionId === id,
    );
    if (code === OF_STARTS) return some.length > 0;
    // One that was lost before it had an agent is found out when it is to get one.
    if (code === 'WORKER_EXITED' && some.some(({ thread }) => thread.init === undefined))
      return true;
    return some.some(({ codes }) => codes.includes(code));
  }

  /** Or was not given the time to answer: somebody was late, or a thread that is stuck had it all. */
  get #hasStoreFailed(): boolean {
    const isStuck = this.#faults.some(({ codes }) => codes.includes('WORKER_STUCK'));
    return this.#oracle.hasStoreFailed || this.#wasLate || isStuck;
  }

  #ended(id: SessionId, number: number, error: Failure): void {
    const { code, message } = error;
    this.#ends.set(id, { turn: number, code });
    if (code !== 'LIMIT_EXCEEDED') return this.#assertCaused(id, error);
    const turn = this.#turns.get(id);
    if (turn !== undefined && this.#isReached(id, turn, message)) return;
    this.#oracle.say(
      `turn ${turn?.number} of ${id} was ended for a limit that it has not reached: ${message}`,
    );
  }

  #isReached(id: SessionId, turn: Turn, words: string): boolean {
    const limit = /(\w+) is \d+/.exec(words)?.[1];
    const { steps, outputBytes, toolMs, runMs } = this.#plan;
    const took = here.now - turn.since;
    const isChild = id !== ROOT;
    switch (limit) {
      case 'turnMs':
        return took >= this.#turnMs(id);
      case 'runMs': {
        // Since its making, which nobody is told of: the words say how long that was.
        const lasted = Number(/it had lasted (\d+) ms/.exec(words)?.[1]);
        return isChild && lasted >= (runMs ?? Infinity) && lasted <= here.now - this.#since;
      }
      case 'toolMs':
        return isChild && took >= (toolMs ?? Infinity);
      case 'steps':
        return isChild && turn.step === steps;
      case 'outputBytes':
        // Counted as they are packed, which is a little less than this.
        return isChild && turn.bytes >= (outputBytes ?? Infinity) / 2;
      case 'unresponsiveMs':
        return (
          took >= UNRESPONSIVE_MS &&
          this.#faults.some(({ thread, isHang }) => isHang && thread.init?.sessionId === id)
        );
      default:
        return false;
    }
  }

  #turnMs(id: SessionId): number {
    return this.#plan.hasHost && id === ROOT ? Infinity : this.#plan.turnMs;
  }

  #isOthers(id: SessionId, code: string): boolean {
    return this.#others.get(id)?.has(code) === true;
  }
}
