import { describe, expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import { completed, stubProvider, stubRun, testRuntime, text } from '../subagents/stubs.ts';
import { settled, until } from '../support/until.ts';
import {
  call,
  CHILD,
  continuable,
  delegate,
  heard,
  lastText,
  oneShot,
  quiet,
  results,
  startedJob,
  talking,
} from './talking.ts';

describe('a delegation in the background, one-shot', () => {
  it('returns a job id, whose answer is the same each time it is read', async () => {
    await using t = await talking(
      [
        delegate({ run_in_background: true }),
        (request) => call('job_output', { job_id: startedJob(lastText(request)) }),
        (request) =>
          call('job_output', { job_id: /job_[^ ]+/.exec(lastText(request))?.[0] ?? 'none' }),
        'Read twice.',
      ],
      ['Six words.'],
      { delegation: [oneShot] },
    );
    await t.rt.ask('Begin.');
    const [started, first, second] = results(t.root);
    expect(started?.text).toMatch(/^started background subagent job job_\S+\n/);
    expect(first?.text).toMatch(/^Job job_\S+ has finished\. Its answer:\nSix words\.$/);
    expect(second).toEqual(first);
    await quiet(t);
    expect(heard(t.root)).toEqual([['user']]);
  });

  it('waits for the answer unless it is asked not to', async () => {
    await using t = await talking([delegate(), 'Done.'], ['Six words.'], { delegation: [oneShot] });
    await t.rt.ask('Begin.');
    expect(results(t.root)).toEqual([{ text: 'Six words.', isError: false }]);
    expect(t.rt.harness.jobs.list(t.root)).toEqual([]);
  });

  it('outlives the turn that ordered it, and its end is told in a turn of its own', async () => {
    const held = gate();
    await using t = await talking(
      [delegate({ run_in_background: true }), 'I go on when it comes.', 'There it is.'],
      [{ hold: held, text: 'Six words.' }],
      { delegation: [oneShot] },
    );
    await t.rt.ask('Begin.');
    held.open();
    await until(() => heard(t.root).length === 2);
    await quiet(t);
    expect(heard(t.root)).toEqual([['user'], ['job-settled']]);
    expect(lastText(t.rt.model.requests.at(-1)!)).toMatch(
      /has finished\. Its answer:\n\nSix words\.$/,
    );
  });

  // From before the end of the job to after the result of the call.
  it.each(Array.from({ length: 40 }, (_, reactions) => reactions))(
    'is read or told, never neither, when job_output is stopped %i reactions after its end',
    async (reactions) => {
      let jobId = '';
      await using t = await talking(
        [() => call('job_output', { job_id: jobId }), 'Read.', 'Told.'],
        [],
        { delegation: [oneShot] },
      );
      const { jobs } = t.rt.harness;
      const stub = stubRun();
      const order = { label: 'count the words', provider: 'spawn' };
      ({ jobId } = jobs.start(t.root, order, async () => stub.run));
      const asked = t.rt.ask('Begin.');
      await until(() => jobs.isAwaitedBy(t.root));
      await settled();
      stub.settle(completed(text('Six words.')));
      for (let count = 0; count < reactions; count++) await Promise.resolve();
      t.root.cancel({ kind: 'user' });
      await asked;
      await settled();
      await quiet(t);
      const isRead = results(t.root).some(({ text: shown }) => shown.endsWith('Six words.'));
      expect([isRead, heard(t.root).flat().includes('job-settled')]).toContain(true);
    },
  );

  it('is ended by job_kill, and says nothing more', async () => {
    const held = gate();
    await using t = await talking(
      [
        delegate({ run_in_background: true }),
        async (request) => {
          await held.arrived();
          return call('job_kill', { job_id: startedJob(lastText(request)) });
        },
        'Not needed any more.',
      ],
      [{ hold: held, text: 'Six words.' }],
      { delegation: [oneShot] },
    );
    await t.rt.ask('Begin.');
    await quiet(t);
    expect(results(t.root)[1]?.text).toMatch(/^Job job_\S+ was stopped before it finished\./);
    expect(heard(t.root)).toEqual([['user']]);
  });

  it('never reaches the provider of an agent that may start no job', async () => {
    const { provider, requests } = stubProvider({ name: 'stub' });
    await using t = await talking(
      [
        async () => {
          // From here on nothing new is taken on below the root.
          await t.rt.harness.subagents.drainContinuableDescendants([t.root]);
          return delegate({ run_in_background: true });
        },
        'So I finish.',
      ],
      [],
      { delegation: [{ provider: 'stub' }] },
      { providers: [provider] },
    );
    await t.rt.ask('Begin.');
    expect(results(t.root)).toMatchObject([
      {
        isError: true,
        text: expect.stringMatching(/was not started\.[^]*finish with what you have/),
      },
    ]);
    expect([requests, t.rt.harness.jobs.list(t.root)]).toEqual([[], []]);
  });

  it('tells whose id it does not know what ids there are', async () => {
    await using t = await talking(
      [call('job_output', { job_id: 'job_1' }), call('job_kill', { job_id: 'job_1' }), 'Well.'],
      [],
      { delegation: [oneShot] },
    );
    await t.rt.ask('Begin.');
    for (const { isError, text } of results(t.root)) {
      expect(isError).toBe(true);
      expect(text).toMatch(/"job_1" is no job of this agent\. Job ids are those that/);
    }
  });

  it('fails for want of a thread rather than wait for itself for ever', async () => {
    await using t = await talking(
      [
        delegate({ run_in_background: true }),
        (request) => call('job_output', { job_id: startedJob(lastText(request)) }),
        'I do it myself.',
      ],
      ['Six words.'],
      { delegation: [oneShot] },
      { limits: { maxThreads: 1 } },
    );
    await t.rt.ask('Begin.');
    expect(results(t.root)[1]?.text).toMatch(/failed\.\n[^]*No thread is free/);
  });

  it('waits for the thread of its agent, whose other calls do not wait for it', async () => {
    const held = gate();
    await using t = await talking(
      [
        {
          toolCalls: [
            ...delegate({ run_in_background: true }).toolCalls!,
            { name: 'slow', arguments: {} },
          ],
        },
        'I go on when it comes.',
        'There it is.',
      ],
      ['Six words.'],
      { delegation: [oneShot] },
      { limits: { maxThreads: 1 } },
    );
    t.rt.harness.tools.register({
      name: 'slow',
      description: 'Takes its time.',
      parameters: { type: 'object' },
      isConcurrencySafe: () => true,
      execute: () => held.wait(),
    });
    const asked = t.rt.ask('Begin.');
    await held.arrived();
    // Whoever looks for room has looked by then.
    await settled();
    held.open();
    await asked;
    await until(() => heard(t.root).length === 2);
    await quiet(t);
    expect(lastText(t.rt.model.requests.at(-1)!)).toMatch(/Six words\.$/);
  });
});

describe('a delegation in the background, of a child that goes on', () => {
  it('returns at once with the id, and no job; the end is told by itself', async () => {
    const held = gate();
    await using t = await talking(
      [delegate(), 'I go on when it comes.', 'There it is.'],
      [{ hold: held, text: 'Six words.' }],
    );
    await t.rt.ask('Begin.');
    expect(results(t.root)[0]?.text).toMatch(/^started subagent \S+\n/);
    expect(t.rt.harness.jobs.list(t.root)).toEqual([]);
    held.open();
    await until(() => heard(t.root).length === 2);
    await quiet(t);
    expect(heard(t.root)).toEqual([['user'], ['subagent-settled']]);
  });

  it('waits and is gone afterwards when it is asked to', async () => {
    await using t = await talking(
      [delegate({ run_in_background: false }), call('list_agents', {}), 'Done.'],
      ['Six words.'],
    );
    await t.rt.ask('Begin.');
    expect(results(t.root).map(({ text }) => text)).toEqual(['Six words.', '(no subagents)']);
  });

  it('waits in a child that was started for one answer, and is refused there otherwise', async () => {
    await using t = await talking(
      [delegate({ run_in_background: false }), 'Done.'],
      [
        delegate({ run_in_background: true }),
        delegate({ prompt: 'Count the second half.' }),
        'Three words.',
        'Six words.',
      ],
    );
    await t.rt.ask('Begin.');
    expect(results(t.root)).toEqual([{ text: 'Six words.', isError: false }]);
    const [refused] = t.childModel.requests.slice(1).map(lastText);
    expect(refused).toMatch(
      /started for a single answer[^]*Call again without `run_in_background`/,
    );
    expect(t.childModel.requests.map(lastText).at(-1)).toBe('Three words.');
  });
});

describe('the configuration of a delegation tool', () => {
  it('leaves out of the order what it does not say', async () => {
    const { subagents, parent } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    const config = { provider: 'stub', agentOptions: undefined, toolFilter: { deny: ['write'] } };
    const tool = subagentTool(subagents, config as never);
    void tool.execute({ description: 'a', prompt: 'b' }, {
      agent: parent,
      signal: new AbortController().signal,
    } as never);
    expect(Object.keys(requests[0]!).sort()).toEqual(
      ['descriptor', 'label', 'parent', 'prompt', 'signal', 'toolFilter'].sort(),
    );
    expect(requests[0]?.toolFilter).toStrictEqual({ deny: ['write'] });
  });

  it.each([
    ['jobs without a registry of them', { enableRunInBackground: true }, /jobs: harness\.jobs/],
    ['a mode that is none', { backgroundMode: 'later' as never }, /one-shot or continuable/],
    ['a switch that is none', { enableRunInBackground: 1 as never }, /true or false/],
    [
      'values of a schema of children that go on',
      { backgroundMode: 'continuable' as const, outputSchema: { type: 'object', properties: {} } },
      /answer in words/,
    ],
  ])('is refused with %s', (_, config, words) => {
    const { subagents } = testRuntime();
    subagents.registerProvider(stubProvider({}).provider);
    expect(() => subagentTool(subagents, { provider: 'stub', ...config } as never)).toThrow(words);
  });

  it('is refused for children that go on of a provider that has none', () => {
    const { subagents } = testRuntime();
    subagents.registerProvider(stubProvider({}).provider);
    expect(() => subagentTool(subagents, { ...continuable, provider: 'stub' })).toThrow(
      expect.objectContaining({ code: 'UNSUPPORTED_CAPABILITY' }),
    );
  });

  it('offers no background where it is switched off, and refuses one that is forced', async () => {
    const { subagents, parent } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    const tool = subagentTool(subagents, { provider: 'stub', enableRunInBackground: false });
    expect(Object.keys(tool.parameters['properties'] as object)).not.toContain('run_in_background');
    const args = { description: 'a', prompt: 'b', run_in_background: true };
    const context = { agent: parent, signal: new AbortController().signal } as never;
    await expect(tool.execute(args, context)).rejects.toThrow(/not available here/);
    expect(requests).toEqual([]);
  });

  it('sets no depth when that is left to the provider', () => {
    const { subagents } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    const tool = subagentTool(subagents, { provider: 'stub', maxDepth: 'provider-managed' });
    expect([tool.name, requests]).toEqual(['subagent', []]);
  });
});

describe('what a model is told of a delegation tool', () => {
  const described = async (config: object, background = true) => {
    await using t = await talking(['Hello.'], [], {
      delegation: [{ provider: 'spawn', agentOptions: CHILD, ...config }],
    });
    await t.rt.ask('Hello.');
    const { tools = [], system = '' } = t.rt.model.requests[0]!;
    const { description, parameters } = tools.find(({ name }) => name === 'subagent')!;
    const { run_in_background: flag } = parameters['properties'] as Record<
      string,
      { description: string }
    >;
    expect(flag !== undefined).toBe(background);
    return { description, flag: flag?.description ?? '', system };
  };

  it('names the job tools for one-shot children only', async () => {
    const { description, flag, system } = await described({});
    expect(description).toMatch(/`job_output`[^]*`job_kill`/);
    expect(description).not.toMatch(/send_message/);
    expect([flag, system]).toEqual([expect.stringMatching(/Default: false/), '']);
  });

  it('names background by default and send_message for children that go on', async () => {
    const { description, flag, system } = await described({ backgroundMode: 'continuable' });
    expect(description).toMatch(/in the background by default[^]*`send_message`/);
    expect(description).not.toMatch(/job/);
    expect(flag).toMatch(/Default: true/);
    expect(system).toMatch(/a notice with its outcome and its final message/);
  });

  it('names neither where there is no background', async () => {
    const { description } = await described({ enableRunInBackground: false }, false);
    expect(description).not.toMatch(/job|send_message|background/);
  });
});
