/** `subagents bench`: what delegation costs here, with a model that answers at once. */
import { createHarness, type Agent, type Harness, type SessionId } from '../../index.ts';
import { gate, scriptedModel } from '../../testing.ts';
import type { BenchArguments } from '../args/bench.ts';
import type { Call } from '../call.ts';
import { EXIT, Refused } from '../exit-codes.ts';
import { mindStuckThreads } from '../last-resort.ts';
import { print, printJson } from '../output.ts';

const CHILDREN = 20;

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: 'ms' | 'per second';
  /** How many times it was measured. */
  readonly of: number;
}

/** What makes the model say nothing until it is interrupted. */
const HOLD = 'Hold on.';

export async function benchVerb(
  { children = CHILDREN, json }: BenchArguments,
  { streams: { stdout }, signal }: Call,
): Promise<number> {
  const began = performance.now();
  await using harness = await createHarness({
    models: {
      instant: scriptedModel(({ messages }) =>
        JSON.stringify(messages.at(-1)?.content).includes(HOLD) ? { hold: gate() } : 'Done.',
      ),
    },
    defaultModel: { provider: 'instant', model: 'instant' },
  });
  mindStuckThreads(harness);
  const { agent } = await harness.agents.createHost();
  for await (const figure of figures({ harness, agent, children, signal, began })) {
    const value = Number(figure.value.toFixed(2));
    const line = `${figure.name.padEnd(44)} ${value.toFixed(2).padStart(10)} ${figure.unit}\n`;
    if (json === true) await printJson(stdout, { ...figure, value }, signal);
    else await print(stdout, line, signal);
  }
  return EXIT.completed;
}

interface Bench {
  readonly harness: Harness;
  readonly agent: Agent;
  readonly children: number;
  readonly signal: AbortSignal;
  readonly began: number;
}

async function* figures(bench: Bench): AsyncGenerator<Figure> {
  const { children, began } = bench;
  await oneShot(bench);
  yield milliseconds('the first answer of a new process', [performance.now() - began]);
  const alone: number[] = [];
  for (let count = 0; count < children; count += 1) alone.push(await timed(() => oneShot(bench)));
  yield milliseconds('one child, from start to end', alone);
  const together = await timed(async () => {
    await Promise.all(Array.from({ length: children }, () => oneShot(bench)));
  });
  const value = (children / together) * 1000;
  yield { name: 'children at once', value, unit: 'per second', of: children };
  const followups: number[] = [];
  const interrupts: number[] = [];
  const settled = await startContinuable(bench, 'Begin.');
  for (let count = 0; count < children; count += 1) {
    followups.push(await timed(() => followup(bench, settled)));
    interrupts.push(await interrupt(bench));
  }
  yield milliseconds('follow-up to a settled child, to its end', followups);
  yield milliseconds('interrupt of an open turn, to its end', interrupts);
}

async function oneShot({ harness, agent, signal }: Bench): Promise<void> {
  const prompt = [{ type: 'text', text: 'Go.' }] as const;
  const run = await harness.subagents.start('spawn', { parent: agent, prompt, signal });
  const { stopReason } = await run.result;
  await run.dispose();
  if (stopReason !== 'completed') throw new Refused(`A child ended with ${stopReason}.`);
}

/** Resolves when it has settled, or, told to hold on, when its turn is open. */
async function startContinuable(
  { harness, agent, signal }: Bench,
  text: string,
): Promise<SessionId> {
  const ended = text === HOLD ? undefined : once(harness, 'subagent/end');
  const asked = text === HOLD ? stepBegins(harness) : undefined;
  const { childId } = await harness.subagents.startContinuable({
    provider: 'spawn',
    label: 'bench',
    request: { parent: agent, prompt: [{ type: 'text', text }] },
    signal,
  });
  await (ended ?? asked);
  return childId;
}

async function followup({ harness, agent, signal }: Bench, child: SessionId): Promise<void> {
  const ended = once(harness, 'subagent/end');
  await harness.subagents.followup(agent, child, 'Again.', { source: { kind: 'user' }, signal });
  await ended;
}

async function interrupt(bench: Bench): Promise<number> {
  const { harness, agent } = bench;
  const child = await startContinuable(bench, HOLD);
  const ended = once(harness, 'subagent/end');
  return timed(async () => {
    harness.subagents.interrupt(child, { kind: 'user', parentSessionId: agent.id });
    await ended;
  });
}

const once = (harness: Harness, type: 'subagent/end'): Promise<void> =>
  new Promise((resolve) => {
    const withdraw = harness.on(type, () => {
      withdraw();
      resolve();
    });
  });

const stepBegins = (harness: Harness): Promise<void> =>
  new Promise((resolve) => {
    const withdraw = harness.on('session/event', ({ event }) => {
      if (event.type !== 'step/start') return;
      withdraw();
      resolve();
    });
  });

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** The median. */
function milliseconds(name: string, times: readonly number[]): Figure {
  const sorted = [...times].sort((one, other) => one - other);
  return { name, value: sorted[Math.floor(sorted.length / 2)] ?? 0, unit: 'ms', of: times.length };
}
