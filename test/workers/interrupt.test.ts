import { describe, expect, it } from 'vitest';
import { CancelFlag } from '../../protocol/cancel-flag.ts';
import { TurnCancellations } from '../../workers/agent/interrupt.ts';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import { begins, says } from '../support/parts.ts';

function arranged(): { flag: CancelFlag; cancellations: TurnCancellations } {
  const flag = new CancelFlag();
  return { flag, cancellations: new TurnCancellations(new CancelFlag(flag.buffer)) };
}

describe('TurnCancellations', () => {
  it('sees a raised flag when asked, and aborts the signal with an AbortError', () => {
    const { flag, cancellations } = arranged();
    const turn = cancellations.begin(4);
    expect(turn.isRaised()).toBe(false);
    flag.raise(4, 'user');
    expect(turn.signal.aborted).toBe(false);
    expect(turn.isRaised()).toBe(true);
    expect(turn.signal.reason).toMatchObject({ name: 'AbortError' });
    expect(() => turn.throwIfRaised()).toThrow(turn.signal.reason as Error);
  });

  it('is raised from its beginning when the flag was raised before the turn was known here', () => {
    const { flag, cancellations } = arranged();
    flag.raise(4, 'user');
    expect(cancellations.begin(4).signal.aborted).toBe(true);
  });

  it('starts afresh in the turn after a cancelled one', () => {
    const { flag, cancellations } = arranged();
    flag.raise(4, 'user');
    cancellations.begin(4);
    cancellations.end();
    expect(cancellations.begin(5).isRaised()).toBe(false);
  });

  it('is woken by a frame that names the open turn only', () => {
    const { cancellations } = arranged();
    const turn = cancellations.begin(5);
    cancellations.interrupt(4);
    cancellations.interrupt(6);
    expect(turn.signal.aborted).toBe(false);
    cancellations.interrupt(5);
    expect(turn.signal.aborted).toBe(true);
  });

  it('stops the open turn and every later one when the agent is to stop', () => {
    const { cancellations } = arranged();
    const turn = cancellations.begin(1);
    cancellations.stop();
    expect(turn.signal.aborted).toBe(true);
    cancellations.end();
    expect(cancellations.begin(2).signal.aborted).toBe(true);
  });

  it('names the open turn', () => {
    const { cancellations } = arranged();
    expect(cancellations.openTurn).toBeUndefined();
    cancellations.begin(7);
    expect(cancellations.openTurn).toBe(7);
    cancellations.end();
    expect(cancellations.openTurn).toBeUndefined();
  });
});

describe('an interrupt', () => {
  it('of turn n that is read in turn n + 1 changes nothing there', async () => {
    const { main, stop } = fakeAgent({
      script: {
        claim: claims(enter(1), close(1), enter(2), close(2)),
        async openModel({ turn }) {
          if (turn === 2) {
            main.send({ type: 'interrupt', turn: 1 });
            await new Promise((resolve) => setImmediate(resolve));
          }
          return says('done');
        },
      },
    });
    main.wake();
    await main.untilSeen('turn/end', 2);
    await stop();
    expect(main.eventsOf('turn/end').map(({ reason }) => reason.kind)).toEqual([
      'completed',
      'completed',
    ]);
  });

  it('wakes a loop that waits for parts, and the turn ends aborted after its prefix is kept', async () => {
    const { main, flag, stop } = fakeAgent({
      script: { claim: claims(enter(1)), openModel: () => begins('Half a sen') },
    });
    main.wake();
    await main.until(() => main.partsInFlight === 0 && main.count('openModel') === 1);
    flag.raise(1, 'user');
    main.send({ type: 'interrupt', turn: 1 });
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(2, 6)).toEqual([
      'openModel',
      'assistant/message',
      'step/end',
      'turn/end',
    ]);
    expect(main.eventsOf('assistant/message')[0]).toMatchObject({
      interrupted: true,
      parts: 3,
      message: { content: [{ type: 'text', text: 'Half a sen' }] },
    });
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });

  it('that was raised before the claim was answered opens no request', async () => {
    const { main, flag, stop } = fakeAgent({
      script: {
        claim() {
          if (main.count('turn/end') > 0) return { kind: 'idle' };
          flag.raise(1, 'user');
          return enter(1);
        },
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.trail.slice(1, 4)).toEqual(['claim(turn,false)', 'step/end', 'turn/end']);
  });

  it('that was raised while main closed the turn ends it aborted', async () => {
    const { main, flag, stop } = fakeAgent({
      script: {
        claim(boundary) {
          if (boundary === 'turn') return main.count('turn/end') > 0 ? { kind: 'idle' } : enter(1);
          flag.raise(1, 'user');
          return close(1);
        },
      },
    });
    main.wake();
    await main.untilSeen('turn/end');
    await stop();
    expect(main.eventsOf('turn/end')[0]?.reason).toEqual({ kind: 'aborted' });
  });
});

it('tells those who read the signal why the turn was cancelled', () => {
  const flag = new CancelFlag();
  const cancellations = new TurnCancellations(flag);
  const { signal } = cancellations.begin(1);
  flag.raise(1, 'limit');
  cancellations.interrupt(1);
  expect(signal.reason).toMatchObject({ name: 'AbortError', message: 'Cancelled: limit.' });
});
