import { describe, expect, it } from 'vitest';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import type { FakeAgent } from '../support/fake-main.ts';
import { asksFor, begins, callParts, fails, says } from '../support/parts.ts';

describe('runStep', () => {
  it('commits one message with the usage and the number of parts it was made of', async () => {
    const usage = { inputTokens: 10, outputTokens: 2, cacheReadTokens: 4 };
    const [finish] = says().slice(-1);
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1), close(1)),
        openModel: () => [...begins('Hello'), { type: 'usage', usage }, finish!],
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    const [event] = main.eventsOf('assistant/message');
    expect(event).toMatchObject({
      turn: 1,
      step: 1,
      stream: 'stream-1',
      parts: 4,
      usage,
      message: { role: 'assistant', content: [{ type: 'text', text: 'Hello' }] },
    });
    expect(event?.message.source).toEqual({ kind: 'model', provider: 'script', model: 'test' });
    expect(event).not.toHaveProperty('interrupted');
  });

  it('commits a message even when the model said nothing', async () => {
    const { main, stop } = fakeAgent({
      script: { claim: claims(enter(1), close(1)), openModel: () => says() },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.eventsOf('assistant/message')[0]?.message.content).toEqual([]);
  });

  it('keeps what the provider wants back, with the message', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1), close(1)),
        openModel: () => [{ type: 'finish', reason: { kind: 'stop' }, replayState: { id: 'r' } }],
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.eventsOf('assistant/message')[0]?.message.source).toMatchObject({
      replayState: { id: 'r' },
    });
  });

  it('does not commit what was streamed before the provider failed', async () => {
    const { main, stop } = fakeAgent({
      script: { claim: claims(enter(1)), openModel: () => [...begins('Half'), ...fails('AUTH')] },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.count('assistant/message')).toBe(0);
  });

  it('commits nothing of a cancelled stream that showed nothing', async () => {
    const { main, flag, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: () => [...begins('  \n'), ...callParts(1, 'c', 'read')],
      },
    });
    main.wake();
    await main.until(() => main.partsInFlight === 0 && main.count('openModel') === 1);
    flag.raise(1, 'parent');
    main.send({ type: 'interrupt', turn: 1 });
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(2, 5)).toEqual(['openModel', 'step/end', 'turn/end']);
  });

  it('takes an answer that came to its end after the flag was raised as cut off', async () => {
    const { main, flag, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel() {
          flag.raise(1, 'user');
          return [...begins('Read it'), ...asksFor(['c', 'read']).map(shifted)];
        },
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.eventsOf('assistant/message')[0]).toMatchObject({
      interrupted: true,
      message: { content: [{ type: 'text', text: 'Read it' }] },
    });
    expect(main.calls.map(({ name }) => name)).not.toContain('callTool');
  });

  it('includes in the kept prefix what had arrived when the flag was seen', async () => {
    const { main, flag, ports, stop } = fakeAgent({
      mode: 'manual',
      script: { claim: claims(enter(1)), openModel: () => begins('one') },
    });
    const run = async (): Promise<void> => {
      for (let turn = 0; turn < 12; turn++) {
        ports.flush();
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await run();
    main.wake();
    await run();
    flag.raise(1, 'user');
    main.sendParts('stream-1', { type: 'text-delta', index: 0, text: ' two' });
    main.sendParts('stream-1', { type: 'text-delta', index: 0, text: ' three' });
    // Both frames are there before the loop gets to look at either.
    ports.flush(2, 'worker');
    main.send({ type: 'interrupt', turn: 1 });
    await run();
    await stop();
    expect(main.eventsOf('assistant/message')[0]).toMatchObject({
      parts: 5,
      message: { content: [{ type: 'text', text: 'one two three' }] },
    });
    expect(main.partsInFlight).toBe(0);
  });

  it('asks for every call of a turn that is to stop, and goes no further', async () => {
    const { main, flag, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: () => asksFor(['c1', 'a'], ['c2', 'b'], ['c3', 'c']),
        callTool({ callId }) {
          if (callId === 'c1') flag.raise(1, 'user');
          return { done: true, concludesTurn: false };
        },
      },
      init: { toolConcurrency: 1 },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(3, 9)).toEqual([
      'assistant/message',
      'callTool(c1)',
      'callTool(c2)',
      'callTool(c3)',
      'step/end',
      'turn/end',
    ]);
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });
});

describe('a request that failed', () => {
  const attempts = ({ main }: FakeAgent): unknown[] =>
    main.calls.filter(({ name }) => name === 'openModel').map(({ values }) => values[0]);

  it('is asked for again inside the same step, as often as main answers with another', async () => {
    const answers = [[...begins('lost'), ...fails('RATE_LIMIT')], fails('SERVER'), says('done')];
    const t = fakeAgent({
      script: {
        claim: claims(enter(2, 3), close(2)),
        openModel: () => answers.shift()!,
        retries: 2,
      },
    });
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(t.main.trail.slice(2, 7)).toEqual([
      'openModel',
      'openModel',
      'openModel',
      'assistant/message',
      'step/end',
    ]);
    expect(attempts(t)).toEqual([1, 2, 3].map((attempt) => ({ turn: 2, step: 3, attempt })));
    expect(t.main.eventsOf('assistant/message')[0]).toMatchObject({ stream: 'stream-3', parts: 4 });
  });

  it('fails the turn with its own failure when main makes it no more', async () => {
    const t = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: ({ attempt }) => fails('SERVER', { status: 500 + attempt }),
        retries: 1,
      },
    });
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(attempts(t)).toHaveLength(3);
    expect(t.main.eventsOf('turn/end')[0]?.reason).toEqual({
      kind: 'error',
      error: { code: 'SERVER', message: 'It failed with SERVER.', status: 502 },
    });
  });

  it('is not asked for again in a turn that is to stop', async () => {
    const t = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel() {
          t.flag.raise(1, 'user');
          return fails('SERVER');
        },
        retries: 1,
      },
    });
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(attempts(t)).toHaveLength(1);
    expect(t.main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });

  it.each(['none', 'thrown'] as const)(
    'is no failure of a turn that was told to stop before main answered: %s',
    async (how) => {
      const t = fakeAgent({
        script: {
          claim: claims(enter(1)),
          openModel({ attempt }) {
            if (attempt === 1) return fails('SERVER');
            t.flag.raise(1, 'user');
            if (how === 'none') return { route: 'none' };
            throw new DOMException('Cancelled: user.', 'AbortError');
          },
          retries: 1,
        },
      });
      t.main.wake();
      await t.main.untilSeen('turn/end');
      await t.stop();
      expect(t.main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
    },
  );
});

function shifted<P extends object>(part: P): P {
  return 'index' in part ? { ...part, index: (part.index as number) + 1 } : part;
}
