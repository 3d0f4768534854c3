import { describe, expect, it, vi } from 'vitest';
import { ArgumentError, ProjectionError } from '../../protocol/errors.ts';
import type { Json } from '../../protocol/json.ts';
import { Scope } from '../../src/base/scope.ts';
import { MAX_ROW_BYTES } from '../../src/session/projections/fold.ts';
import type { ProjectionUnit } from '../../src/session/projections/projection.ts';
import type { ProjectionChange } from '../../src/session/projections/registry.ts';
import { keep, say, setup } from './watched-store.ts';
import { counter, projectionsOf, seqs } from './projection-parts.ts';

const told = counter('told', 'user/message');
/** What somebody else's code may do at any time. */
const fail = (): never => {
  throw new RangeError('A unit that is wrong.');
};

function registry() {
  const t = setup();
  return { ...t, projections: projectionsOf(t.sessions, t.logger), session: keep(t.sessions) };
}

it('refuses what is no live session, and names what to ask for it', async () => {
  const { projections, session, sessions } = registry();
  projections.register(told);
  const read = await sessions.inspect(session.id);
  for (const wrong of [session.id, read, { session }, undefined] as never[]) {
    for (const ask of [
      () => projections.snapshot(wrong),
      () => projections.stateOf(wrong, 'told'),
      () => projections.checkpoint(wrong),
    ]) {
      expect(ask).toThrow(ArgumentError);
      expect(ask).toThrow(/by an id, `read` is asked/);
    }
  }
});

it('reads no store that it does not have, and nothing that is no id', async () => {
  const { projections, session } = registry();
  await expect(projections.read(session.id)).rejects.toThrow(/read no store/);
  await expect(projections.read(session as never)).rejects.toThrow(ArgumentError);
  await expect(projections.read(session.id, {} as never)).rejects.toThrow(ArgumentError);
});

describe('registering a projection', () => {
  const unit = counter('one', 'user/message');
  const { init: _, ...headless } = unit;
  it.each<[string, unknown]>([
    ['that is none', null],
    ['without a key', { ...unit, key: '' }],
    ['whose key is no own key of an object', { ...unit, key: '__proto__' }],
    ['with a key that is too long', { ...unit, key: 'k'.repeat(201) }],
    ['of version 0', { ...unit, stateVersion: 0 }],
    ['of half a version', { ...unit, stateVersion: 1.5 }],
    ['that cannot begin', headless],
    ['that cannot go on', { ...unit, apply: 1 }],
    ['that knows no state of its own', { ...unit, isState: undefined }],
    ['with a wire that shows nothing', { ...unit, wire: {} }],
    ['whose views cannot be checked', { ...unit, wire: { view: () => 1, isView: 1 } }],
    ['whose module is no URL', { ...unit, module: 'file:///unit.js' }],
    ['that throws as it begins', { ...unit, init: fail }],
    ['that begins with what is no JSON', { ...unit, init: () => undefined }],
    ['that refuses its own beginning', { ...unit, isState: () => false }],
    ['that cannot be looked at', new Proxy(unit, { get: fail })],
  ])('refuses one %s, and registers nothing', (_, given) => {
    const { projections } = registry();
    expect(() => projections.register(given as ProjectionUnit)).toThrow(ArgumentError);
    expect(projections.units).toEqual([]);
  });

  it('takes a unit as it is written down: states of an interface, and numbers', () => {
    interface Tools {
      readonly [name: string]: number;
    }
    interface Used {
      readonly tools: Tools;
      readonly last?: string;
    }
    const { projections, session } = registry();
    projections.register({
      key: 'used',
      stateVersion: 1,
      init: (): Used => ({ tools: {} }),
      apply: (state, event) =>
        event.type === 'user/message' ? { ...state, last: event.data.id } : state,
      isState: (value): value is Used => typeof value === 'object' && value !== null,
      wire: { view: ({ last }) => last ?? null },
    });
    projections.register({
      key: 'count',
      stateVersion: 1,
      init: () => 1,
      apply: (count) => count + 1,
      isState: (value) => typeof value === 'number',
      wire: { view: (count) => count },
    });
    say(session);
    expect(projections.snapshot(session).values).toMatchObject({
      used: expect.any(String) as unknown,
      count: 2,
    });
  });

  it('counts those who register the same, and ends with the last of them', () => {
    const { projections, session } = registry();
    const [first, second] = [projections.register(told), projections.register({ ...told })];
    first();
    first();
    expect(projections.snapshot(session).values).toEqual({ told: 0 });
    second();
    expect(projections.snapshot(session).values).toEqual({});
    expect(() => projections.stateOf(session, 'told')).toThrow(ArgumentError);
  });

  it('refuses another version, until the first is gone', () => {
    const { projections, session } = registry();
    const undo = projections.register(told);
    const next = counter('told', 'user/message', 2);
    expect(() => projections.register(next)).toThrow(/version 2 .* version 1 is/);
    undo();
    projections.register(next);
    expect(projections.checkpoint(session).rows['told']?.ver).toBe(2);
  });

  it('ends with its owner', async () => {
    const { projections, session } = registry();
    const scope = new Scope();
    projections.register(told, { scope });
    await scope.dispose();
    expect(projections.snapshot(session).values).toEqual({});
    expect(() => projections.register(told, { scope })).toThrow(ArgumentError);
  });

  it('does not see what is done to the given object later', () => {
    const { projections, session } = registry();
    const unit = counter('told', 'user/message');
    projections.register(unit);
    say(session);
    Object.assign(unit, { apply: () => 1, key: 'other', wire: { view: () => 'other' } });
    expect(projections.snapshot(session).values).toEqual({ told: 1 });
  });
});

describe('a snapshot', () => {
  it('is one cut of all units that show something, at the last event', () => {
    const { projections, session } = registry();
    const { wire: _, ...hidden } = counter('hidden', 'user/message');
    for (const unit of [told, hidden]) projections.register(unit);
    expect(projections.snapshot(session)).toEqual({ asOfSeq: -1, values: { told: 0 } });
    say(session);
    say(session);
    expect(projections.snapshot(session)).toEqual({ asOfSeq: 1, values: { told: 2 } });
    expect(projections.stateOf(session, 'hidden')).toEqual({ count: 2 });
  });

  it('has a unit that came late, with all that was before it', () => {
    const { projections, session } = registry();
    say(session);
    projections.snapshot(session);
    projections.register(told);
    say(session);
    expect(projections.snapshot(session).values).toEqual({ told: 2 });
  });

  it('folds each event once, however often it is asked for', () => {
    const { projections, session } = registry();
    const apply = vi.fn<typeof told.apply>(told.apply);
    projections.register({ ...told, apply });
    for (let n = 0; n < 3; n++) {
      say(session);
      projections.snapshot(session);
      projections.checkpoint(session);
    }
    expect(apply).toHaveBeenCalledTimes(3);
  });

  it('does nothing for a session that nobody asks about', () => {
    const { projections, sessions, session } = registry();
    const apply = vi.fn<typeof told.apply>(told.apply);
    projections.register({ ...told, apply });
    const idle = keep(sessions, 'idle');
    say(idle);
    say(session);
    projections.snapshot(session);
    expect(apply).toHaveBeenCalledTimes(1);
  });

  it('lets nobody change what a projection goes on with', () => {
    const { projections, session } = registry();
    projections.register(seqs);
    say(session);
    const { values } = projections.snapshot(session);
    expect(() => ((values as Record<string, unknown>)['seqs'] = [])).toThrow(TypeError);
    expect(() => (values['seqs'] as number[]).push(9)).toThrow(TypeError);
    expect(() => (projections.stateOf(session, 'seqs') as number[]).push(9)).toThrow(TypeError);
    const { val } = projections.checkpoint(session).rows['seqs'] as { val: Json };
    expect(() => (val as number[]).push(9)).toThrow(TypeError);
    say(session);
    expect(projections.snapshot(session).values).toEqual({ seqs: [0, 1] });
  });

  it.each<[string, Partial<ProjectionUnit>]>([
    ['throws', { apply: fail }],
    ['has a state that is no JSON', { apply: () => (() => {}) as unknown as Json }],
    ['shows what is no JSON', { wire: { view: () => undefined as unknown as Json } }],
    ['throws as it shows', { wire: { view: fail } }],
    ['refuses its own view', { wire: { view: () => 1, isView: () => false } }],
  ])('fails as a whole when one unit %s, of this session alone', (_, broken) => {
    const { projections, sessions, session } = registry();
    const healthy = keep(sessions, 'healthy');
    projections.register(told);
    projections.register<Json, Json>({
      ...seqs,
      ...broken,
      key: 'broken',
      isState: (_value): _value is Json => true,
      ...(broken.apply && {
        apply: (state, event) =>
          (event.data as { content?: { text?: string }[] }).content?.[0]?.text === 'bad'
            ? broken.apply!(state, event)
            : state,
      }),
    });
    say(session, 'bad');
    say(session);
    const failure = () => projections.snapshot(session);
    expect(failure).toThrow(ProjectionError);
    expect(failure).toThrow(/"broken".*session `a`/);
    expect(projections.stateOf(session, 'told')).toEqual({ count: 2 });
    if (broken.apply === undefined) return;
    expect(projections.snapshot(healthy).values).toEqual({ told: 0, broken: [] });
    expect(Object.keys(projections.checkpoint(session).rows)).toEqual(['told']);
  });

  it('is whole again when the unit that failed is registered again and folds', () => {
    const { projections, session } = registry();
    let isBroken = true;
    const unit: ProjectionUnit<Json, Json> = {
      ...(seqs as unknown as ProjectionUnit),
      apply: (state, event) => (isBroken ? fail() : [...(state as Json[]), event.seq]),
    };
    const undo = projections.register(unit);
    say(session);
    expect(() => projections.snapshot(session)).toThrow(ProjectionError);
    isBroken = false;
    expect(() => projections.snapshot(session)).toThrow(ProjectionError);
    undo();
    projections.register(unit);
    expect(projections.snapshot(session).values).toEqual({ seqs: [0] });
  });
});

describe('a change of a projection', () => {
  it('is told with the event it comes with, and only when the state is another', () => {
    const { projections, sessions, session } = registry();
    const others = sessions.observers.listenerCount('session/event');
    projections.register(told);
    projections.register(counter('turns', 'turn/start'));
    say(session);
    const changes: ProjectionChange[] = [];
    const off = projections.onChanged((change) => changes.push(change));
    say(session);
    session.append('turn/start', { turn: 1 });
    session.append('step/start', { turn: 1, step: 1 });
    off();
    say(session);
    expect(changes).toEqual([
      { session, key: 'told', seq: 1, state: { count: 2 } },
      { session, key: 'turns', seq: 2, state: { count: 1 } },
    ]);
    expect(sessions.observers.listenerCount('session/event')).toBe(others);
  });

  it('is told as well when a listener of the event has asked before', () => {
    const { projections, sessions, session } = registry();
    projections.register(told);
    sessions.observers.on('session/event', () => void projections.snapshot(session));
    const changes: number[] = [];
    projections.onChanged(({ seq }) => changes.push(seq));
    say(session);
    say(session);
    expect(changes).toEqual([0, 1]);
  });

  it('reaches everyone who listens, whatever the others throw', () => {
    const { projections, session, logger } = registry();
    projections.register(told);
    const listener = vi.fn<() => void>();
    projections.onChanged(fail);
    projections.onChanged(listener);
    say(session);
    expect(listener).toHaveBeenCalledTimes(1);
    expect(logger.warn).toHaveBeenCalledTimes(1);
    expect(() => projections.onChanged(1 as never)).toThrow(ArgumentError);
  });

  it('is not told of a unit that fails, nor of a session that has left', async () => {
    const { projections, sessions, session } = registry();
    projections.register<Json, Json>({
      ...told,
      isState: () => true,
      apply: () => undefined as unknown as Json,
    } as unknown as ProjectionUnit);
    const listener = vi.fn<() => void>();
    projections.onChanged(listener);
    say(session);
    await sessions.leave(session);
    say(session);
    expect(listener).not.toHaveBeenCalled();
  });
});

describe('a checkpoint', () => {
  it('keeps every state as of its event, hidden ones too', () => {
    const { projections, session } = registry();
    const { wire: _, ...hidden } = counter('hidden', 'user/message', 3);
    projections.register(told);
    projections.register(hidden);
    expect(projections.checkpoint(session).seq).toBe(-1);
    say(session);
    const one = { count: 1 };
    expect(projections.checkpoint(session)).toEqual({
      seq: 0,
      rows: { told: { ver: 1, val: one }, hidden: { ver: 3, val: one } },
    });
  });

  it('leaves a state out that is larger than 64 KiB', () => {
    const { projections, session } = registry();
    const text = (size: number): ProjectionUnit<string, string> => ({
      key: `text${size}`,
      stateVersion: 1,
      init: () => 'x'.repeat(size - 2),
      apply: (state) => state,
      isState: (value: Json): value is string => typeof value === 'string',
    });
    projections.register(text(MAX_ROW_BYTES));
    projections.register(text(MAX_ROW_BYTES + 1));
    expect(Object.keys(projections.checkpoint(session).rows)).toEqual([`text${MAX_ROW_BYTES}`]);
  });

  it('shows only what is of the registered version and a state of it', () => {
    const { projections } = registry();
    for (const key of ['good', 'old', 'damaged', 'missing', 'shy', '__proto__x']) {
      projections.register(counter(key, 'user/message', 2));
    }
    projections.register({ ...counter('blind', 'user/message'), wire: { view: () => null! } });
    projections.register({
      ...counter('angry', 'user/message'),
      isState: (value: Json): value is { count: number } => (value as { count: 0 }).count < 1,
      wire: { view: fail },
    });
    const row = (ver: number, count: Json) => ({ ver, val: { count } });
    const rows = {
      good: row(2, 4),
      old: row(1, 4),
      damaged: row(2, 'four'),
      strange: row(1, 1),
      blind: row(1, 1),
      angry: row(1, 0),
    };
    expect(projections.viewCheckpoint({ seq: 7, rows })).toEqual({
      asOfSeq: 7,
      values: { good: 4, blind: null },
    });
  });
});
