/** One fault on a ground, from what is open before it to what is open after it. */
import { createUserMessage } from '../../src/index.ts';
import type { Agent, AgentHandle, SubagentRun } from '../../src/index.ts';
import { checkStore } from '../../src/index.ts';
import { forgetClosed, openItems, takeSnapshot } from '../support/open-things.ts';
import { logFacts, saidIn, storedLog } from './ground-log.ts';
import { agentOptions, Scenes } from './ground-scenes.ts';
import { Stage, textOfBlocks } from './ground-stage.ts';
import { expectationOf } from './expectation.ts';
import { clock } from './inside.ts';
import { kindOf } from './kinds.ts';
import type { Cell } from './moments.ts';
import type { Observation } from './observation.ts';
import { prompt } from './orders.ts';
import { work } from './thread-tools.ts';

const PATIENCE_MS = 15_000;
/** What is closing gets this long to be closed. */
const CLOSING_MS = 20_000;
const MESSAGE_BYTES = 4_096;
const MOST_MESSAGES = 1_500;
const MESSAGES_AT_ONCE = 20;

/** What the ground itself noticed of its process. */
export interface Watch {
  takeUncaught(): readonly string[];
}

interface Siblings {
  readonly runs: readonly SubagentRun[];
  readonly wanted: readonly string[];
}

export async function playFault(
  shared: Stage,
  cell: Cell,
  number: number,
  watch: Watch,
): Promise<Observation> {
  const began = performance.now();
  forgetClosed();
  const before = countsAtRest();
  const isLast = cell.moment === 'dispose';
  const stage = isLast ? await Stage.open(shared.folder, `fault-${number}`) : shared;
  stage.reset();
  const siblings = await startSiblings(stage, cell, number);
  const lifecycle = { starts: new Map<string, number>(), ends: new Map<string, number>() };
  const count = (counts: Map<string, number>, id: string): void =>
    void counts.set(id, (counts.get(id) ?? 0) + 1);
  const off = [
    stage.harness.on('subagent/start', ({ id }) => count(lifecycle.starts, id)),
    stage.harness.on('subagent/end', ({ id }) => count(lifecycle.ends, id)),
  ];
  const ledger = cell.moment === 'store' ? await Ledger.open(stage, number) : undefined;
  const scene = await new Scenes(stage, cell).play();
  stage.set('siblingsGo', 1);
  const { at } = scene.told[0] ?? {};
  const settleMs =
    at === undefined || stage.injectedAt === undefined
      ? undefined
      : (at % 2 ** 31) - stage.injectedAt - expectationOf(cell).seenAfterMs;
  const { injected } = stage;
  const [accepted, kept] = (await ledger?.close()) ?? [0, 0];
  const got = await answersOf(siblings, stage);
  const events = scene.id === undefined ? undefined : stage.harness.sessions.get(scene.id)?.events;
  let disposeMs: number | undefined;
  if (isLast) {
    const from = performance.now();
    await stage.harness.dispose().catch(() => {});
    // It was told to end when the fault was let loose; what is left of that is measured from there.
    const since = stage.injectedAt === undefined ? 0 : clock() - stage.injectedAt;
    disposeMs = Math.max(since, performance.now() - from);
  }
  const again = isLast ? await Stage.open(shared.folder, `fault-${number}`) : stage;
  const stored = scene.id === undefined ? undefined : await storedLog(again.harness, scene.id);
  const output = saidIn(events ?? stored);
  const afterwards = isLast ? await again.healthy() : await scene.afterwards();
  const failures: string[] = [];
  await scene
    .close()
    .catch((error: unknown) => failures.push(`as it is let go of: ${String(error)}`));
  const { id } = scene;
  const told = (counts: Map<string, number>): number => counts.get(id ?? '') ?? 0;
  await stage.until(() => told(lifecycle.ends) >= told(lifecycle.starts), CLOSING_MS);
  // Released, it has told the store everything.
  const log = id === undefined ? undefined : await storedLog(again.harness, id);
  for (const stop of off) stop();
  if (isLast) await again.harness.dispose();
  // What is not contained is not judged by what it leaves: nobody waits for that.
  const closingMs = kindOf(cell.kind).fault === 'not contained' ? 0 : CLOSING_MS;
  const left = await leftSince(before, closingMs);
  return {
    cell,
    injected,
    told: scene.told.map(({ at: _, ...told }) => told),
    settleMs,
    lifecycle: { starts: told(lifecycle.starts), ends: told(lifecycle.ends) },
    log: logFacts(log),
    output,
    parents: scene.parents,
    siblings: { wanted: siblings.wanted, got },
    afterwards,
    left,
    findings: await findingsOf(again),
    uncaught: [...failures, ...watch.takeUncaught()],
    polluted: Object.keys(Object.prototype),
    accepted,
    kept,
    disposeMs,
    elapsedMs: performance.now() - began,
  };
}

/** They are at work while the fault happens, and done only afterwards. */
async function startSiblings(stage: Stage, cell: Cell, number: number): Promise<Siblings> {
  const { harness, host } = stage;
  const numbers = Array.from({ length: cell.siblings }, (_, at) => number * 10 + at);
  const { signal } = new AbortController();
  const runs = await Promise.all(
    numbers.map((n) =>
      harness.subagents.start('spawn', {
        parent: host,
        prompt: [{ type: 'text', text: prompt({ call: { tool: 'work', args: { n } } }) }],
        signal,
        agentOptions: agentOptions('obedient'),
      }),
    ),
  );
  await stage.until(() => stage.cell('siblingsReady') >= cell.siblings, PATIENCE_MS);
  const isLast = cell.moment === 'dispose';
  return { runs, wanted: numbers.map((n) => (isLast ? 'aborted' : String(work(n)))) };
}

async function answersOf({ runs }: Siblings, stage: Stage): Promise<readonly string[]> {
  const answers = runs.map(() => 'nothing');
  let left = runs.length;
  runs.forEach((run, at) => {
    void run.result
      .then(({ stopReason, output }) => {
        answers[at] = stopReason === 'completed' ? textOfBlocks(output) : stopReason;
      })
      .finally(() => left--);
  });
  await stage.until(() => left === 0, PATIENCE_MS);
  await Promise.allSettled(runs.map((run) => run.dispose()));
  return answers;
}

/** Messages that are accepted as fast as the store takes them, so that it never rests. */
class Ledger {
  readonly #stage: Stage;
  readonly #handle: AgentHandle;
  readonly #agent: Agent;
  readonly #timer: NodeJS.Timeout;
  #accepted = 0;

  private constructor(stage: Stage, handle: AgentHandle) {
    this.#stage = stage;
    this.#handle = handle;
    this.#agent = handle.agent;
    const text = 'm'.repeat(MESSAGE_BYTES);
    this.#timer = setInterval(() => {
      for (let i = 0; i < MESSAGES_AT_ONCE && this.#accepted < MOST_MESSAGES; i++) {
        this.#agent.inject(createUserMessage(`${this.#accepted++} ${text}`));
      }
    }, 1);
  }

  static async open(stage: Stage, number: number): Promise<Ledger> {
    const handle = await stage.harness.agents.createHost({ sessionId: `ledger-${number}` });
    return new Ledger(stage, handle);
  }

  /** How many were accepted, and how many of them are kept. */
  async close(): Promise<readonly [accepted: number, kept: number]> {
    clearInterval(this.#timer);
    const { harness } = this.#stage;
    await harness.sessions.flush(this.#agent.session);
    const { id } = this.#agent;
    const kept = new Set<string>();
    for (const event of (await storedLog(harness, id)) ?? []) {
      if (event.type !== 'agent/inbox/spliced') continue;
      for (const message of event.data.inserted) kept.add(message.id);
    }
    await this.#handle.dispose();
    await harness.sessionPersistence.delete([id]);
    return [this.#accepted, kept.size];
  }
}

type Counts = ReadonlyMap<string, number>;

/** Timers that the ground has at rest: that of its store may just be between two rounds. */
const timersAtRest = new Map<string, number>();
function countsAtRest(): Counts {
  const now = new Map(countsNow());
  for (const [what, count] of now) {
    if (!what.startsWith('timer')) continue;
    timersAtRest.set(what, Math.max(count, timersAtRest.get(what) ?? 0));
  }
  return new Map([...now, ...timersAtRest]);
}

/** All that is open, of every sort. A timer that was made again is the same as before. */
function countsNow(): Counts {
  const listeners = process
    .eventNames()
    .map((name): [string, number] => [`listeners of ${String(name)}`, process.listenerCount(name)]);
  const counts = new Map([...takeSnapshot().counts, ...openItems(), ...listeners]);
  // The ground's own, for whoever asks whether it is alive.
  counts.delete('FSReqPromise');
  return counts;
}

async function leftSince(before: Counts, closingMs: number): Promise<Record<string, number>> {
  const end = performance.now() + closingMs;
  for (;;) {
    const left: Record<string, number> = {};
    for (const [what, count] of countsNow()) {
      const beyond = count - (before.get(what) ?? 0);
      if (beyond > 0) left[what] = beyond;
    }
    if (Object.keys(left).length === 0 || performance.now() > end) return left;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function findingsOf({ path }: Stage): Promise<readonly string[]> {
  const found = await checkStore(path);
  return found
    .filter(({ severity }) => severity !== 'note')
    .map(({ severity, kind, text }) => `${severity} ${kind}: ${text}`);
}
