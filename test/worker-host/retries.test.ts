/** A model request that failed: by policy, by `agent/request-error`, and by nobody. */
import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import type { Failure } from '../../protocol/model.ts';
import type { SessionEventMap } from '../../protocol/session-events.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { AgentHooks } from '../../src/agent/hooks.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { Session } from '../../src/session/session.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import { USER, ends, has } from './agent-words.ts';

type Decision = AgentHooks['agent/request-error']['decision'];

const fails = (code: string, more: Partial<Failure> = {}): { failure: Failure } => ({
  failure: { code, message: `Failed: ${code}.`, ...more },
});
const retries = ({ events }: Session): SessionEventMap['llm/retry'][] =>
  events.flatMap(({ type, data }) => (type === 'llm/retry' ? [data] : []));
const policy = {
  maxRetries: 1,
  retryableCodes: ['BUSY'],
  initialDelayMs: 7,
  maxDelayMs: 7,
  jitterRatio: 0,
};

/** Ask, and let all the time pass that is waited for. */
async function askOverTime(rt: TestHarness, clock: ManualClock, text = 'go'): Promise<void> {
  rt.root.followup(message(text));
  while (rt.root.status === 'running') await clock.advance(1_000);
}

describe('a request that failed', () => {
  it('is made again inside the same step after the wait that the log tells of', async () => {
    const clock = new ManualClock();
    const partial = { text: 'Lost', ...fails('RATE_LIMIT') };
    await using rt = await testHarness({ clock, script: [partial, 'Done.'] });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'llm/retry'));
    await clock.advance(499);
    expect(has(rt.root.session, 'llm/retry-started')).toBe(false);
    await clock.advance(1);
    await rt.root.whenIdle();
    expect(eventTypes(rt.root.session).slice(3)).toEqual([
      'step/start',
      'user/message',
      'request/header',
      'request/context',
      'llm/retry',
      'llm/retry-started',
      'assistant/message',
      'step/end',
      'turn/end',
    ]);
    const [retry] = retries(rt.root.session);
    expect(retry).toEqual({
      retryId: '1.1.1',
      turn: 1,
      step: 1,
      provider: 'script',
      retry: 1,
      maxRetries: 5,
      delayMs: 500,
      failure: { code: 'RATE_LIMIT', message: 'Failed: RATE_LIMIT.' },
    });
    const started = rt.root.session.events.find(({ type }) => type === 'llm/retry-started');
    expect(started?.data).toEqual({ retryId: '1.1.1', turn: 1, step: 1, retry: 1 });
    // The message cites the parts of the second attempt alone.
    const said = rt.root.session.events.find(({ type }) => type === 'assistant/message');
    const [first] = (said as { sourceEventSeqs?: readonly number[] }).sourceEventSeqs ?? [];
    expect(first).toBeGreaterThan(started?.seq ?? Infinity);
    expect(clock.pending).toBe(0);
  });

  it('is given up after the last retry, with the last failure', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({
      clock,
      script: Array.from({ length: 9 }, (_, index) => fails('SERVER', { status: 500 + index })),
    });
    await askOverTime(rt, clock);
    expect(rt.model.requests).toHaveLength(6);
    expect(retries(rt.root.session).map(({ retry, delayMs }) => [retry, delayMs])).toEqual([
      [1, 500],
      [2, 1_000],
      [3, 2_000],
      [4, 4_000],
      [5, 8_000],
    ]);
    expect(rt.root.session.events.at(-1)?.data).toEqual({
      turn: 1,
      reason: { kind: 'error', ...{ error: fails('SERVER', { status: 505 }).failure } },
    });
  });

  it('has the whole budget again in the next step', async () => {
    const clock = new ManualClock();
    const five = Array.from({ length: 5 }, () => fails('SERVER'));
    await using rt = await testHarness({
      clock,
      tools: [
        {
          name: 'note',
          description: 'Notes.',
          parameters: { type: 'object' },
          execute: () => 'Noted.',
        },
      ],
      script: [...five, { toolCalls: [{ name: 'note', arguments: {} }] }, ...five, 'Done.'],
    });
    await askOverTime(rt, clock);
    expect(ends(rt.root.session)).toEqual(['completed']);
    expect(retries(rt.root.session)).toHaveLength(10);
  });

  it.each([
    [1_234, [1_234]],
    [60_000, []],
  ])('waits as long as the provider wishes, if that is allowed: %i ms', async (wish, waits) => {
    const clock = new ManualClock();
    const failure = fails('RATE_LIMIT', { providerRetryAfterMs: wish });
    await using rt = await testHarness({ clock, script: [failure, 'Done.'] });
    await askOverTime(rt, clock);
    expect(retries(rt.root.session).map(({ delayMs }) => delayMs)).toEqual(waits);
    expect(ends(rt.root.session)).toEqual([waits.length === 0 ? 'error RATE_LIMIT' : 'completed']);
  });

  it('is retried by the policy of the model that failed, also of one in the thread', async () => {
    const clock = new ManualClock();
    let calls = 0;
    const own = {
      retryPolicy: policy,
      async *stream() {
        calls++;
        yield { type: 'finish', reason: { kind: 'error', ...fails('BUSY') } };
      },
    };
    await using rt = await testHarness({
      clock,
      models: { inThread: { module: new URL('file:///model.mjs') } },
      defaultModel: { provider: 'inThread', model: 'tiny' },
      threads: { import: () => Promise.resolve({ default: own }) },
    });
    await askOverTime(rt, clock);
    expect(calls).toBe(2);
    expect(retries(rt.root.session)).toMatchObject([
      { provider: 'inThread', retry: 1, maxRetries: 1, delayMs: 7 },
    ]);
    expect(ends(rt.root.session)).toEqual(['error BUSY']);
  });

  it('refuses to start an agent whose model has a policy that cannot be followed', async () => {
    await using rt = await testHarness({
      models: { inThread: { module: new URL('file:///model.mjs') } },
      threads: {
        import: () =>
          Promise.resolve({ default: { stream() {}, retryPolicy: { maxRetries: 'many' } } }),
      },
    });
    await expect(
      rt.harness.agents.create({ agentOptions: { provider: 'inThread', model: 'tiny' } }),
    ).rejects.toMatchObject({ code: 'WORKER_START_FAILED' });
  });
});

describe('a hook of a failed request', () => {
  it('is asked with all that is known, and by default the policy decides', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [fails('SERVER'), fails('AUTH')] });
    const seen: object[] = [];
    rt.harness.hooks.on('agent/request-error', async (context, next) => {
      const { agent, signal, ...rest } = context;
      expect([agent, signal.aborted]).toEqual([rt.root, false]);
      expect(rt.root.session.open?.step).toBe(1);
      const decision = await next();
      seen.push({ ...rest, decision });
    });
    await askOverTime(rt, clock);
    const at = { turn: 1, step: 1, provider: 'script' };
    expect(seen).toEqual([
      {
        ...at,
        attempt: 1,
        ...fails('SERVER'),
        retryPolicy: expect.objectContaining({ maxRetries: 5 }),
        decision: { kind: 'retry', delayMs: 500 },
      },
      {
        ...at,
        attempt: 2,
        ...fails('AUTH'),
        retryPolicy: expect.objectContaining({ maxRetries: 5 }),
        decision: { kind: 'fail' },
      },
    ]);
  });

  it('retries what the policy would not, after a wait of its own', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [fails('AUTH'), 'Done.'] });
    rt.harness.hooks.on('agent/request-error', () => ({ kind: 'retry', delayMs: 30_000 }));
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'llm/retry'));
    await clock.advance(29_999);
    expect(rt.model.requests).toHaveLength(1);
    await clock.advance(1);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('refuses what the policy would retry, and the turn has the failure of the model', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [fails('SERVER', { status: 503 })] });
    rt.harness.hooks.on('agent/request-error', () => ({ kind: 'fail' }));
    await rt.ask('go');
    expect(rt.root.session.events.at(-1)?.data).toMatchObject({
      reason: { kind: 'error', error: { code: 'SERVER', status: 503 } },
    });
    expect(retries(rt.root.session)).toEqual([]);
  });

  it('counts each provider by itself, so that another has its whole budget', async () => {
    const clock = new ManualClock();
    const other = scriptedModel([fails('BUSY'), fails('BUSY'), 'Never.'], { retryPolicy: policy });
    await using rt = await testHarness({ clock, models: { other }, script: [fails('SERVER')] });
    rt.harness.hooks.on('agent/request', ({ attempt, config }) =>
      attempt === 2 ? { ...config, provider: 'other' } : undefined,
    );
    await askOverTime(rt, clock);
    expect(
      retries(rt.root.session).map(({ retryId, provider, retry }) => [retryId, provider, retry]),
    ).toEqual([
      ['1.1.1', 'script', 1],
      ['1.1.2', 'other', 1],
    ]);
    expect(ends(rt.root.session)).toEqual(['error BUSY']);
  });

  it.each<[string, () => unknown, string]>([
    ['throws', () => Promise.reject(new Error('No idea.')), 'error UNKNOWN'],
    ['decides nothing known', () => ({ kind: 'again' }), 'error INVALID_ARGUMENT'],
    ['names no delay', () => ({ kind: 'retry' }), 'error INVALID_ARGUMENT'],
    ['names one below zero', () => ({ kind: 'retry', delayMs: -1 }), 'error INVALID_ARGUMENT'],
    ['never ends', () => ({ kind: 'retry', delayMs: Infinity }), 'error INVALID_ARGUMENT'],
  ])('that %s fails the turn', async (_, decide, end) => {
    await using rt = await testHarness({ script: [fails('SERVER')] });
    rt.harness.hooks.on('agent/request-error', decide as () => Decision);
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual([end]);
    expect(retries(rt.root.session)).toEqual([]);
  });
});

describe('a stop wins over a retry', () => {
  it('while it is waited for, and leaves no timer', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [fails('SERVER')] });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'llm/retry'));
    await settled();
    rt.root.cancel(USER);
    await rt.root.whenIdle();
    expect(eventTypes(rt.root.session).slice(-3)).toEqual(['llm/retry', 'step/end', 'turn/end']);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    expect(clock.pending).toBe(0);
  });

  it('while the hook decides, whatever it decides later', async () => {
    const held = gate();
    // The time in which a thread that does not obey is ended does not pass.
    await using rt = await testHarness({ clock: new ManualClock(), script: [fails('SERVER')] });
    rt.harness.hooks.on('agent/request-error', async () => {
      await held.wait();
      return { kind: 'retry', delayMs: 0 };
    });
    rt.root.followup(message('go'));
    await held.arrived();
    rt.root.cancel(USER);
    await rt.root.whenIdle();
    const { seq } = rt.root.session;
    held.open();
    await settled();
    expect(rt.root.session.seq).toBe(seq);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    expect(retries(rt.root.session)).toEqual([]);
  });

  it('and over a failure that the hook decides on in the same breath', async () => {
    await using rt = await testHarness({ script: [fails('SERVER')] });
    rt.harness.hooks.on('agent/request-error', () => {
      rt.root.cancel(USER);
      return { kind: 'fail' };
    });
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('by the end of its thread, and leaves no timer', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [fails('SERVER'), 'Never.'] });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'llm/retry'));
    await settled();
    rt.threads.of(rt.root.id).crash('Boom.');
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error WORKER_CRASHED']);
    expect(clock.pending).toBe(0);
    await clock.advance(10_000);
    expect(rt.model.requests).toHaveLength(1);
  });

  it('by the disposal of the agent', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [fails('SERVER')] });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'llm/retry'));
    await settled();
    await rt.rootHandle.dispose();
    expect(ends(rt.root.session)).toEqual(['aborted disposed']);
    expect(clock.pending).toBe(0);
  });
});

describe('a thread that asks out of phase is ended:', () => {
  const call = (id: string, path: string, ...values: unknown[]): Uint8Array =>
    pack({
      type: 'call',
      message: {
        id,
        type: 'APPLY',
        path: [path],
        argumentList: values.map((value) => ({ type: 'RAW', value })),
      },
    });

  it.each<[string, Uint8Array]>([
    [
      'for an attempt while one is decided',
      call('x', 'openModel', { turn: 1, step: 1, attempt: 2 }),
    ],
    ['for the next attempt twice', call('x', 'openModel', { turn: 1, step: 1, attempt: 3 })],
  ])('%s', async (what, frame) => {
    const held = gate();
    await using rt = await testHarness({ script: [fails('SERVER')] });
    const kind = what.includes('decided') ? 'agent/request' : 'agent/request-error';
    rt.harness.hooks.on(kind, () => held.wait() as never);
    rt.root.followup(message('go'));
    await held.arrived();
    rt.threads.of(rt.root.id).ports?.worker.postMessage(frame);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error PROTOCOL_VIOLATION']);
    held.open();
  });

  it('for a second claim while a hook decides about the first', async () => {
    const held = gate();
    await using rt = await testHarness();
    rt.harness.hooks.on('agent/pre-step', () => held.wait());
    rt.root.followup(message('go'));
    await held.arrived();
    rt.threads.of(rt.root.id).ports?.worker.postMessage(call('x', 'claim', 'step', false));
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error PROTOCOL_VIOLATION']);
    held.open();
  });

  it.each([
    ['its turn while a hook decides about the next step', 'agent/pre-step', 'turn/end'],
    ['its step while a hook decides about its request', 'agent/request', 'step/end'],
  ] as const)('when it ends %s', async (_, kind, type) => {
    const held = gate();
    await using rt = await testHarness();
    rt.harness.hooks.on(kind, () => held.wait() as never);
    rt.root.followup(message('go'));
    await held.arrived();
    const errors: string[] = [];
    rt.harness.on('agent/error', ({ error }) => errors.push(error.code));
    const data =
      type === 'turn/end' ? { turn: 1, reason: { kind: 'completed' } } : { turn: 1, step: 1 };
    const { worker } = rt.threads.of(rt.root.id).ports!;
    worker.postMessage(pack({ type: 'events', from: 0, events: [{ type, data }] }));
    await until(() => has(rt.root.session, type));
    held.open();
    await until(() => errors.length > 0);
    expect(errors).toEqual(['PROTOCOL_VIOLATION']);
    await rt.root.whenIdle();
  });
});
