/** Runs of a provider whose children are no agents here, when their parent or the harness ends. */
import { describe, expect, it } from 'vitest';
import type { Agent, AgentHandle } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { watchInvariants } from '../../src/subagents/invariants.ts';
import type { SubagentRun } from '../../src/subagents/provider.ts';
import { RemoteRuns } from '../../src/subagents/remote-runs.ts';
import type { RemoteRun } from '../../src/subagents/remote-runs.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled } from '../support/until.ts';
import type { TestHarnessOptions } from '../support/harness.ts';
import { spawning } from './spawning.ts';
import {
  brokenPromise,
  completed,
  recordingLogger,
  rejection,
  stubAgent,
  stubProvider,
  stubRun,
  text,
} from './stubs.ts';

/** A run that ends as it is disposed, like that of a process which is killed. */
function endingRun(id: string) {
  const stub = stubRun({ id });
  const dispose = async (): Promise<void> => {
    await stub.run.dispose();
    stub.settle({ output: [], stopReason: 'aborted' });
  };
  return { stub, run: { ...stub.run, dispose } };
}

/** A harness with one provider of its own, which hands out what it is given in turn. */
async function remote(
  start: () => Promise<SubagentRun> | SubagentRun,
  options: TestHarnessOptions = {},
) {
  const { provider } = stubProvider({ start: async () => start() });
  return spawning({ ...options, providers: [provider], provider: 'stub' });
}

/** Which of the agents that delegated ends, and how. */
const ends: Readonly<
  Record<string, (t: Awaited<ReturnType<typeof remote>>, parent: AgentHandle) => Promise<void>>
> = {
  'its parent': (_, parent) => parent.dispose(),
  'the harness': ({ harness }) => harness.dispose(),
};

describe.each(Object.keys(ends))('a run whose child is elsewhere, when %s ends', (who) => {
  const end = ends[who]!;

  it('is disposed once if its result is not there yet, and its end is told by then', async () => {
    const { stub, run } = endingRun('c1');
    await using t = await remote(() => run);
    const watch = watchInvariants(t.harness);
    const told: unknown[] = [];
    t.harness.on('subagent/end', ({ id, stopReason }) => told.push([id, stopReason]));
    const parent = await t.harness.agents.create();
    await t.start({ parent: parent.agent });
    expect(watch.open).toHaveLength(1);
    await end(t, parent);
    expect(watch.open).toEqual([]);
    expect(told).toEqual([['c1', 'aborted']]);
    await t.harness.dispose();
    expect(stub.disposals).toBe(1);
  });

  it('is left to its holder if its result is there', async () => {
    const stub = stubRun();
    await using t = await remote(() => stub.run);
    const parent = await t.harness.agents.create();
    await t.start({ parent: parent.agent });
    stub.settle(completed(text('Done.')));
    await settled();
    await end(t, parent);
    expect(stub.disposals).toBe(0);
  });

  it('is only logged when it cannot be disposed', async () => {
    const stub = endingRun('c1');
    const dispose = (): never => {
      stub.stub.settle({ output: [], stopReason: 'aborted' });
      throw new Error('stuck');
    };
    await using t = await remote(() => ({ ...stub.run, dispose }));
    const parent = await t.harness.agents.create();
    await t.start({ parent: parent.agent });
    await end(t, parent);
    expect(t.warnings).toMatchObject([
      { parent: parent.agent.id, run: 'c1', error: { message: 'stuck' } },
    ]);
  });

  it('is given up, and named, when its disposal takes longer than any child may', async () => {
    const clock = new ManualClock();
    const { run, settle } = stubRun({ id: 'c1' });
    const dispose = (): Promise<void> => {
      settle({ output: [], stopReason: 'aborted' });
      return new Promise(() => {});
    };
    const limits = { stopGraceMs: 700 };
    await using t = await remote(() => ({ ...run, dispose }), { clock, limits });
    const parent = await t.harness.agents.create();
    await t.start({ parent: parent.agent });
    let over = false;
    const ended = end(t, parent).then(() => (over = true));
    await clock.advance(1_699);
    expect([over, t.warnings]).toEqual([false, []]);
    await clock.advance(1);
    await ended;
    expect(t.warnings).toMatchObject([{ parent: parent.agent.id, run: 'c1' }]);
    expect(clock.pending).toBe(0);
  });
});

describe('a run that is there only when its parent has ended', () => {
  it('is disposed, and told to nobody', async () => {
    const published = deferred<SubagentRun>();
    await using t = await remote(() => published.promise);
    const told: unknown[] = [];
    t.harness.on('subagent/start', (info) => told.push(info));
    const parent = await t.harness.agents.create();
    const start = rejection(t.start({ parent: parent.agent }));
    await parent.dispose();
    const stub = stubRun();
    published.resolve(stub.run);
    expect(await start).toMatchObject({ code: 'UNAUTHORIZED' });
    expect([stub.disposals, told]).toEqual([1, []]);
  });

  it('is disposed as well while that end still waits for another run', async () => {
    const hold = gate();
    const first = endingRun('first');
    const slow = async (): Promise<void> => {
      await hold.wait();
      await first.run.dispose();
    };
    const late = deferred<SubagentRun>();
    const runs = [Promise.resolve({ ...first.run, dispose: slow }), late.promise];
    await using t = await remote(() => runs.shift()!);
    const parent = await t.harness.agents.create();
    await t.start({ parent: parent.agent });
    const start = rejection(t.start({ parent: parent.agent }));
    const ended = parent.dispose();
    // Still registered: its end is not over.
    expect(t.harness.agents.get(parent.agent.id)).toBe(parent.agent);
    const stub = stubRun({ id: 'second' });
    late.resolve(stub.run);
    expect(await start).toMatchObject({ code: 'UNAUTHORIZED' });
    expect(stub.disposals).toBe(1);
    hold.open();
    await ended;
  });

  it('keeps no start waiting when it cannot be disposed', async () => {
    const clock = new ManualClock();
    const published = deferred<SubagentRun>();
    await using t = await remote(() => published.promise, { clock });
    const parent = await t.harness.agents.create();
    const start = rejection(t.start({ parent: parent.agent }));
    await parent.dispose();
    published.resolve({ ...stubRun({ id: 'c1' }).run, dispose: () => new Promise(() => {}) });
    await clock.advance(3_000);
    expect(await start).toMatchObject({ code: 'UNAUTHORIZED' });
    expect(t.warnings).toMatchObject([{ run: 'c1' }]);
  });
});

describe('RemoteRuns', () => {
  const newRuns = () => {
    const logger = recordingLogger();
    return { logger, runs: new RemoteRuns({ logger, clock: new ManualClock(), stopGraceMs: 1 }) };
  };
  const disposed: string[] = [];
  const runOf = (id: string, result: PromiseLike<unknown>): RemoteRun => ({
    id,
    result,
    dispose: async () => void disposed.push(id),
  });

  it('disposes those of the agent that ends, and of no other', async () => {
    disposed.length = 0;
    const { runs } = newRuns();
    const [one, other]: Agent[] = [stubAgent('one'), stubAgent('other')];
    runs.add(one!, runOf('a', new Promise(() => {})));
    runs.add(other!, runOf('b', new Promise(() => {})));
    runs.add(one!, runOf('c', Promise.reject(new Error('over'))));
    await settled();
    await runs.endOf(one!);
    expect(disposed).toEqual(['a']);
    expect([runs.isEnding(one!), runs.isEnding(other!)]).toEqual([true, false]);
  });

  it('forgets a run whose result cannot even be waited for', async () => {
    disposed.length = 0;
    const { runs, logger } = newRuns();
    const agent = stubAgent('one');
    runs.add(agent, runOf('a', brokenPromise()));
    await settled();
    await runs.endOf(agent);
    expect([disposed, logger.warnings]).toEqual([[], []]);
  });
});
