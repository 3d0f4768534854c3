/** Trees of continuable children in real threads: their end, and a main that is busy. */
import type { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { createUserMessage } from '../../dist/src/index.js';
import type { Agent } from '../../dist/src/index.js';
import { gate } from '../../dist/src/testing.js';
import type { Gate } from '../../dist/src/testing.js';
import { until } from '../support/until.ts';
import { fact, fixture, obedientModel, realHarness, task } from './real.ts';
import type { Fact, RealHarness } from './real.ts';

const DEPTH = 4;
const GRACE_MS = 1_000;

interface Tree extends AsyncDisposable {
  readonly real: RealHarness;
  readonly spinning: Fact;
  readonly rounds: Fact;
  readonly live: () => number;
  start(parent: Agent, text: string): Promise<Agent>;
}

async function tree(hold?: Gate): Promise<Tree> {
  let live = 0;
  const note = (worker: Worker): void => {
    live++;
    worker.once('exit', () => live--);
  };
  process.on('worker', note);
  const spinning = fact();
  const rounds = fact();
  const options = { spinning: spinning.shared, shared: rounds.shared };
  const real = await realHarness({
    models: { obedient: obedientModel(hold === undefined ? {} : { hold }) },
    tools: [{ module: fixture('tools.mjs'), options }],
    limits: { maxDepth: DEPTH + 1, stopGraceMs: GRACE_MS },
  });
  return {
    real,
    spinning,
    rounds,
    live: () => live,
    async start(parent, text) {
      const { childId } = await real.harness.subagents.startContinuable({
        provider: 'spawn',
        label: 'worker',
        signal: new AbortController().signal,
        request: {
          parent,
          prompt: [{ type: 'text', text }],
          agentOptions: { provider: 'obedient', model: 'test' },
        },
      });
      return real.harness.agents.get(childId)!;
    },
    async [Symbol.asyncDispose]() {
      process.off('worker', note);
      await real.harness.dispose();
    },
  };
}

/** Each is the child of the one before, and spins. */
async function spinningChain({ real, start, spinning }: Tree): Promise<Agent[]> {
  const agents: Agent[] = [];
  for (let depth = 1; depth <= DEPTH; depth++) {
    agents.push(await start(agents.at(-1) ?? real.host, task('spin')));
    await spinning.reaches(depth);
  }
  return agents;
}

it.each(['a drain', 'the end of the harness'] as const)(
  'releases a chain that spins within one stop grace, and every thread of it (%s)',
  async (which) => {
    await using all = await tree();
    const { real, rounds } = all;
    const gone: string[] = [];
    const agents = await spinningChain(all);
    real.harness.on('agent/disposed', ({ agent }) => gone.push(agent.id));
    const began = performance.now();
    if (which === 'a drain') {
      await real.harness.subagents.drainContinuableDescendants([real.host]);
    } else {
      await real.harness.dispose();
    }
    // One grace after the other would take a grace for each.
    expect(performance.now() - began).toBeLessThan((DEPTH - 1) * GRACE_MS);
    expect(gone.slice(0, DEPTH)).toEqual(agents.map(({ id }) => id).reverse());
    const after = rounds.value;
    await until(() => all.live() === 0);
    expect(rounds.value).toBe(after);
    for (const { session } of agents) {
      const cause = which === 'a drain' ? 'parent' : expect.stringMatching(/parent|disposed/);
      const ended = session.events.findLast(({ type }) => type === 'turn/end');
      expect(ended?.data).toMatchObject({
        reason: { kind: 'aborted', reason: { kind: cause } },
      });
    }
  },
);

it('loses no wake and repeats no turn while main is busy as a loop becomes idle', async () => {
  const hold = gate();
  await using all = await tree(hold);
  const { real, start, spinning } = all;
  const c = await start(real.host, task('echo', { text: 'first' }));
  // Keeps it resident.
  await start(c, task('wait'));
  await spinning.reaches(1);
  hold.open();
  await c.whenIdle();
  const texts: string[] = [];
  const send = (): void => {
    const text = `message ${texts.length}`;
    texts.push(text);
    c.followup(createUserMessage(text));
  };
  const block = (): void => {
    const until = performance.now() + 500;
    while (performance.now() < until);
  };
  real.harness.on('session/event', ({ session, event }) => {
    if (session !== c.session || event.type !== 'turn/end' || texts.length === 4) return;
    // Before, after, and between what the thread says as it becomes idle.
    const isEven = texts.length % 2 === 0;
    queueMicrotask(() => {
      if (isEven) send();
      block();
      if (!isEven) send();
    });
  });
  send();
  await until(() => texts.length === 4 && c.status === 'idle');
  const answers = c.session.events.flatMap((event) =>
    event.type === 'assistant/message' ? event.data.message.content : [],
  );
  expect(answers.slice(1)).toMatchObject(['echo first', ...texts].map((text) => ({ text })));
  expect(c.session.events.filter(({ type }) => type === 'turn/end')).toHaveLength(5);
});
