import { describe, expect, it } from 'vitest';
import { gate } from '../support/gate.ts';
import { settled } from '../support/until.ts';

import { childOf, registries, schema, textOf } from './structured-child.ts';

const POST = 'tool/post-execute';
const block = () => ({ kind: 'block', reason: 'No.' }) as const;
const handIn = (t: ReturnType<typeof childOf>, count: unknown = 1, id?: string) =>
  t.call('structured_output', { count } as never, id);

describe('a structured result that hooks decide about', () => {
  it('is not captured when its call is blocked after its body has run', async () => {
    const t = childOf(registries());
    const withdraw = t.hooks.on(POST, block);
    expect(await handIn(t)).toEqual({ done: true, concludesTurn: false });
    expect(t.capture.captured).toBeUndefined();
    withdraw();
    await t.call('look', {});
    expect(t.ran).toHaveLength(1);
    await handIn(t, 2);
    expect(t.capture.captured).toEqual({ value: { count: 2 } });
  });

  it('is not captured when a wrapper blocks it that came last and is outermost', async () => {
    const t = childOf(registries());
    t.hooks.on(POST, () => ({ kind: 'accept' }));
    await settled();
    const late = async (_: unknown, next: () => Promise<unknown>) => {
      expect(await next()).toEqual({ kind: 'accept' });
      return block();
    };
    t.hooks.on(POST, late, { prepend: true });
    await handIn(t);
    expect([t.capture.captured, t.results[0]?.isError]).toEqual([undefined, true]);
  });

  it('is the original value when the model is shown something else', async () => {
    const t = childOf(registries());
    t.hooks.on(POST, () => ({ kind: 'accept', content: [{ type: 'text', text: 'Thanks.' }] }));
    expect(await handIn(t)).toEqual({ done: true, concludesTurn: true });
    expect(textOf(t.results[0])).toBe('Thanks.');
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it('is not captured when a hook makes its result unusable, or throws', async () => {
    const t = childOf(registries());
    let asked = 0;
    t.hooks.on(POST, () => {
      if (asked++ > 0) throw new Error('Broken.');
      return { kind: 'accept', content: 'text' as never };
    });
    await handIn(t);
    await handIn(t);
    expect(t.results.map(({ isError }) => isError)).toEqual([true, true]);
    expect(t.capture.captured).toBeUndefined();
  });

  it('is captured with the very event that says so, not before', async () => {
    const t = childOf(registries());
    const open = gate();
    const seen: unknown[] = [];
    t.hooks.on(POST, async () => {
      seen.push(t.capture.captured);
      await open.wait();
      return undefined;
    });
    t.log.onAppend(({ type }) => {
      if (type === 'tool/result') seen.push(t.capture.captured);
    });
    const asked = handIn(t);
    await settled();
    expect(t.capture.captured).toBeUndefined();
    open.open();
    await asked;
    expect([seen, t.capture.captured]).toEqual([[undefined, undefined], { value: { count: 1 } }]);
  });

  it('is never promoted by a later call of the same id', async () => {
    const t = childOf(registries());
    const withdraw = t.hooks.on(POST, block);
    await handIn(t, 1, 'same');
    withdraw();
    await handIn(t, 'invalid', 'same');
    expect(t.capture.captured).toBeUndefined();
    await handIn(t, 3, 'same');
    expect(t.capture.captured).toEqual({ value: { count: 3 } });
    expect(t.results.map(({ isError, error }) => error?.code ?? isError)).toEqual([
      true,
      'INVALID_ARGS',
      false,
    ]);
  });

  it('is never promoted by the success of another call of the same id', async () => {
    const t = childOf(registries());
    const open = gate();
    t.hooks.on(POST, () => open.wait().then(() => undefined));
    const lost = handIn(t, 1, 'same').catch(() => {});
    await settled();
    // Its thread is gone with the value staged; the next one asks for another tool by that id.
    t.desk.abandon();
    open.open();
    await lost;
    t.log.append('tool/result', {
      turn: 1,
      step: 1,
      message: {
        id: 'closed' as never,
        role: 'user',
        source: { kind: 'tool', callId: 'same' as never },
        content: [{ type: 'tool-result', toolCallId: 'same' as never, content: [], isError: true }],
      },
    });
    await t.call('look', {}, 'same');
    expect(t.ran).toHaveLength(1);
    expect(t.capture.captured).toBeUndefined();
  });

  it('is decided by its own execution, not by a call that another desk ends meanwhile', async () => {
    const t = childOf(registries());
    const open = gate();
    t.hooks.on(POST, ({ name }) =>
      name === 'structured_output' ? open.wait().then(() => undefined) : undefined,
    );
    const asked = handIn(t);
    await settled();
    await t.call('look', {}, 'other', { desk: t.newDesk() });
    expect([t.results[0]?.isError, t.capture.captured]).toEqual([true, undefined]);
    open.open();
    await asked;
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it('lets no other call run while hooks decide about it', async () => {
    const t = childOf(registries());
    const open = gate();
    const denials: unknown[] = [];
    t.hooks.on(POST, () => {
      // As a call would be asked about that is not of this desk's order.
      denials.push(t.child.tools.denial({ name: 'look', callId: 'x' as never, args: {} }));
      return open.wait().then(() => undefined);
    });
    const all = [handIn(t), t.call('look', {}), handIn(t, 2)];
    await settled();
    expect(denials).toEqual([expect.stringMatching(/already handed in/)]);
    expect(t.results).toEqual([]);
    open.open();
    await Promise.all(all);
    expect(t.results.map(({ isError }) => isError)).toEqual([false, true, true]);
    expect([t.ran, t.capture.captured]).toEqual([[], { value: { count: 1 } }]);
  });

  it('keeps its denial of later calls whatever a hook allows', async () => {
    const t = childOf(registries());
    await handIn(t);
    const asked: string[] = [];
    t.hooks.on(
      'tool/pre-execute',
      ({ name }) => {
        asked.push(name);
        return { kind: 'allow' };
      },
      { prepend: true },
    );
    await t.call('look', {});
    await handIn(t, 2);
    expect(asked).toEqual(['look', 'structured_output']);
    expect([t.ran, t.capture.captured]).toEqual([[], { value: { count: 1 } }]);
    expect(textOf(t.results[1])).toMatch(/already handed in/);
  });

  it('is not captured when the turn is cancelled while hooks decide', async () => {
    const t = childOf(registries());
    const open = gate();
    t.hooks.on(POST, () => open.wait().then(() => undefined));
    const asked = handIn(t);
    await settled();
    t.turn.abort();
    expect(await asked).toEqual({ done: true, concludesTurn: false });
    open.open();
    await settled();
    expect([t.results[0]?.error?.code, t.capture.captured]).toEqual(['ABORTED', undefined]);
  });

  it('is captured or cancelled, in whichever microtask the turn ends', async () => {
    const outcomes = new Set<string>();
    for (let ticks = 0; ticks < 40; ticks++) {
      const t = childOf(registries());
      if (ticks % 2 === 0) t.hooks.on(POST, () => ({ kind: 'accept' }));
      const asked = handIn(t);
      for (let tick = 0; tick < ticks; tick++) await undefined;
      t.turn.abort();
      await asked;
      const outcome = t.results[0]?.error?.code ?? 'success';
      outcomes.add(outcome);
      expect([outcome, t.capture.captured !== undefined]).toEqual([outcome, outcome === 'success']);
    }
    expect([...outcomes]).toEqual(['ABORTED_BEFORE_DISPATCH', 'ABORTED', 'success']);
  });

  it('is not captured when it cannot be logged, and may then be handed in again', async () => {
    const t = childOf(registries());
    const withdraw = t.hooks.on(POST, () => {
      t.log.append('step/end', { turn: 1, step: 1 });
      return undefined;
    });
    await expect(handIn(t)).rejects.toThrow();
    expect(t.capture.captured).toBeUndefined();
    withdraw();
    t.log.append('step/start', { turn: 1, step: 2 });
    await t.call('structured_output', { count: 2 }, 'next', { step: 2 });
    expect(t.capture.captured).toEqual({ value: { count: 2 } });
  });
});

describe('the value of a structured result', () => {
  const taken = async (outputSchema: object, text: string) => {
    const t = childOf(registries(), { ...schema, ...outputSchema } as typeof schema);
    await t.call('structured_output', text);
    return t.capture.captured?.value ?? t.results[0]?.error?.code;
  };
  const open = { properties: {}, required: [], additionalProperties: true };
  const of = (x: object, more: object = {}) => ({ properties: { x }, required: [], ...more });

  it.each<[string, object, string, unknown]>([
    [
      'takes a value of exactly one branch',
      of({ oneOf: [{ type: 'string' }, { type: 'null' }] }),
      '{"x":null}',
      { x: null },
    ],
    [
      'refuses a value of two branches',
      of({ oneOf: [{ type: 'integer' }, { type: 'number' }] }),
      '{"x":1}',
      'INVALID_ARGS',
    ],
    ['takes a negative zero for 0', of({ type: 'integer', enum: [0] }), '{"x":-0}', { x: 0 }],
    [
      'takes the last of two values of one key',
      of({ type: 'integer' }),
      '{"x":"a","x":2}',
      { x: 2 },
    ],
    [
      'checks the last of two values of one key',
      of({ type: 'integer' }),
      '{"x":2,"x":"a"}',
      'INVALID_ARGS',
    ],
    ['refuses an undeclared key', of({}), '{"y":1}', 'INVALID_ARGS'],
    ['keeps an undeclared key where the schema is open', open, '{"y":[{}]}', { y: [{}] }],
    ['applies no default', of({ type: 'integer', default: 7 }), '{}', {}],
    [
      'asks for what is required whatever its default',
      of({ default: 7 }, { required: ['x'] }),
      '{}',
      'INVALID_ARGS',
    ],
    ['refuses a number that is none', open, '{"y":1e999}', 'INVALID_ARGS'],
    ['refuses what is no object', open, '[]', 'INVALID_ARGS'],
  ])('%s', async (_, outputSchema, text, value) => {
    expect(await taken(outputSchema, text)).toEqual(value);
  });

  it('is plain data under names that every object has', async () => {
    const properties = JSON.parse('{"__proto__": {"type": "integer"}}') as object;
    const named = { properties, required: ['__proto__'] };
    expect(await taken(named, '{"__proto__": "text"}')).toBe('INVALID_ARGS');
    expect(await taken(named, '{}')).toBe('INVALID_ARGS');
    expect(Object.entries((await taken(named, '{"__proto__": 1}')) as object)).toEqual([
      ['__proto__', 1],
    ]);
  });

  it('is checked as deep as its schema goes', async () => {
    let x: object = { type: 'string' };
    for (let depth = 0; depth < 500; depth++) x = { type: 'array', items: x };
    expect(await taken(of(x), '{"x":[[]]}')).toEqual({ x: [[]] });
    expect(await taken(of(x), '{"x":[["text"]]}')).toBe('INVALID_ARGS');
  });
});
