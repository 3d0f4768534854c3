import { describe, expect, it } from 'vitest';
import { deferred } from '../../src/base/deferred.ts';
import type { SubagentRunEndInfo, SubagentRunInfo } from '../../src/subagents/lifecycle.ts';
import type { SubagentRun } from '../../src/subagents/provider.ts';
import {
  brokenPromise,
  completed,
  rejection,
  stubAgent,
  stubProvider,
  stubRun,
  testRuntime,
  text,
} from './stubs.ts';

type Told = ['start', SubagentRunInfo] | ['end', SubagentRunEndInfo];

/** A service with one provider, whose starts the test fulfils, and all that is told. */
function observed(start: () => Promise<SubagentRun>) {
  const runtime = testRuntime();
  const told: Told[] = [];
  runtime.subagents.on('subagent/start', (info) => told.push(['start', info]));
  runtime.subagents.on('subagent/end', (info) => told.push(['end', info]));
  runtime.subagents.registerProvider(stubProvider({ start }).provider);
  return { ...runtime, told, start: () => runtime.subagents.start('stub', runtime.request()) };
}

const unreadable = (key: string): object =>
  Object.defineProperty({}, key, {
    enumerable: true,
    get() {
      throw new Error('not to be read');
    },
  });

/** Let the reactions to an already settled promise run. */
const reactions = () => new Promise<void>((resolve) => void setImmediate(resolve));

describe('lifecycle', () => {
  it('tells the start when the provider fulfils, and the end when the result settles', async () => {
    const published = deferred<SubagentRun>();
    const { told, start } = observed(() => published.promise);
    const { run, settle } = stubRun({ id: 'c1' });
    const started = start();
    await reactions();
    expect(told).toEqual([]);

    published.resolve(run);
    expect(await started).toBe(run);
    expect(told).toEqual([
      ['start', { runId: expect.any(String) as string, provider: 'stub', id: 'c1', local: false }],
    ]);

    settle(completed(text('done')));
    await reactions();
    const [, info] = told[0]!;
    expect(told.slice(1)).toStrictEqual([
      ['end', { ...info, stopReason: 'completed', lastAssistantMessage: [text('done')] }],
    ]);
  });

  it('tells only the listeners of the agent that delegates', async () => {
    const { subagents, parent, start } = observed(async () => stubRun().run);
    const heard: string[] = [];
    subagents.on('subagent/start', () => heard.push('parent'), { agent: parent });
    subagents.on('subagent/start', () => heard.push('other'), { agent: stubAgent('parent') });
    await start();
    expect(heard).toEqual(['parent']);
  });

  it('tells the end to the same listeners as the start', async () => {
    const { run, settle } = stubRun();
    const { subagents, parent, start } = observed(async () => run);
    const heard: string[] = [];
    subagents.on('subagent/end', () => heard.push('parent'), { agent: parent });
    subagents.on('subagent/end', () => heard.push('other'), { agent: stubAgent('other') });
    await start();
    settle(completed());
    await reactions();
    expect(heard).toEqual(['parent']);
  });

  it('says of a child that it is local when the provider shows its agent', async () => {
    const localAgent = stubAgent('c1');
    const { told, start } = observed(async () => stubRun({ id: 'c1', localAgent }).run);
    await start();
    expect(told).toMatchObject([['start', { local: true }]]);
  });

  it('gives every run an id of its own, whatever id the provider gives', async () => {
    const { told, start } = observed(async () => stubRun({ id: 'same' }).run);
    await start();
    await start();
    const [first, second] = told.map(([, info]) => info);
    expect(first!.id).toBe(second!.id);
    expect(first!.runId).not.toBe(second!.runId);
  });

  it('tells nothing of a start that the provider rejects', async () => {
    const failure = new Error('no room');
    const { told, start } = observed(() => Promise.reject(failure));
    expect(await rejection(start())).toBe(failure);
    await reactions();
    expect(told).toEqual([]);
  });

  it('tells the start first even when the result was there already', async () => {
    const { run, settle } = stubRun();
    settle(completed());
    const { told, start } = observed(async () => run);
    await start();
    await reactions();
    expect(told.map(([edge]) => edge)).toEqual(['start', 'end']);
  });

  it('leaves the message out of the end when there is no output', async () => {
    const { run, settle } = stubRun();
    const { told, start } = observed(async () => run);
    await start();
    settle({ output: [], stopReason: 'max-tokens' });
    await reactions();
    const [, end] = told[1]!;
    expect(end).toMatchObject({ stopReason: 'max-tokens' });
    expect(end).not.toHaveProperty('lastAssistantMessage');
  });

  it.each([
    ['AUTH: bad key', 'AUTH: bad key'],
    ['x'.repeat(5_000), expect.stringMatching(/^x+… \[cut\]$/)],
    [3 as never, expect.stringContaining('its diagnostic is no text')],
  ])('says why a run failed, as its result does: %s', async (diagnostic, said) => {
    const { run, settle } = stubRun();
    const { told, start } = observed(async () => run);
    await start();
    settle({ output: [], stopReason: 'error', diagnostic });
    await reactions();
    expect((told[1]![1] as SubagentRunEndInfo).diagnostic).toEqual(said);
  });

  it('shows listeners a message that is none of the result, and that they cannot change', async () => {
    const { run, settle } = stubRun();
    const { told, start } = observed(async () => run);
    const result = completed(text('Said.'));
    await start();
    settle(result);
    await reactions();
    const { lastAssistantMessage } = told[1]![1] as SubagentRunEndInfo;
    expect(lastAssistantMessage).toEqual(result.output);
    expect(Object.isFrozen(lastAssistantMessage)).toBe(true);
    expect(Object.isFrozen(lastAssistantMessage![0])).toBe(true);
    expect(Object.isFrozen(result.output)).toBe(false);
    result.output.push(text('By its holder.'));
    expect(lastAssistantMessage).toEqual([text('Said.')]);
  });

  it.each<[string, () => unknown]>([
    ['a function', () => [() => 'Said.']],
    ['what cannot be read', () => [unreadable('text')]],
    ['a list that cannot be read', () => new Proxy([], { ownKeys: () => expect.unreachable() })],
    ['more than anyone says', () => Array.from({ length: 100_001 }, () => null)],
  ])('ends with an error, and without a message, a run whose output is %s', async (_, output) => {
    const { run, settle } = stubRun();
    const { told, start, logger } = observed(async () => run);
    await start();
    settle({ output: output() as never, stopReason: 'completed' });
    await reactions();
    expect(told[1]![1]).toMatchObject({
      stopReason: 'error',
      diagnostic: expect.stringMatching(/^INVALID_ARGUMENT: .*its output is no list/) as string,
    });
    expect(told[1]![1]).not.toHaveProperty('lastAssistantMessage');
    expect(logger.warnings).toEqual([]);
  });

  it.each<[string, () => unknown]>([
    ['cannot be waited for', brokenPromise],
    ['has no stop reason to read', () => Promise.resolve(unreadable('stopReason'))],
    ['has no output to read', () => Promise.resolve(unreadable('output'))],
  ])('ends a run once whose result %s', async (_, result) => {
    const { run } = stubRun();
    const { told, start } = observed(async () => ({ ...run, result: result() as never }));
    await start();
    await reactions();
    expect(told.map(([edge]) => edge)).toEqual(['start', 'end']);
    expect(told[1]![1]).toMatchObject({ stopReason: 'error' });
  });

  it('ends a run whose result rejects with an error, and leaves the failure to its holder', async () => {
    const { run, fail } = stubRun();
    const { told, start } = observed(async () => run);
    const held = await start();
    const failure = new Error('broken');
    fail(failure);
    expect(await rejection(held.result)).toBe(failure);
    await reactions();
    const [, end] = told[1]!;
    expect(end).toMatchObject({ stopReason: 'error' });
    expect(end).not.toHaveProperty('lastAssistantMessage');
  });

  it.each<[unknown]>([
    [undefined],
    [{}],
    [{ stopReason: 7, output: 'words' }],
    [{ stopReason: '', output: [] }],
    [{ stopReason: 'quota', output: null }],
  ])('ends a run with an error whose result is no result: %j', async (result) => {
    const { run, settle } = stubRun();
    const { told, start } = observed(async () => run);
    await start();
    settle(result as never);
    await reactions();
    expect(told.map(([edge]) => edge)).toEqual(['start', 'end']);
    expect(told[1]![1]).toMatchObject({ stopReason: 'error' });
    expect(told[1]![1]).not.toHaveProperty('lastAssistantMessage');
  });

  it('tells who starts another child while a start is told of both, each with its own end', async () => {
    const first = stubRun({ id: 'a' });
    const second = stubRun({ id: 'b' });
    const runs = [first.run, second.run];
    const { told, start, subagents } = observed(async () => runs.shift()!);
    const nested: Promise<SubagentRun>[] = [];
    const off = subagents.on('subagent/start', () => {
      off();
      nested.push(start());
    });
    await start();
    await Promise.all(nested);
    second.settle(completed());
    first.settle(completed());
    await reactions();
    expect(told.map(([edge, { id }]) => `${edge} ${id}`)).toEqual([
      'start a',
      'start b',
      'end b',
      'end a',
    ]);
    expect(told[3]![1].runId).toBe(told[0]![1].runId);
    expect(told[2]![1].runId).toBe(told[1]![1].runId);
  });

  it('goes on with a run whose listeners fail', async () => {
    const { run, settle } = stubRun();
    const { subagents, told, start, logger } = observed(async () => run);
    subagents.on('subagent/start', () => {
      throw new Error('at once');
    });
    subagents.on('subagent/end', () => Promise.reject(new Error('later')));
    expect(await start()).toBe(run);
    settle(completed());
    await reactions();
    expect(told.map(([edge]) => edge)).toEqual(['start', 'end']);
    expect(logger.warnings.map(({ error }) => error?.message)).toEqual(['at once', 'later']);
  });

  it('stops telling a listener that was disposed', async () => {
    const { subagents, start } = observed(async () => stubRun().run);
    const heard: unknown[] = [];
    subagents.on('subagent/start', (info) => heard.push(info))();
    await start();
    expect(heard).toEqual([]);
  });
});
