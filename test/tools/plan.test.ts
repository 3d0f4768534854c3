import { describe, expect, it } from 'vitest';
import { deskFixture, heldTool, overlapping, tool } from './desk-fixture.ts';

describe('calls that cannot be carried out', () => {
  const search = tool('search', {
    parameters: {
      type: 'object',
      properties: { query: { type: 'string' }, limit: { type: 'integer' } },
      required: ['query'],
      additionalProperties: false,
    },
  });

  it('names the tools there are to a model that called another', async () => {
    const t = deskFixture([search, tool('read')]);
    await t.call('grep');
    expect(t.events).toEqual(['call grep', 'result grep UNKNOWN_TOOL']);
    expect(t.text('grep')).toBe(
      'Error: There is no tool named `grep`. The tools are: read, search.',
    );
  });

  it('does not tell a filtered tool from a missing one', async () => {
    const t = deskFixture([search, tool('read')]);
    t.scope.restrict({ deny: ['search'] });
    await t.call('search', { query: 'x' });
    expect(t.text('search')).toBe('Error: There is no tool named `search`. The tools are: read.');
  });

  it('lists every problem of the arguments at once', async () => {
    const t = deskFixture([search]);
    await t.call('search', { limit: 'ten', page: 1 });
    expect(t.results.get('search')?.error).toEqual({ name: 'ToolError', code: 'INVALID_ARGS' });
    expect(t.text('search')).toBe(
      'Error: The arguments of `search` are not valid: "query" is missing; "page" is not a known ' +
        'property; "limit" must be an integer, not a string. Correct them and call the tool again.',
    );
  });

  it('bounds how many problems it lists', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `field_${index}`);
    const properties = Object.fromEntries(names.map((name) => [name, {}]));
    const t = deskFixture([
      tool('form', { parameters: { type: 'object', properties, required: names } }),
    ]);
    await t.call('form');
    expect(t.text('form').match(/is missing/g)).toHaveLength(10);
    expect(t.text('form')).toContain('and 20 more');
  });

  it.each([
    ['no JSON', '{"query": '],
    ['a list', '["x"]'],
    ['a bare word', '"x"'],
    ['nested without end', '['.repeat(200_000) + ']'.repeat(200_000)],
    ['as many as fit', `[${'0,'.repeat(200_000)}0]`],
    ['a number beyond all', '{"query": 1e999}'],
  ])('takes arguments that are %s for INVALID_ARGS', async (_, raw) => {
    const t = deskFixture([search]);
    await t.call('search', raw);
    expect(t.events).toEqual(['call search', 'result search INVALID_ARGS']);
  });

  it('takes empty arguments for an object without properties', async () => {
    const t = deskFixture([tool('a', { execute: (args) => args })]);
    await t.call('a', '');
    expect(t.text('a')).toBe('{}');
  });

  it('lets a refused call be no barrier', async () => {
    const held = heldTool('held', overlapping);
    const t = deskFixture([held, tool('quick', overlapping)]);
    const all = [t.call('held'), t.call('missing'), t.call('quick')];
    await all[2];
    expect(t.events).toEqual(['call held', 'call missing', 'call quick']);
    held.gate.open();
    await Promise.all(all);
  });

  it('refuses what a guard denies, in the words of the guard, and asks it at the start', async () => {
    let captured = false;
    const t = deskFixture([tool('capture', { execute: () => void (captured = true) }), tool('a')]);
    t.scope.guard(({ name }) => (captured && name !== 'b' ? 'The answer is given.' : undefined));
    await Promise.all([t.call('capture'), t.call('a')]);
    expect(t.events).toEqual(['call capture', 'result capture', 'call a', 'result a failed']);
    expect(t.text('a')).toBe('Error: The answer is given.');
  });

  it('refuses when a guard throws', async () => {
    const t = deskFixture([tool('a')]);
    t.scope.guard(() => {
      throw new Error('lost its list');
    });
    await t.call('a');
    expect(t.text('a')).toBe('Error: lost its list');
  });
});
