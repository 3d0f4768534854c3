import { describe, expect, it } from 'vitest';
import type { ClaimReply } from '../../protocol/host-services.ts';
import type { TurnEndReason } from '../../protocol/session-events.ts';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import { asksFor, fails, says } from '../support/parts.ts';

const idle: ClaimReply = { kind: 'idle' };
const ends = (turn: number, reason: TurnEndReason): ClaimReply => ({ kind: 'end', turn, reason });

describe('runLoop', () => {
  it('does not claim before its first wake', async () => {
    const { main, stop } = fakeAgent();
    await main.untilSeen('ready');
    await stop();
    expect(main.trail).toEqual(['ready', 'stopped']);
  });

  it('runs a turn of one step and claims until main calls it idle', async () => {
    const { main, stop } = fakeAgent({ script: { claim: claims(enter(1), close(1)) } });
    main.wake();
    await main.untilSeen('claim(turn,false)', 2);
    await stop();
    expect(main.trail.slice(0, -1)).toEqual([
      'ready',
      'claim(turn,false)',
      'openModel',
      'assistant/message',
      'step/end',
      'claim(step,true)',
      'turn/end',
      'claim(turn,false)',
    ]);
    expect(main.events.at(-1)?.data).toEqual({ turn: 1, reason: { kind: 'completed' } });
  });

  it('claims once more after an idle answer when a wake came before that answer', async () => {
    const { main, ports, stop } = fakeAgent({ mode: 'manual' });
    await tick();
    ports.flush();
    main.wake();
    ports.flush(undefined, 'worker');
    await tick();
    // The claim is posted and not yet answered: this wake is one bit, however often it comes.
    main.wake();
    main.wake();
    ports.flush(undefined, 'worker');
    for (let turn = 0; turn < 8; turn++) {
      ports.flush();
      await tick();
    }
    expect(main.count('claim(turn,false)')).toBe(2);
    await stop();
  });

  it('waits for a wake after an idle answer, and claims at each later one', async () => {
    const { main, stop } = fakeAgent();
    main.wake();
    await main.untilSeen('claim(turn,false)', 1);
    await settled();
    expect(main.count('claim(turn,false)')).toBe(1);
    main.wake();
    await main.untilSeen('claim(turn,false)', 2);
    await stop();
  });

  it('goes on to the next step while tools were called, and says that the step did not conclude', async () => {
    const answers = [asksFor(['c1', 'read']), says('done')];
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1, 1), enter(1, 2), close(1)),
        openModel: () => answers.shift()!,
      },
    });
    main.wake();
    await main.untilSeen('claim(turn,false)', 2);
    await stop();
    expect(main.trail.slice(1, -2)).toEqual([
      'claim(turn,false)',
      'openModel',
      'assistant/message',
      'callTool(c1)',
      'step/end',
      'claim(step,false)',
      'openModel',
      'assistant/message',
      'step/end',
      'claim(step,true)',
      'turn/end',
    ]);
  });

  it('concludes the step when a tool that succeeded asked for it', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1), close(1)),
        openModel: () => asksFor(['c1', 'a'], ['c2', 'b']),
        callTool: ({ callId }) => ({ done: true, concludesTurn: callId === 'c1' }),
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.count('claim(step,true)')).toBe(1);
  });

  it('remembers that an answer was cut off until the turn ends, and runs none of its tools', async () => {
    const cut = [...asksFor(['c1', 'read']).slice(0, -1)];
    const answers = [
      [...cut, { type: 'finish', reason: { kind: 'max-tokens' } } as const],
      says('more'),
    ];
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1, 1), enter(1, 2), close(1)),
        openModel: () => answers.shift()!,
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.eventsOf('turn/end')).toEqual([{ turn: 1, reason: { kind: 'max-tokens' } }]);
    expect(main.eventsOf('assistant/message')[0]?.message.content).toEqual([]);
    expect(main.calls.filter(({ name }) => name === 'callTool')).toEqual([]);
  });

  it.each<[TurnEndReason, unknown]>([
    [{ kind: 'completed' }, { kind: 'completed' }],
    [{ kind: 'blocked' }, { kind: 'blocked' }],
    [{ kind: 'aborted', reason: { kind: 'user' } }, { kind: 'aborted' }],
    [
      { kind: 'error', error: { message: 'no prompt', code: 'UNKNOWN' } },
      { kind: 'error', error: { message: 'no prompt', code: 'UNKNOWN' } },
    ],
  ])('ends the turn as main says: %j', async (reason, written) => {
    const { main, stop } = fakeAgent({ script: { claim: claims(ends(3, reason)) } });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.eventsOf('turn/end')).toEqual([{ turn: 3, reason: written }]);
    expect(main.count('step/end')).toBe(0);
  });

  it('ends the turn with the failure of the model, word for word', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: () => fails('AUTH', { status: 401, requestId: 'r-1' }),
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(1, 6)).toEqual([
      'claim(turn,false)',
      'openModel',
      'openModel',
      'step/end',
      'turn/end',
    ]);
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({
      kind: 'error',
      error: { message: 'It failed with AUTH.', code: 'AUTH', status: 401, requestId: 'r-1' },
    });
  });

  it.each([
    [Object.assign(new Error('disk full'), { code: 'STORE_FULL' }), 'STORE_FULL'],
    [new Error('something broke'), 'UNKNOWN'],
  ])('closes step and turn when a call of main fails: %s', async (error, code) => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1)),
        openModel: () => {
          throw error;
        },
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(2, 5)).toEqual(['openModel', 'step/end', 'turn/end']);
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({
      kind: 'error',
      error: { message: error.message, code },
    });
  });

  it('ends the turn with an error when the next step cannot be claimed, and claims the next turn', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim(boundary) {
          if (boundary === 'step') throw new Error('no step');
          return main.count('turn/end') === 0 ? enter(1) : idle;
        },
      },
    });
    main.wake();
    await main.untilSeen('claim(turn,false)', 2);
    await stop();
    expect(main.eventsOf('turn/end')[0]?.reason).toMatchObject({ error: { message: 'no step' } });
  });

  it('faults when a turn cannot be claimed', async () => {
    const { main, agent } = fakeAgent({
      script: {
        claim() {
          throw Object.assign(new Error('gone'), { code: 'STORE_IO' });
        },
      },
    });
    main.wake();
    await agent.done;
    await main.untilSeen('fault');
    expect(main.frames.at(-1)).toMatchObject({ error: { code: 'STORE_IO', message: 'gone' } });
  });

  it('ends the turn, and lives, when an answer does not fit one frame', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1), enter(2), close(2)),
        openModel: ({ turn }) =>
          turn === 1 ? [...says('x'.repeat(700_000)), ...[]].flatMap(twice) : says('ok'),
      },
    });
    main.wake();
    await main.untilSeen('turn/end', 2);
    await stop();
    expect(main.trail.slice(1, 5)).toEqual([
      'claim(turn,false)',
      'openModel',
      'step/end',
      'turn/end',
    ]);
    const [first, second] = main.eventsOf('turn/end');
    expect(first?.reason).toMatchObject({ kind: 'error', error: { code: 'FRAME_TOO_LARGE' } });
    expect(second?.reason).toEqual({ kind: 'completed' });
  });
});

/** The same text block again under another index: 1.4 MB in all. */
function twice<P>(part: P): P[] {
  return 'index' in (part as object) ? [part, { ...part, index: 1 }] : [part];
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await tick();
}
