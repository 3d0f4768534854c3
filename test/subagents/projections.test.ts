import { describe, expect, it } from 'vitest';
import type { SessionEvent, SessionEventType } from '../../protocol/session-events.ts';
import { subagentIdentity } from '../../src/subagents/identity-projection.ts';
import { subagentTiming } from '../../src/subagents/timing-projection.ts';

const descriptor = { version: 1, mode: 'continuable', provider: 'spawn', label: 'reader' };

/** Each event a time, a type and perhaps data. */
const log = (...parts: readonly [number, SessionEventType, object?][]): readonly SessionEvent[] =>
  parts.map(([time, type, data = {}], seq) => ({ type, seq, time, data }) as SessionEvent);

const identityOf = (events: readonly SessionEvent[]) =>
  events.reduce(subagentIdentity.apply, subagentIdentity.init());
const timingOf = (events: readonly SessionEvent[]) => {
  const state = events.reduce(subagentTiming.apply, subagentTiming.init());
  expect(subagentTiming.isState(state as never)).toBe(true);
  return subagentTiming.wire?.view(state);
};

describe('the identity of a child', () => {
  it('is null until there is a descriptor, and then the last one', () => {
    expect(identityOf([])).toBeNull();
    const oneShot = { version: 1, mode: 'one-shot', provider: 'spawn' };
    const events = log([0, 'subagent/descriptor', descriptor], [1, 'subagent/descriptor', oneShot]);
    expect(identityOf(events.slice(0, 1))).toEqual({
      mode: 'continuable',
      label: 'reader',
      seq: 0,
    });
    expect(identityOf(events)).toEqual({ mode: 'one-shot', seq: 1 });
  });

  it.each([
    ['another version', { ...descriptor, version: 2 }],
    ['damaged', { ...descriptor, label: 1 }],
    ['nothing', null as unknown as object],
  ])('is null again after a descriptor that is %s', (_, data) => {
    const events = log([0, 'subagent/descriptor', descriptor], [1, 'subagent/descriptor', data]);
    expect(identityOf(events)).toBeNull();
  });

  it('is the same object after an event that does not concern it', () => {
    const [first, next] = log([0, 'subagent/descriptor', descriptor], [1, 'turn/start']);
    const state = subagentIdentity.apply(null, first!);
    expect(subagentIdentity.apply(state, next!)).toBe(state);
  });

  it('is known from anything else', () => {
    const { isState } = subagentIdentity;
    expect([null, { mode: 'one-shot', seq: 0 }].every(isState)).toBe(true);
    const others = [1, {}, { mode: 'continuable', seq: 0 }, { mode: 'one-shot', seq: -1 }];
    expect(others.some(isState)).toBe(false);
  });
});

describe('the time of a child', () => {
  it('is that of its own turns, from the descriptor on', () => {
    const events = log(
      [0, 'turn/start'],
      [50, 'turn/end'],
      [60, 'subagent/descriptor', descriptor],
      [100, 'turn/start'],
      [130, 'turn/end'],
      [200, 'turn/start'],
      [204, 'step/start'],
      [205, 'turn/end'],
    );
    expect(timingOf(events.slice(0, 2))).toEqual({ settledMs: 0 });
    expect(timingOf(events.slice(0, 5))).toEqual({ settledMs: 30 });
    expect(timingOf(events.slice(0, 7))).toEqual({
      settledMs: 30,
      active: { since: 200, through: 204 },
    });
    expect(timingOf(events)).toEqual({ settledMs: 35 });
  });

  it('counts a turn from its start that was open at the descriptor', () => {
    const events = log(
      [10, 'turn/start'],
      [15, 'subagent/descriptor', descriptor],
      [18, 'turn/end'],
    );
    expect(timingOf(events.slice(0, 1))).toEqual({ settledMs: 0 });
    expect(timingOf(events.slice(0, 2))).toEqual({
      settledMs: 0,
      active: { since: 10, through: 15 },
    });
    expect(timingOf(events)).toEqual({ settledMs: 8 });
  });

  it('is never negative, whatever the clock did', () => {
    const start = log([0, 'subagent/descriptor', descriptor], [9, 'turn/start'], [4, 'turn/end']);
    expect(timingOf(start)).toEqual({ settledMs: 0 });
  });
});
