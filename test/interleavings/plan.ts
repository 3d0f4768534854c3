/** What one run does, made of one number: the child's script, and who ends it, where and how. */
import type { ScriptedStep } from '../../src/models/scripted.ts';

/** Numbers that look random and are the same for the same seed (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 0x9e37_79b1) >>> 0;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b_79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** From 0 up to, and without, `below`. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.int(choices.length)]!;
  }
}

/** Where a run may be met. Those of the child's log and of its agent are told by events. */
const POINTS = [
  'before the start',
  'after the start',
  'thread',
  'module',
  'frame to main',
  'frame to main',
  'frame to main',
  'session/created',
  'agent/created',
  'agent/inbox/inserted',
  'agent/inbox/claimed',
  'subagent/start',
  'run returned',
  'result awaited',
  'turn/start',
  'step/start',
  'user/message',
  'request',
  'assistant/chunk',
  'assistant/message',
  'llm/retry',
  'llm/retry-started',
  'tool/call',
  'tool body',
  'tool/result',
  'step/end',
  'turn/end',
  'idle',
  'subagent/end',
  'result settled',
] as const;
export type Point = (typeof POINTS)[number];

const ACTS = [
  'abort',
  'abort',
  'dispose',
  'dispose twice',
  'interrupt the child',
  'cancel the parent',
  'dispose the parent',
  'withdraw the provider',
  'dispose the harness',
] as const;
export type Act = (typeof ACTS)[number];

/** What ends the child, or keeps it from being made. */
export const ENDERS: readonly Act[] = [
  'abort',
  'dispose',
  'dispose twice',
  'interrupt the child',
  'dispose the parent',
  'dispose the harness',
];

export interface PlannedAct {
  readonly act: Act;
  readonly at: Point;
  /** The how-manieth time that the point is met. */
  readonly nth: number;
  /** How much later than the point. */
  readonly lag: { readonly unit: 'microtasks' | 'macrotasks'; readonly count: number };
}

/** How the child is made. `called`: by the model of the root, through a tool. */
const WAYS = ['spawn', 'spawn', 'structured', 'fork', 'called'] as const;
export type Way = (typeof WAYS)[number];

export interface Plan {
  readonly seed: number;
  readonly way: Way;
  /** `manual`: in what order the frames of all threads are delivered is random, too. */
  readonly delivery: 'auto' | 'manual';
  readonly script: readonly ScriptedStep[];
  readonly acts: readonly PlannedAct[];
  /** The stop reason when nobody interferes. */
  readonly natural: 'completed' | 'max-tokens' | 'error';
  /** Drives what is not planned: deliveries, and how long bodies take. */
  readonly dice: Dice;
}

export const HANDED_IN = { count: 7 };
const TOOLS = ['look', 'pair', 'pair', 'patient', 'thread_look', 'thread_pair'];

const hop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export function planOf(seed: number): Plan {
  const dice = new Dice(seed);
  const way = dice.pick(WAYS);
  const script: ScriptedStep[] = [];
  for (let step = dice.pick([0, 1, 1, 2, 3]); step > 0; step--) {
    mayFail(script, dice);
    const calls = Array.from({ length: 1 + dice.int(4) }, () => dice.pick(TOOLS));
    const toolCalls = calls.map((name) => ({ name, arguments: { turns: dice.int(4) } }));
    script.push({ ...(dice.chance(0.5) ? { text: words(dice) } : {}), toolCalls });
  }
  mayFail(script, dice);
  const luck = dice.next();
  let natural: Plan['natural'] = 'completed';
  if (way === 'structured') {
    script.push({ toolCalls: [{ name: 'structured_output', arguments: HANDED_IN }] });
  } else if (luck < 0.1) {
    natural = 'error';
    script.push({ failure: { code: 'AUTH', message: 'No key.' } });
  } else if (luck < 0.2) {
    natural = 'max-tokens';
    script.push({ text: words(dice), finish: 'max-tokens' });
  } else script.push({ text: words(dice) });
  return {
    seed,
    way,
    delivery: dice.chance(0.4) ? 'manual' : 'auto',
    script,
    acts: Array.from({ length: dice.chance(0.3) ? 2 : 1 }, () => plannedAct(dice)),
    natural,
    dice,
  };
}

function plannedAct(dice: Dice): PlannedAct {
  const at = dice.pick(POINTS);
  const isOften = /^(assistant.chunk|tool|step|frame)/.test(at);
  // What a frame brings about is done within a few microtasks of it.
  const isOfFrame = at === 'frame to main';
  const unit = isOfFrame ? 'microtasks' : dice.pick(['microtasks', 'macrotasks'] as const);
  const isAtOnce = dice.chance(isOfFrame ? 0.2 : 0.5);
  const count = isAtOnce ? 0 : 1 + dice.int(unit === 'microtasks' ? 14 : 8);
  return {
    act: dice.pick(ACTS),
    at,
    nth: isOften && dice.chance(0.5) ? 2 + dice.int(3) : 1,
    lag: { unit, count },
  };
}

/** Sometimes a request fails first, and is made again. */
function mayFail(script: ScriptedStep[], dice: Dice): void {
  if (!dice.chance(0.25)) return;
  const text = dice.chance(0.5) ? { text: words(dice) } : {};
  script.push({ ...text, failure: { code: 'SERVER', message: 'Try again.' } });
}

/** Some text in pieces, with turns of the event loop in between. */
function words(dice: Dice): (string | { wait(): Promise<void> })[] {
  return Array.from({ length: 1 + dice.int(5) }, (_, at) => `word ${at} `).flatMap((word) =>
    dice.chance(0.3) ? [{ wait: hop }, word] : [word],
  );
}

/** What to read when a run went wrong. */
export function describePlan({ seed, way, delivery, script, acts }: Plan): string {
  const steps = script.map(({ toolCalls = [], failure, finish }) =>
    [...toolCalls.map(({ name }) => name), failure?.code ?? finish ?? ''].join(' ').trim(),
  );
  const told = acts.map(
    ({ act, at, nth, lag }) => `${act} at ${at} ${nth}, ${lag.count} ${lag.unit} later`,
  );
  return `seed ${seed} (${way}, ${delivery}; [${steps.join('] [')}]; ${told.join('; ')})`;
}
