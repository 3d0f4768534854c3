import { describe, expect, it } from 'vitest';
import { CallId } from '../../protocol/ids.ts';
import {
  anyObject,
  deskFixture,
  heldTool,
  note,
  overlapping,
  settled,
  tool,
} from './desk-fixture.ts';

const module = { name: 'inside', description: '', parameters: anyObject };

describe('bodies of modules', () => {
  const ok = { ok: true, value: 1, content: [{ type: 'text', text: 'one' }] } as const;

  it('sends a call back to be run in the thread when its turn has come', async () => {
    const held = heldTool('held');
    const t = deskFixture([held], { modules: [module] });
    const first = t.call('held');
    const asked = t.call('inside', { a: 1 });
    await settled();
    expect(t.events).toEqual(['call held']);
    held.gate.open();
    await first;
    expect(await asked).toEqual({ done: false, runHere: true, args: { a: 1 } });
    expect(t.events).toEqual(['call held', 'result held', 'call inside']);
    const end = await t.desk.finish(CallId('inside'), {
      ...ok,
      contexts: [note],
      concludesTurn: true,
    });
    expect(end).toEqual({ done: true, concludesTurn: true });
    // The thread speaks for its tool, whoever it says it is.
    const shown = { ...note, source: { kind: 'plugin', plugin: 'inside' } };
    expect(t.results.get('inside')).toMatchObject({ value: 1, contexts: [shown], isError: false });
  });

  it('holds later calls back until a body in the thread is finished', async () => {
    const t = deskFixture([tool('next')], { modules: [module] });
    await t.call('inside');
    const next = t.call('next');
    await settled();
    expect(t.events).toEqual(['call inside']);
    await t.desk.finish(CallId('inside'), ok);
    await next;
    expect(t.events.slice(1)).toEqual(['result inside', 'call next', 'result next']);
  });

  it('runs module calls one by one when their thread does not call them safe', async () => {
    const t = deskFixture([], { modules: [module] });
    await t.call('inside', {}, 'a');
    const second = t.call('inside', {}, 'b');
    expect(t.events).toEqual(['call a']);
    await t.desk.finish(CallId('a'), ok);
    expect(await second).toMatchObject({ runHere: true });
    expect(t.events).toEqual(['call a', 'result a', 'call b']);
  });

  it('overlaps module calls that their thread calls safe', async () => {
    const t = deskFixture([], { modules: [module] });
    const ask = (id: string): Promise<unknown> =>
      t.desk.call(
        {
          turn: 1,
          step: 1,
          callId: CallId(id),
          name: 'inside',
          arguments: '',
          concurrencySafe: true,
        },
        t.turn.signal,
      );
    await Promise.all([ask('a'), ask('b')]);
    await t.desk.finish(CallId('b'), ok);
    expect(t.events).toEqual(['call a', 'call b']);
    await t.desk.finish(CallId('a'), ok);
    expect(t.events.slice(2)).toEqual(['result a', 'result b']);
  });

  it('keeps the error of a body in the thread', async () => {
    const t = deskFixture([], { modules: [module] });
    await t.call('inside');
    const error = { name: 'TypeError', code: 'UNKNOWN', message: 'not a list' };
    await t.desk.finish(CallId('inside'), { ok: false, error });
    expect(t.text('inside')).toBe('Error: not a list');
    expect(t.results.get('inside')).not.toHaveProperty('error');
  });

  it('replaces only a success when the turn has ended meanwhile', async () => {
    const t = deskFixture([], { modules: [module] });
    await t.call('inside', {}, 'a');
    t.turn.abort();
    await t.desk.finish(CallId('a'), ok);
    expect(t.events).toEqual(['call a', 'result a ABORTED']);
    const other = deskFixture([], { modules: [module] });
    await other.call('inside', {}, 'b');
    other.turn.abort();
    const error = { name: 'Error', code: 'EPIPE', message: 'half done' };
    await other.desk.finish(CallId('b'), { ok: false, error });
    expect(other.events).toEqual(['call b', 'result b EPIPE']);
  });

  it('does not look at a value that nobody asks for', async () => {
    const t = deskFixture([], { modules: [module] });
    await t.call('inside');
    const looked = () => {
      throw new Error('Somebody looked.');
    };
    const value = new Proxy({}, { ownKeys: looked, get: looked, getPrototypeOf: looked });
    await t.desk.finish(CallId('inside'), { ...ok, value });
    expect(t.events).toEqual(['call inside', 'result inside']);
  });

  it('refuses to finish a call that is not out in the thread', async () => {
    const held = heldTool('held');
    const t = deskFixture([held], { modules: [module] });
    const asked = t.call('held');
    const refused = { code: 'PROTOCOL_VIOLATION' };
    await expect(t.desk.finish(CallId('nobody'), ok)).rejects.toMatchObject(refused);
    await expect(t.desk.finish(CallId('held'), ok)).rejects.toMatchObject(refused);
    held.gate.open();
    await asked;
    await t.call('inside');
    await t.desk.finish(CallId('inside'), ok);
    await expect(t.desk.finish(CallId('inside'), ok)).rejects.toMatchObject(refused);
  });

  it('refuses to finish a call twice while its result waits for an earlier one', async () => {
    const held = heldTool('held', overlapping);
    const t = deskFixture([held], { modules: [module] });
    const asked = t.call('held');
    await t.desk.call(
      {
        turn: 1,
        step: 1,
        callId: CallId('b'),
        name: 'inside',
        arguments: '',
        concurrencySafe: true,
      },
      t.turn.signal,
    );
    await t.desk.finish(CallId('b'), ok);
    await expect(t.desk.finish(CallId('b'), ok)).rejects.toMatchObject({
      code: 'PROTOCOL_VIOLATION',
    });
    held.gate.open();
    await asked;
    expect(t.events.filter((event) => event === 'result b')).toHaveLength(1);
  });

  it('checks arguments against what the thread claimed of its tool', async () => {
    const claimed = {
      ...module,
      parameters: {
        type: 'object',
        properties: { path: { type: 'string' }, mode: { type: 'string', pattern: '^(a+)+$' } },
        required: ['path'],
      },
    };
    const t = deskFixture([], { modules: [claimed] });
    await t.call('inside', { mode: 3 }, 'bad');
    expect(t.text('bad')).toContain('"path" is missing');
    expect(await t.call('inside', { path: 'x', mode: `${'a'.repeat(64)}!` }, 'good')).toMatchObject(
      {
        runHere: true,
      },
    );
  });
});
