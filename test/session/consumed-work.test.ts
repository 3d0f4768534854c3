import { describe, expect, it } from 'vitest';
import type { SessionEventMap, TurnEndReason } from '../../protocol/session-events.ts';
import type { Session } from '../../src/session/session.ts';
import { foldConsumedWork, oneShotStopReason } from '../../src/session/consumed-work.ts';
import { aSession, userMessage } from './log-parts.ts';

type Splice = SessionEventMap['agent/inbox/spliced'];
const splice = (session: Session, more: Partial<Splice>) =>
  session.append('agent/inbox/spliced', { target: 'next-turn', start: 0, inserted: [], ...more });
const claim = { removedCount: 1 };
const drop = { removedCount: 1, outcome: 'canceled' } as const;

/** One turn that claims and enters a step as told. */
function turn(
  session: Session,
  reason: TurnEndReason,
  { claims = true, enters = true, during = () => {} } = {},
): void {
  const number = session.lastTurn + 1;
  session.append('turn/start', { turn: number });
  if (claims) splice(session, claim);
  if (enters) {
    session.append('step/start', { turn: number, step: 1 });
    session.append('step/end', { turn: number, step: 1 });
  }
  during();
  session.append('turn/end', { turn: number, reason });
}

const completed: TurnEndReason = { kind: 'completed' };
const blocked: TurnEndReason = { kind: 'blocked' };
const aborted: TurnEndReason = { kind: 'aborted', reason: { kind: 'user' } };

describe('the turn that consumed the work', () => {
  const endOf = (session: Session) => foldConsumedWork(session.events).end?.data.turn;

  it('is none in a log without turns', () => {
    expect(foldConsumedWork(aSession().events)).toEqual({ droppedUnrun: false });
  });

  it('is the last one that entered a step', () => {
    const session = aSession();
    turn(session, completed);
    turn(session, completed);
    expect(endOf(session)).toBe(2);
  });

  it('is not one that found nothing, or claimed something and completed without a step', () => {
    const session = aSession();
    turn(session, completed);
    turn(session, completed, { enters: false });
    turn(session, aborted, { claims: false, enters: false });
    expect(endOf(session)).toBe(1);
  });

  it('is one that claimed and did not complete, though it entered no step', () => {
    const session = aSession();
    turn(session, completed);
    turn(session, blocked, { enters: false });
    expect(endOf(session)).toBe(2);
  });

  it('did not claim what was cancelled while it was open', () => {
    const session = aSession();
    const during = () => void splice(session, drop);
    turn(session, aborted, { claims: false, enters: false, during });
    expect(foldConsumedWork(session.events)).toEqual({ droppedUnrun: true });
  });
});

describe('work that was dropped unrun', () => {
  const dropped = (session: Session) => foldConsumedWork(session.events).droppedUnrun;

  it('is what was cancelled after the turn', () => {
    const session = aSession();
    turn(session, completed);
    expect(dropped(session)).toBe(false);
    splice(session, drop);
    expect(dropped(session)).toBe(true);
    turn(session, completed);
    expect(dropped(session)).toBe(false);
  });

  it('is not what was replaced, added, or cancelled within the turn', () => {
    const session = aSession();
    turn(session, aborted, { during: () => void splice(session, drop) });
    splice(session, { inserted: [userMessage('new')] });
    splice(session, { ...drop, inserted: [userMessage('edited')] });
    expect(dropped(session)).toBe(false);
  });
});

describe('the stop reason of a one-shot run', () => {
  it.each<[TurnEndReason, string]>([
    [completed, 'completed'],
    [{ kind: 'max-tokens' }, 'max-tokens'],
    [aborted, 'aborted'],
    [blocked, 'refusal'],
    [{ kind: 'error', error: { code: 'SERVER', message: 'no' } }, 'error'],
    [{ kind: 'interrupted' }, 'error'],
    [{ kind: 'of a later version' } as never, 'error'],
  ])('of %j is %s', (reason, expected) => {
    const session = aSession();
    turn(session, reason);
    expect(oneShotStopReason(session.events)).toBe(expected);
  });

  it('is an error when it consumed nothing', () => {
    expect(oneShotStopReason([])).toBe('error');
  });
});
