import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import { SubagentError } from '../../protocol/errors.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import type { JobView } from '../../src/jobs/jobs.ts';
import type { SubagentRun } from '../../src/subagents/provider.ts';
import { brokenPromise, completed, rejection, stubRun, text } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { settled, until } from '../support/until.ts';

const order = { label: 'count the words', provider: 'stub' };

/** A root whose model says what it was told last, and a job whose run the test settles. */
async function withJob(begin?: (signal: AbortSignal) => Promise<SubagentRun>) {
  const rt = await testHarness({ script: () => 'Noted.' });
  const stub = stubRun({ id: 'child' });
  const signals: AbortSignal[] = [];
  const { jobId } = rt.harness.jobs.start(rt.root, order, (signal) => {
    signals.push(signal);
    return begin?.(signal) ?? Promise.resolve(stub.run);
  });
  return { rt, stub, jobId, signal: signals[0]!, jobs: rt.harness.jobs, root: rt.root };
}

/** The texts of what an agent was told by the runtime about its jobs. */
const notices = (agent: Agent): string[] =>
  agent.session.events.flatMap((event) =>
    event.type === 'user/message' && event.data.source.kind === 'job-settled'
      ? [textOf(event.data.content)]
      : [],
  );
const statusOf = ({ status }: JobView): string => status;
const codeOf = async (promise: Promise<unknown>): Promise<unknown> =>
  ((await rejection(promise)) as HarnessError | undefined)?.code;

/** Aborts as a provider does that honours its signal. */
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
  );

const thrown = (): never => {
  throw new Error('not to be read');
};

describe('a job', () => {
  it('gives the same answer however often it is read', async () => {
    const { rt, stub, jobId, jobs, root } = await withJob();
    await using _ = rt;
    stub.settle(completed(text('Six '), text('words.')));
    const first = await jobs.output(root, jobId);
    expect(first).toEqual({
      jobId,
      ...order,
      runId: 'child',
      status: 'completed',
      text: 'Six words.',
    });
    expect(await jobs.output(root, jobId)).toEqual(first);
    expect(jobs.list(root)).toEqual([first]);
    expect(stub.disposals).toBe(1);
  });

  it('says how far it is to whoever does not wait', async () => {
    const starting = deferred<SubagentRun>();
    const { rt, stub, jobId, jobs, root } = await withJob(() => starting.promise);
    await using _ = rt;
    expect(await jobs.output(root, jobId, { wait: false })).toEqual({
      jobId,
      ...order,
      status: 'starting',
    });
    starting.resolve(stub.run);
    await settled();
    expect(statusOf(await jobs.output(root, jobId, { wait: false }))).toBe('running');
    stub.settle(completed(text('Done.')));
    await until(() => jobs.list(root)[0]?.status === 'completed');
  });

  it('is told to its idle agent once, in a turn of its own', async () => {
    const { rt, stub, jobId, root } = await withJob();
    await using _ = rt;
    stub.settle(completed(text('Six words.')));
    await until(() => rt.model.requests.length === 1);
    await root.whenIdle();
    await rt.ask('And now?');
    const [notice, ...more] = notices(root);
    expect(more).toEqual([]);
    expect(notice).toBe(
      `Your background job "count the words" (job ${jobId}) has finished. Its answer:\nSix words.`,
    );
  });

  it('is told to a busy agent at its next step', async () => {
    const held = gate();
    const stub = stubRun();
    await using rt = await testHarness({
      script: [{ hold: held, text: 'Busy.' }, 'Noted.'],
    });
    const asked = rt.ask('Begin.');
    await held.arrived();
    rt.harness.jobs.start(rt.root, order, async () => stub.run);
    stub.settle(completed(text('Six words.')));
    await until(() => rt.root.inbox.nextStep.length === 1);
    held.open();
    await asked;
    const turns = rt.root.session.events.filter(({ type }) => type === 'turn/start');
    expect([turns.length, notices(rt.root).length]).toEqual([1, 1]);
  });

  it('is not told when a call that waited has read it', async () => {
    const { rt, stub, jobId, jobs, root } = await withJob();
    await using _ = rt;
    const reading = jobs.output(root, jobId);
    stub.settle(completed(text('Six words.')));
    expect((await reading).text).toBe('Six words.');
    await settled();
    expect([rt.model.requests.length, root.inbox.hasPending]).toEqual([0, false]);
  });

  it('is told when the call that waited was given up before', async () => {
    const { rt, stub, jobId, jobs, root } = await withJob();
    await using _ = rt;
    const stop = new AbortController();
    const reading = jobs.output(root, jobId, { signal: stop.signal });
    const reason = new Error('the turn was stopped');
    stop.abort(reason);
    stub.settle(completed(text('Six words.')));
    expect(await rejection(reading)).toBe(reason);
    await until(() => notices(root).length === 1);
    await root.whenIdle();
  });

  // From before the end to after the last reaction to it.
  it.each(Array.from({ length: 30 }, (_, reactions) => reactions))(
    'is read or told, never neither, when its wait is aborted %i reactions after its result',
    async (reactions) => {
      const { rt, stub, jobId, jobs, root } = await withJob();
      await using _ = rt;
      await settled();
      const stop = new AbortController();
      const reason = new Error('the turn was stopped');
      const read = jobs.output(root, jobId, { signal: stop.signal }).catch(() => undefined);
      await settled();
      stub.settle(completed(text('Six words.')));
      for (let count = 0; count < reactions; count++) await Promise.resolve();
      stop.abort(reason);
      const view = await read;
      await settled();
      await root.whenIdle();
      if (view === undefined) expect(notices(root)).toHaveLength(1);
      else expect(view.text).toBe('Six words.');
    },
  );

  it('is not told to a call whose signal is aborted once it has been read', async () => {
    const { rt, stub, jobId, jobs, root } = await withJob();
    await using _ = rt;
    const stop = new AbortController();
    const reading = jobs.output(root, jobId, { signal: stop.signal });
    stub.settle(completed(text('Six words.')));
    await reading;
    await settled();
    stop.abort();
    await settled();
    expect(notices(root)).toEqual([]);
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['a text as its output', { stopReason: 'weird', output: 'zz' }],
    ['a number as its stop reason', { stopReason: 7, output: [] }],
    ['a structured value that is no data', { ...completed(), structured: 1n }],
    ['an output that cannot be read', Object.defineProperty({}, 'output', { get: thrown })],
  ])('fails whose run results in %s, and says so', async (_what, result) => {
    const { rt, stub, jobId, jobs, root } = await withJob();
    await using _ = rt;
    stub.settle(result as never);
    const { status, text: shown } = await jobs.output(root, jobId);
    expect(status).toBe('failed');
    expect(shown).toMatch(/INVALID_ARGUMENT: The provider gave what is no result: its /);
    expect(stub.disposals).toBe(1);
  });

  it.each<[string, (run: SubagentRun) => unknown]>([
    ['null', () => null],
    ['no id', (run) => ({ ...run, id: undefined })],
    [
      'an id that cannot be read',
      (run) => Object.defineProperty({ ...run }, 'id', { get: thrown }),
    ],
    ['a result that is no promise', (run) => ({ ...run, result: completed() })],
    ['no way to dispose it', (run) => ({ ...run, dispose: undefined })],
  ])('fails when what begins it gives %s as its run', async (_what, made) => {
    const run = stubRun().run;
    const { rt, jobId, jobs, root } = await withJob(async () => made(run) as never);
    await using _ = rt;
    const view = await jobs.output(root, jobId);
    expect(view.status).toBe('failed');
    expect(view.text).toMatch(/^The subagent could not be started: .* gave no run: /);
    expect(jobs.list(root)).toEqual([view]);
  });

  it('fails whose run cannot be waited for', async () => {
    const { run } = stubRun();
    const { rt, jobId, jobs, root } = await withJob(async () => ({
      ...run,
      result: brokenPromise(),
    }));
    await using _ = rt;
    expect(await jobs.output(root, jobId)).toMatchObject({ status: 'failed' });
  });

  it.each<[string, () => Promise<void>, string]>([
    ['is released', async () => {}, 'killed'],
    ['cannot be released', () => Promise.reject(new Error('stuck')), 'failed'],
  ])('ends by a kill when its run never settles and %s', async (_what, dispose, status) => {
    const { run } = stubRun();
    const { rt, jobId, jobs, root } = await withJob(async () => ({ ...run, dispose }));
    await using _ = rt;
    await settled();
    const killed = await jobs.kill(root, jobId, { reason: 'Not needed.' });
    expect(killed.status).toBe(status);
    expect(killed.text).toMatch(/^Not needed\.\n/);
    expect(await jobs.output(root, jobId)).toEqual(killed);
  });

  it('that is killed before it has begun is killed', async () => {
    const { rt, jobId, jobs, root } = await withJob(untilAborted);
    await using _ = rt;
    const killed = await jobs.kill(root, jobId);
    expect(killed).toMatchObject({
      status: 'killed',
      text: 'The job was killed by the agent that started it.',
    });
    expect(await jobs.output(root, jobId)).toEqual(killed);
    await settled();
    expect(notices(root)).toEqual([]);
  });

  it('that is killed while it runs is stopped and released, and keeps what it had', async () => {
    const { rt, stub, jobId, jobs, root, signal } = await withJob();
    await using _ = rt;
    await settled();
    signal.addEventListener('abort', () =>
      stub.settle({ output: [text('half')], stopReason: 'aborted' }),
    );
    const { status, text: shown } = await jobs.kill(root, jobId, { reason: 'Not needed.' });
    expect(status).toBe('killed');
    expect(shown).toMatch(/^Not needed\.\n[^]*half$/);
    expect(stub.disposals).toBeGreaterThan(0);
  });

  it('that was finished before it was killed keeps its answer', async () => {
    const { rt, stub, jobId, jobs, root } = await withJob();
    await using _ = rt;
    stub.settle(completed(text('Six words.')));
    const read = await jobs.output(root, jobId);
    expect(await jobs.kill(root, jobId)).toEqual(read);
  });

  it.each<[string, unknown]>([
    ['an aggregate', new AggregateError([new Error('a'), new Error('b')], 'a; b')],
    ['a teardown', new SubagentError('ACTIVATION_TEARDOWN_FAILED', 'It did not end cleanly.')],
  ])('stays failed when %s fails its start, though it was killed', async (_what, failure) => {
    const { rt, jobId, jobs, root } = await withJob((signal) =>
      untilAborted(signal).catch(() => {
        throw failure;
      }),
    );
    await using _ = rt;
    expect(statusOf(await jobs.kill(root, jobId))).toBe('failed');
  });

  it('fails when it cannot be started, and says why', async () => {
    const { rt, jobId, jobs, root } = await withJob(() => Promise.reject(new Error('no room')));
    await using _ = rt;
    expect(await jobs.output(root, jobId)).toMatchObject({
      status: 'failed',
      text: 'The subagent could not be started: no room',
    });
  });

  it('fails when its run cannot be released, and keeps its answer', async () => {
    const stub = stubRun();
    const run = { ...stub.run, dispose: () => Promise.reject(new Error('stuck')) };
    const { rt, jobId, jobs, root } = await withJob(async () => run);
    await using _ = rt;
    stub.settle(completed(text('Six words.')));
    expect(await jobs.output(root, jobId)).toMatchObject({
      status: 'failed',
      text: 'Six words.\nThe subagent could not be released: stuck',
    });
  });

  it('never begins for an agent that is none, has ended, or is being ended', async () => {
    await using rt: TestHarness = await testHarness();
    const { agent, dispose } = await rt.harness.agents.create();
    let begun = 0;
    const start = async (by: unknown): Promise<unknown> =>
      rt.harness.jobs.start(by as Agent, order, async () => {
        begun++;
        return stubRun().run;
      });
    const equal = { ...agent, id: agent.id, session: agent.session, followup() {} };
    for (const stranger of [undefined, {}, equal]) {
      expect(await codeOf(start(stranger))).toBe('UNAUTHORIZED');
    }
    const ending = dispose();
    expect(await codeOf(start(agent))).toBeDefined();
    await ending;
    expect(await codeOf(start(agent))).toBe('UNAUTHORIZED');
    await rt.harness.subagents.drainContinuableDescendants([rt.root]);
    expect(await codeOf(start(rt.root))).toBe('DRAINING');
    expect(begun).toBe(0);
  });

  it('looks the same to a stranger as one that never was', async () => {
    const { rt, stub, jobId, jobs } = await withJob();
    await using _ = rt;
    const { agent: other } = await rt.harness.agents.create();
    const words = async (id: string, act: 'output' | 'kill'): Promise<string> =>
      ((await rejection(jobs[act](other, id))) as Error).message.replace(id, 'ID');
    for (const act of ['output', 'kill'] as const) {
      expect(await words(jobId, act)).toBe(await words('job_none', act));
    }
    expect(jobs.list(other)).toEqual([]);
    stub.settle(completed(text('Done.')));
    await rt.root.whenIdle();
  });

  it('is killed and released before the end of its agent resolves, which is told nothing', async () => {
    const { rt, stub, signal, root } = await withJob();
    await using _ = rt;
    await settled();
    signal.addEventListener('abort', () => stub.settle({ output: [], stopReason: 'aborted' }));
    await rt.rootHandle.dispose();
    expect([signal.aborted, stub.disposals > 0, notices(root)]).toEqual([true, true, []]);
    expect(rt.warnings).toEqual([]);
  });

  it('is forgotten when a hundred others have ended after it', async () => {
    await using rt = await testHarness({ script: () => 'Noted.' });
    const { jobs } = rt.harness;
    const ids: string[] = [];
    for (let count = 0; count <= 100; count++) {
      const stub = stubRun();
      stub.settle(completed(text(`${count}`)));
      const { jobId } = jobs.start(rt.root, order, async () => stub.run);
      ids.push(jobId);
      await jobs.output(rt.root, jobId);
    }
    await settled();
    expect(await codeOf(jobs.output(rt.root, ids[0]!))).toBe('UNAUTHORIZED');
    expect((await jobs.output(rt.root, ids[1]!)).text).toBe('1');
    expect(jobs.list(rt.root)).toHaveLength(100);
  });
});

describe('an agent that has jobs', () => {
  it('hears of several that ended while it was idle in one turn', async () => {
    await using rt = await testHarness({ script: () => 'Noted.' });
    const stubs = [stubRun(), stubRun()];
    for (const { run } of stubs) rt.harness.jobs.start(rt.root, order, async () => run);
    await settled();
    for (const { settle } of stubs) settle(completed(text('Done.')));
    await until(() => notices(rt.root).length === 2);
    await rt.root.whenIdle();
    expect(rt.model.requests).toHaveLength(1);
  });

  it('stays resident as a continuable child until it has heard of them', async () => {
    await using rt = await testHarness({ script: () => 'Noted.' });
    const { childId } = await rt.harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'counter',
      request: { parent: rt.root, prompt: 'Count.' },
      signal: new AbortController().signal,
    });
    const child = rt.harness.agents.get(childId)!;
    const stub = stubRun();
    rt.harness.jobs.start(child, order, async () => stub.run);
    await child.whenIdle();
    await settled();
    expect(rt.harness.agents.get(childId)).toBe(child);
    stub.settle(completed(text('Six words.')));
    await until(() => rt.harness.agents.get(childId) === undefined);
    expect(notices(child)).toHaveLength(1);
    await until(() => rt.root.status === 'idle' && !rt.root.inbox.hasPending);
  });
});
