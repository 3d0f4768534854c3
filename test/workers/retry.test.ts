import { describe, expect, it } from 'vitest';
import { turnErrorOf } from '../../workers/agent/retry.ts';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import { begins, fails, says } from '../support/parts.ts';

describe('withRetry', () => {
  it('asks again inside the same step after the wait it told of', async () => {
    const answers = [[...begins('lost'), ...fails('RATE_LIMIT')], says('done')];
    const { main, delays, stop } = fakeAgent({
      script: { claim: claims(enter(2, 3), close(2)), openModel: () => answers.shift()! },
    });
    main.wake();
    await main.untilSeen('llm/retry');
    expect(main.count('llm/retry-started')).toBe(0);
    delays[0]?.end();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(2, 8)).toEqual([
      'openModel',
      'llm/retry',
      'llm/retry-started',
      'openModel',
      'assistant/message',
      'step/end',
    ]);
    const [retry] = main.eventsOf('llm/retry');
    expect(retry).toMatchObject({
      turn: 2,
      step: 3,
      provider: 'script',
      retry: 1,
      maxRetries: 5,
      delayMs: 500,
      failure: { code: 'RATE_LIMIT' },
    });
    expect(main.eventsOf('llm/retry-started')[0]?.retryId).toBe(retry?.retryId);
    expect(
      main.calls.filter(({ name }) => name === 'openModel').map(({ values }) => values[0]),
    ).toEqual([
      { turn: 2, step: 3, attempt: 1 },
      { turn: 2, step: 3, attempt: 2 },
    ]);
    expect(main.eventsOf('assistant/message')[0]).toMatchObject({ stream: 'stream-2', parts: 4 });
  });

  it('gives up after the last retry, with the last failure', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: ({ attempt }) => fails('SERVER', { status: 500 + attempt }),
      },
      init: {
        retryPolicy: {
          maxRetries: 2,
          retryableCodes: ['SERVER'],
          initialDelayMs: 1,
          maxDelayMs: 1,
          jitterRatio: 0,
        },
      },
      environment: { delay: () => Promise.resolve() },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.count('openModel')).toBe(3);
    expect(main.eventsOf('turn/end')[0]?.reason).toMatchObject({ error: { status: 503 } });
  });

  it('does not ask again when the provider wants a longer wait than is allowed', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: () => fails('RATE_LIMIT', { providerRetryAfterMs: 60_000 }),
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.count('llm/retry')).toBe(0);
  });

  it('waits as long as the provider wishes when that is allowed', async () => {
    const { main, delays, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: () => fails('RATE_LIMIT', { providerRetryAfterMs: 1_234 }),
      },
    });
    main.wake();
    await main.untilSeen('llm/retry');
    await stop();
    expect(delays[0]?.ms).toBe(1_234);
  });

  it('stops waiting when the turn is to stop, and starts no retry', async () => {
    const { main, flag, stop } = fakeAgent({
      script: { claim: claims(enter(1)), openModel: () => fails('SERVER') },
    });
    main.wake();
    await main.untilSeen('llm/retry');
    flag.raise(1, 'user');
    main.send({ type: 'interrupt', turn: 1 });
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(3, 6)).toEqual(['llm/retry', 'step/end', 'turn/end']);
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });

  it('lets an abort win over a retry that was due', async () => {
    const { main, flag, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel() {
          flag.raise(1, 'user');
          return fails('SERVER');
        },
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.count('llm/retry')).toBe(0);
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });
});

describe('turnErrorOf', () => {
  it("keeps an error's own code and tells its causes", () => {
    const cause = new Error('no route to host');
    const error = Object.assign(new Error('It broke', { cause }), { code: 'E_BROKE' });
    expect(turnErrorOf(error)).toEqual({ message: 'It broke: no route to host', code: 'E_BROKE' });
  });

  it('makes something of anything that can be thrown', () => {
    expect(turnErrorOf('just text')).toEqual({ message: 'just text', code: 'UNKNOWN' });
    expect(turnErrorOf(undefined)).toEqual({ message: 'undefined', code: 'UNKNOWN' });
  });
});
