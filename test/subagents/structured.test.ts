import { describe, expect, it } from 'vitest';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import { childOf, registries, schema, textOf } from './structured-child.ts';

describe('structured output', () => {
  it('captures the value of a call that succeeds, and concludes the turn', async () => {
    const t = childOf(registries());
    const reply = await t.call('structured_output', { count: 3 });
    expect(reply).toEqual({ done: true, concludesTurn: true });
    expect(textOf(t.results[0])).toBe('{"recorded":true}');
    expect(t.capture.captured).toEqual({ value: { count: 3 } });
  });

  it('shows the schema of the caller as the parameters of the tool', () => {
    const t = childOf(registries());
    const shown = t.child.tools.view().find(({ name }) => name === 'structured_output');
    expect(shown?.parameters).toEqual(schema);
  });

  it('denies every call after the capture, also one made in the same response', async () => {
    const t = childOf(registries());
    const calls = [
      t.call('structured_output', { count: 1 }),
      t.call('look', { at: 1 }),
      t.call('structured_output', { count: 2 }),
    ];
    await Promise.all(calls);
    expect(t.results.map(({ isError }) => isError)).toEqual([false, true, true]);
    expect(textOf(t.results[1])).toMatch(/already handed in/);
    expect(t.ran).toEqual([]);
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it('cannot be talked out of its denial by a later guard', async () => {
    const t = childOf(registries());
    t.child.tools.guard(() => undefined);
    await t.call('structured_output', { count: 1 });
    await t.call('look', {});
    expect(t.ran).toEqual([]);
  });

  it('leaves a call before the capture alone', async () => {
    const t = childOf(registries());
    await Promise.all([t.call('look', { at: 1 }), t.call('structured_output', { count: 1 })]);
    expect(t.ran).toEqual([{ at: 1 }]);
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it.each([{ count: 'three' }, {}, { count: 1, more: true }, '{', '"text"'])(
    'takes a valid value after the invalid %j',
    async (invalid) => {
      const t = childOf(registries());
      const reply = await t.call('structured_output', invalid);
      expect(reply).toEqual({ done: true, concludesTurn: false });
      expect(t.results[0]?.error?.code).toBe('INVALID_ARGS');
      expect(t.capture.captured).toBeUndefined();
      await t.call('structured_output', { count: 2 });
      expect(t.capture.captured).toEqual({ value: { count: 2 } });
    },
  );

  it('keeps children apart that run at the same time with schemas of their own', async () => {
    const shared = registries();
    const other: ObjectJsonSchema = { type: 'object', properties: { name: { type: 'string' } } };
    const [first, second] = [childOf(shared), childOf(shared, other)];
    await Promise.all([
      first.call('structured_output', { count: 1 }),
      second.call('structured_output', { name: 'two' }),
    ]);
    expect(first.capture.captured).toEqual({ value: { count: 1 } });
    expect(second.capture.captured).toEqual({ value: { name: 'two' } });
    expect(second.child.tools.find('structured_output')?.spec.parameters).toEqual(other);
  });

  it('is unknown to every other agent', () => {
    const shared = registries();
    childOf(shared);
    expect(shared.tools.scope().find('structured_output')).toBeUndefined();
  });

  it('adds its instruction behind the prompt of the harness, for that child only', async () => {
    const shared = registries();
    shared.prompt.section({ name: 'last', order: 200, text: 'Last.' });
    shared.prompt.section({ name: 'base', order: 0, text: 'Base.' });
    const prompt = await childOf(shared).assemble();
    expect(prompt?.split('\n\n')).toEqual([
      'Base.',
      expect.stringContaining('`structured_output`'),
      'Last.',
    ]);
    const other = shared.prompt.scope();
    const signal = new AbortController().signal;
    const theirs = await other.assemble({ agent: undefined, signal });
    expect(theirs.system()).toBe('Base.\n\nLast.');
  });

  it('stays usable behind a filter that hides all inherited tools', () => {
    const t = childOf(registries());
    t.child.tools.restrict({ allow: [] });
    expect(t.child.tools.find('structured_output')).toBeDefined();
  });

  it('is gone with its child', async () => {
    const t = childOf(registries());
    await t.dispose();
    expect(t.child.tools.find('structured_output')).toBeUndefined();
    expect(await t.assemble()).toBeUndefined();
  });

  it('gives out a value that shares nothing with the call', async () => {
    const t = childOf(registries());
    await t.call('structured_output', { count: 1 });
    expect(Object.isFrozen(t.capture.captured?.value)).toBe(true);
  });
});
