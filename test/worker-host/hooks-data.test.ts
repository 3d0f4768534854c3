/** What hooks are shown cannot be changed, and what they decide is checked before it is used. */
import { describe, expect, it } from 'vitest';
import { DEFAULT_RETRY_POLICY } from '../../protocol/retry-policy.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { ends, shown } from './agent-words.ts';

const failure = { code: 'SERVER', message: 'Busy.' };
const BASE = { provider: 'script', model: 'test' };

/** A block, or a source, of this many levels. */
function nested(depth: number): object {
  let value: object = { kind: 'deep' };
  for (let level = 1; level < depth; level++) value = { kind: 'deep', x: value };
  return value;
}

/** What is thrown when this is written to, as a module's code would be. */
function attempt(change: () => void): string {
  try {
    change();
    return 'done';
  } catch (error) {
    return (error as Error).name;
  }
}

it('the default retry policy is nobody’s to change', () => {
  expect(Object.isFrozen(DEFAULT_RETRY_POLICY)).toBe(true);
  expect(Object.isFrozen(DEFAULT_RETRY_POLICY.retryableCodes)).toBe(true);
});

describe('what hooks are shown', () => {
  it('is a list of messages nobody adds to', async () => {
    await using rt = await testHarness({ script: ['Done.'] });
    const outcomes: string[] = [];
    rt.harness.hooks.on('agent/pre-step', ({ messages }) => {
      const list = messages as unknown[];
      outcomes.push(attempt(() => list.push(message('mine'))));
      outcomes.push(attempt(() => Object.assign(messages[0]!.content[0]!, { text: 'x' })));
    });
    await rt.ask('go');
    expect(outcomes).toEqual(['TypeError', 'TypeError']);
    expect(shown(rt.model)).toEqual([['go']]);
  });

  it('is the config of a request', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    const outcomes: string[] = [];
    rt.harness.hooks.on('agent/request', ({ config, turn }) => {
      outcomes.push(attempt(() => Object.assign(config, { model: 'other' })));
      if (turn === 1) return { ...config, stop: ['END'] };
      outcomes.push(attempt(() => (config.stop as string[]).push('x')));
      return undefined;
    });
    await rt.ask('one');
    await rt.ask('two');
    expect(outcomes).toEqual(['TypeError', 'TypeError', 'TypeError']);
    expect(rt.model.requests.map(({ model, stop }) => [model, stop])).toEqual([
      ['test', ['END']],
      ['test', ['END']],
    ]);
  });

  it('is a failure and the default policy, which stay as they were', async () => {
    const before = structuredClone(DEFAULT_RETRY_POLICY);
    await using rt = await testHarness({ script: [{ failure }] });
    const outcomes: string[] = [];
    rt.harness.hooks.on('agent/request-error', ({ failure: told, retryPolicy }) => {
      outcomes.push(attempt(() => Object.assign(told, { code: 'x' })));
      outcomes.push(attempt(() => Object.assign(retryPolicy, { maxRetries: 0 })));
      outcomes.push(attempt(() => (retryPolicy.retryableCodes as string[]).splice(0)));
      return { kind: 'fail' };
    });
    await rt.ask('go');
    expect(outcomes).toEqual(['TypeError', 'TypeError', 'TypeError']);
    expect(ends(rt.root.session)).toEqual(['error SERVER']);
    expect(DEFAULT_RETRY_POLICY).toEqual(before);
  });

  it('is a copy of the policy of a model, whose own object stays as it was', async () => {
    const own = { ...structuredClone(DEFAULT_RETRY_POLICY), maxRetries: 0 };
    const codes = own.retryableCodes as string[];
    const model = Object.assign(scriptedModel([{ failure }]), { retryPolicy: own });
    await using rt = await testHarness({
      models: { own: model },
      defaultModel: { provider: 'own', model: 'test' },
    });
    const seen: unknown[] = [];
    rt.harness.hooks.on('agent/request-error', ({ retryPolicy }) => void seen.push(retryPolicy));
    const asRegistered = structuredClone(own);
    // Its author goes on with it, and may: it is not frozen, and not looked at again.
    own.maxRetries = 7;
    codes.push('MORE');
    await rt.ask('go');
    expect(seen).toEqual([asRegistered]);
    expect([Object.isFrozen(own), Object.isFrozen(codes)]).toEqual([false, false]);
  });
});

describe('a hook before a step', () => {
  it.each<[string, unknown]>([
    ['a list of holes', Object.assign([], { length: 3 })],
    ['a message of 950 levels', [{ ...message('x'), content: [{ type: 'x', x: nested(950) }] }]],
    ['a message with a source of 950 levels', [{ ...message('x'), source: nested(950) }]],
  ])('that returns %s fails the turn, and not the thread', async (_, messages) => {
    await using rt = await testHarness({ script: ['B.'] });
    const undo = rt.harness.hooks.on(
      'agent/pre-step',
      () => ({ kind: 'enter', messages }) as never,
    );
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['error INVALID_ARGUMENT']);
    undo();
    await rt.ask('on');
    expect(shown(rt.model)).toEqual([['on']]);
    expect(rt.threads.all).toHaveLength(1);
  });
});

describe('a hook before a request', () => {
  it.each<[string, object]>([
    ['a negative zero', { temperature: -0 }],
    ['a list of holes', { stop: Object.assign([], { length: 3 }) }],
    ['the name of a model of 2 MB', { model: 'm'.repeat(2 * 1024 * 1024) }],
  ])('that decides %s fails the turn, and not the thread', async (_, change) => {
    await using rt = await testHarness({ script: ['B.'] });
    const undo = rt.harness.hooks.on('agent/request', () => ({ ...BASE, ...change }));
    await rt.ask('go');
    const end = rt.root.session.events.at(-1);
    expect(end?.data).toMatchObject({
      reason: { error: { message: expect.stringMatching(/decided a "\w+" that cannot be asked/) } },
    });
    expect(eventTypes(rt.root.session)).not.toContain('request/header');
    undo();
    await rt.ask('on');
    expect(ends(rt.root.session)).toEqual(['error INVALID_ARGUMENT', 'completed']);
    expect(rt.threads.all).toHaveLength(1);
  });
});

it('a hook about a failure may decide to wait for less than nothing, which is nothing', async () => {
  await using rt = await testHarness({ script: [{ failure }, 'Done.'] });
  rt.harness.hooks.on('agent/request-error', () => ({ kind: 'retry', delayMs: -0 }));
  await rt.ask('go');
  expect(ends(rt.root.session)).toEqual(['completed']);
  const retry = rt.root.session.events.find(({ type }) => type === 'llm/retry');
  expect(retry?.data).toMatchObject({ delayMs: 0 });
  expect(rt.threads.all).toHaveLength(1);
});
