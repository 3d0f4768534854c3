/** `agent/request`: what a model is asked with, and which. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { RequestConfig } from '../../src/agent/hooks.ts';
import { systemClock } from '../../src/base/clock.ts';
import { gate } from '../../src/base/gate.ts';
import { buildHarness } from '../../src/harness.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { Session } from '../../src/session/session.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { inProcessThreads } from '../support/in-process-threads.ts';
import { settled } from '../support/until.ts';
import { USER, ends, has } from './agent-words.ts';

const headers = (session: Session): object[] =>
  session.events.flatMap(({ type, data }) =>
    type === 'request/header' ? [{ reason: data.reason, ...data.header.config }] : [],
  );
const BASE = { provider: 'script', model: 'test' };

describe('a hook before a request', () => {
  it('is asked before every attempt, with what the agent was made with', async () => {
    const failure = { code: 'SERVER', message: 'Busy.', providerRetryAfterMs: 1 };
    await using rt = await testHarness({
      script: [{ failure }, 'A.', 'B.'],
      defaultModel: BASE,
    });
    const seen: object[] = [];
    rt.harness.hooks.on('agent/request', ({ agent, turn, step, attempt, config, signal }) => {
      expect(agent).toBe(rt.root);
      expect(signal.aborted).toBe(false);
      expect(Object.isFrozen(config)).toBe(true);
      seen.push({ turn, step, attempt, config });
    });
    await rt.ask('one');
    await rt.ask('two');
    expect(seen).toEqual([
      { turn: 1, step: 1, attempt: 1, config: BASE },
      { turn: 1, step: 1, attempt: 2, config: BASE },
      { turn: 2, step: 1, attempt: 1, config: BASE },
    ]);
  });

  it('changes what is asked, which the log says, and stays so until it is changed', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.', 'C.', 'D.'] });
    const changes: (Partial<RequestConfig> | undefined)[] = [
      undefined,
      { model: 'other', maxTokens: 7, temperature: 0.5, stop: ['END'] },
      undefined,
      { maxTokens: undefined } as never,
    ];
    rt.harness.hooks.on('agent/request', async (_, next) => {
      const change = changes.shift();
      return change === undefined ? undefined : { ...(await next()), ...change };
    });
    for (const text of ['one', 'two', 'three', 'four']) await rt.ask(text);
    const changed = { ...BASE, model: 'other', maxTokens: 7, temperature: 0.5, stop: ['END'] };
    const { maxTokens: _, ...last } = changed;
    expect(headers(rt.root.session)).toEqual([
      { reason: 'initial', ...BASE },
      { reason: 'change', ...changed },
      { reason: 'change', ...last },
    ]);
    expect(rt.model.requests.map(({ model, maxTokens }) => [model, maxTokens])).toEqual([
      ['test', undefined],
      ['other', 7],
      ['other', 7],
      ['other', undefined],
    ]);
  });

  it('that says the same in another order changes nothing', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    rt.harness.hooks.on('agent/request', ({ turn }) =>
      turn === 1
        ? { ...BASE, maxTokens: 5, temperature: 1 }
        : { temperature: 1, maxTokens: 5, model: 'test', provider: 'script' },
    );
    await rt.ask('one');
    await rt.ask('two');
    expect(headers(rt.root.session)).toHaveLength(1);
  });

  it('can have another model of main answer, and the message says which', async () => {
    const other = scriptedModel(['From the other.']);
    await using rt = await testHarness({ script: ['A.'], models: { other } });
    rt.harness.hooks.on('agent/request', () => ({ provider: 'other', model: 'big' }));
    await rt.ask('go');
    const said = rt.root.session.events.find(({ type }) => type === 'assistant/message');
    expect(said?.data).toMatchObject({
      message: { source: { kind: 'model', provider: 'other', model: 'big' } },
    });
    expect(rt.model.requests).toEqual([]);
    expect(other.requests).toHaveLength(1);
    expect(rt.root.session.lastContext()).toEqual({ provider: 'other', model: 'big' });
  });

  it('can have a model of main answer for an agent whose own is a module, and back', async () => {
    const seen: number[] = [];
    const own = {
      async *stream({ messages }: { messages: readonly object[] }) {
        seen.push(messages.length);
        yield { type: 'text-delta', index: 0, text: 'Here.' };
        yield { type: 'finish', reason: { kind: 'stop' } };
      },
    };
    await using rt = await testHarness({
      script: ['There.'],
      models: { inThread: { module: new URL('file:///model.mjs') } },
      defaultModel: { provider: 'inThread', model: 'tiny' },
      threads: { import: () => Promise.resolve({ default: own }) },
    });
    rt.harness.hooks.on('agent/request', ({ turn }) =>
      turn === 2 ? BASE : { provider: 'inThread', model: 'tiny' },
    );
    for (const text of ['one', 'two', 'three']) await rt.ask(text);
    expect(ends(rt.root.session)).toEqual(['completed', 'completed', 'completed']);
    expect(seen).toEqual([1, 5]);
    expect(rt.model.requests).toHaveLength(1);
  });

  it('can know whom to ask for an agent that was made without a model', async () => {
    const model = scriptedModel(['A.']);
    const { factory } = inProcessThreads({ clock: systemClock });
    await using harness = await buildHarness(
      { workers: { warm: 0 }, models: { script: model } },
      { threads: () => factory },
    );
    const { agent } = await harness.agents.create();
    expect(agent.options).toEqual({});
    const undo = harness.hooks.on('agent/request', ({ config }) => {
      expect(config).toEqual({ provider: '', model: '' });
      return BASE;
    });
    agent.followup(message('go'));
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed']);
    undo();
    expect(model.requests).toHaveLength(1);
  });

  it.each<[string, object, RegExp]>([
    ['of that name', { provider: 'nobody' }, /"nobody": no model is registered/],
    ['that runs here', { provider: 'elsewhere' }, /"elsewhere": its model is a module/],
  ])('fails the turn when it chooses a model and there is none %s', async (_, change, words) => {
    await using rt = await testHarness({
      script: ['A.', 'B.'],
      models: { elsewhere: { module: new URL('file:///model.mjs') } },
    });
    const asked: string[] = [];
    rt.harness.hooks.on('agent/request-error', () => void asked.push('request-error'));
    const undo = rt.harness.hooks.on('agent/request', ({ config }) => ({ ...config, ...change }));
    await rt.ask('one');
    expect(ends(rt.root.session)).toEqual(['error NO_ADAPTER']);
    const end = rt.root.session.events.at(-1);
    expect(end?.data).toMatchObject({
      reason: { error: { message: expect.stringMatching(words) } },
    });
    expect(has(rt.root.session, 'request/header')).toBe(false);
    undo();
    await rt.ask('two');
    expect(ends(rt.root.session)).toEqual(['error NO_ADAPTER', 'completed']);
    expect(asked).toEqual([]);
  });

  it.each<[string, unknown]>([
    ['nothing to ask with', 'test'],
    ['null', null],
    ['no provider', { model: 'm' }],
    ['an empty model', { ...BASE, model: '' }],
    ['a model that is no text', { ...BASE, model: 1 }],
    ['half a token', { ...BASE, maxTokens: 0.5 }],
    ['no tokens', { ...BASE, maxTokens: 0 }],
    ['tokens without end', { ...BASE, maxTokens: Infinity }],
    ['a temperature that is no number', { ...BASE, temperature: Number.NaN }],
    ['a stop that is no list', { ...BASE, stop: 'END' }],
    ['a stop that is no text', { ...BASE, stop: [1] }],
    ['what is not known', { ...BASE, topK: 1 }],
  ])('that decides %s fails the turn before anything is written down', async (_, decision) => {
    await using rt = await testHarness({ script: ['A.'] });
    const undo = rt.harness.hooks.on('agent/request', () => decision as never);
    await rt.ask('one');
    expect(ends(rt.root.session)).toEqual(['error INVALID_ARGUMENT']);
    expect(eventTypes(rt.root.session).slice(-4)).toEqual([
      'step/start',
      'user/message',
      'step/end',
      'turn/end',
    ]);
    undo();
    await rt.ask('two');
    expect(rt.model.requests).toHaveLength(1);
  });

  it('that throws fails the turn, and nobody is asked whether to try again', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    rt.harness.hooks.on('agent/request-error', () => ({ kind: 'retry', delayMs: 0 }));
    rt.harness.hooks.on('agent/request', () => {
      throw Object.assign(new Error('Not now.'), { code: 'SERVER' });
    });
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['error SERVER']);
    expect(has(rt.root.session, 'llm/retry')).toBe(false);
    expect(rt.model.requests).toEqual([]);
  });
});

describe('a stop while a hook decides about a request', () => {
  it('wins at once; nothing is asked, and nothing of it is written down', async () => {
    const held = gate();
    // The time in which a thread that does not obey is ended does not pass.
    await using rt = await testHarness({ clock: new ManualClock(), script: ['A.'] });
    rt.harness.hooks.on('agent/request', async () => {
      await held.wait();
      return { provider: 'nobody', model: 'x' };
    });
    rt.root.followup(message('go'));
    await held.arrived();
    rt.root.cancel(USER);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    const { seq } = rt.root.session;
    held.open();
    await settled();
    expect(rt.root.session.seq).toBe(seq);
    expect(eventTypes(rt.root.session).slice(2)).toEqual([
      'agent/inbox/spliced',
      'step/start',
      'user/message',
      'step/end',
      'turn/end',
    ]);
    expect(rt.model.requests).toEqual([]);
  });

  it('wins over what the hook decides in the same breath', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    rt.harness.hooks.on('agent/request', () => rt.root.cancel(USER));
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    expect(has(rt.root.session, 'request/header')).toBe(false);
  });

  it('by the end of its thread leaves nothing to wait for', async () => {
    const held = gate();
    await using rt = await testHarness({ script: ['A.'] });
    rt.harness.hooks.on('agent/request', () => held.wait());
    rt.root.followup(message('go'));
    await held.arrived();
    rt.threads.of(rt.root.id).crash('Boom.');
    await rt.root.whenIdle();
    held.open();
    await settled();
    expect(ends(rt.root.session)).toEqual(['error WORKER_CRASHED']);
    expect(has(rt.root.session, 'request/header')).toBe(false);
  });
});
