import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { aSession, appendTurn, inStep, typesOf, userMessage } from './log-parts.ts';

describe('the finished turns of a log', () => {
  it('are none before the first turn has ended', () => {
    const session = inStep();
    session.append('user/message', userMessage('go'));
    expect(session.completedTurns()).toBeUndefined();
    expect(aSession().completedTurns()).toBeUndefined();
  });

  it('end with the last end of a turn, whatever came after it', () => {
    const session = aSession();
    appendTurn(session, 'one');
    appendTurn(session, 'two');
    const upTo = session.seq;
    session.append('session/end-seed', {});
    session.append('turn/start', { turn: 3 });
    session.append('step/start', { turn: 3, step: 1 });
    const turns = session.completedTurns()!;
    expect(turns).toHaveLength(upTo);
    expect(turns.every((event, index) => event === session.events[index])).toBe(true);
    expect(turns.at(-1)!.type).toBe('turn/end');
  });

  it('are one frozen array until the next turn has ended', () => {
    const session = aSession();
    appendTurn(session, 'one');
    const held = session.completedTurns()!;
    session.append('user/message', userMessage('more'));
    expect(session.completedTurns()).toBe(held);
    expect(Object.isFrozen(held)).toBe(true);
    appendTurn(session, 'two');
    expect(held).toHaveLength(6);
    expect(session.completedTurns()!.length).toBeGreaterThan(held.length);
  });

  it('are told to who listens to the end of the turn itself', () => {
    const session = aSession();
    const seen: unknown[] = [];
    session.onAppend(({ type }) => {
      if (type === 'turn/end') seen.push(session.completedTurns()?.length);
    });
    appendTurn(session, 'one');
    expect(seen).toEqual([6]);
  });

  it('are shared with the session that begins with them, which goes on from there', () => {
    const parent = aSession();
    appendTurn(parent, 'one');
    const turns = parent.completedTurns()!;
    const child = aSession(turns);
    expect(child.events.every((event, index) => event === turns[index])).toBe(true);
    expect(child.firstLiveSeq).toBe(turns.length);
    expect(child.completedTurns()).toEqual(turns);
    appendTurn(child, 'two');
    appendTurn(parent, 'three');
    expect(turns).toHaveLength(6);
    expect(child.lastTurn).toBe(2);
    expect(child.deriveMessages()).toHaveLength(4);
    expect(parent.events.at(-1)).not.toBe(child.events.at(-1));
  });

  it('give the very session that a checked copy of them gives', () => {
    const parent = aSession();
    appendTurn(parent, 'one');
    const config = { provider: 'p', model: 'm' };
    parent.append('turn/start', { turn: 2 });
    parent.append('request/header', { header: { config }, reason: 'initial' });
    parent.append('turn/end', { turn: 2, reason: { kind: 'completed' } });
    const [shared, copied] = [
      aSession(parent.completedTurns()!),
      aSession([...parent.completedTurns()!]),
    ];
    expect(shared.events).toEqual(copied.events);
    expect(shared.events[0]).not.toBe(copied.events[0]);
    expect(shared.lastHeader()).toEqual(copied.lastHeader());
    expect(shared.lastTurn).toBe(copied.lastTurn);
    expect(shared.open).toEqual(copied.open);
    expect(shared.deriveMessages()).toEqual(copied.deriveMessages());
  });

  it('are what is believed, and not what only looks like them', () => {
    const parent = aSession();
    appendTurn(parent, 'one');
    const forged = Object.freeze(
      parent.completedTurns()!.map((event) => ({ ...event, forged: true })),
    ) as readonly SessionEvent[];
    expect(() => aSession(forged)).toThrow(ArgumentError);
    expect(typesOf(aSession(parent.completedTurns()).events)).toHaveLength(6);
  });
});
