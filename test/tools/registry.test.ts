import { describe, expect, it } from 'vitest';
import { CallId } from '../../protocol/ids.ts';
import type { ToolSpec } from '../../protocol/tool.ts';
import { ToolRegistry } from '../../src/tools/registry.ts';
import type { HostTool, ToolScope } from '../../src/tools/registry.ts';
import { anyObject, tool } from './desk-fixture.ts';

const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' });
const module = (name: string): ToolSpec => ({ name, description: '', parameters: anyObject });
const names = (scope: ToolScope): string[] => scope.view().map(({ name }) => name);

function withTools(...given: string[]): ToolRegistry {
  const registry = new ToolRegistry();
  for (const name of given) registry.register(tool(name));
  return registry;
}

describe('registering a tool', () => {
  it('shows tools by code unit, whatever the order they came in', () => {
    expect(names(withTools('b', 'a', 'B', '_').scope())).toEqual(['B', '_', 'a', 'b']);
  });

  it('shows tools in the configured order, the rest at its mark', () => {
    const registry = new ToolRegistry({ toolOrder: ['z', '*', 'a'] });
    for (const name of ['a', 'c', 'b', 'z']) registry.register(tool(name));
    expect(names(registry.scope())).toEqual(['z', 'b', 'c', 'a']);
  });

  it.each([[['a', 'a']], [['a', 1]], [Array(2)], ['ab'], [{ 0: 'a' }]])(
    'refuses %j as an order',
    (toolOrder) => {
      const make = (): unknown => new ToolRegistry({ toolOrder: toolOrder as never });
      expect(make).toThrow(invalid);
    },
  );

  it('refuses a schema that its shared parts make too large to write', () => {
    let parameters: object = { type: 'object' };
    for (let level = 0; level < 60; level++) {
      parameters = { type: 'object', properties: { a: parameters, b: parameters } };
    }
    const register = (): unknown =>
      new ToolRegistry().register({ ...tool('a'), parameters: parameters as never });
    expect(register).toThrow(invalid);
    expect(register).toThrow(/too large/);
  });

  it('refuses a second tool of one name until the first is withdrawn', () => {
    const registry = new ToolRegistry();
    const withdraw = registry.register(tool('a'));
    expect(() => registry.register(tool('a'))).toThrow(invalid);
    withdraw();
    registry.register(tool('a'));
    withdraw();
    expect(names(registry.scope())).toEqual(['a']);
  });

  it('shows a model the name, description and parameters only, frozen', () => {
    const registry = new ToolRegistry();
    const parameters = { type: 'object', properties: { a: { type: 'string' } } };
    registry.register({ ...tool('a', { timeoutMs: 5 }), description: 'does', parameters });
    parameters.properties.a.type = 'number';
    const [spec] = registry.scope().view();
    expect(spec).toEqual({
      name: 'a',
      description: 'does',
      parameters: { type: 'object', properties: { a: { type: 'string' } } },
    });
    expect(Object.isFrozen(spec?.parameters['properties'])).toBe(true);
  });

  it('keeps the time and the name that a tool had when it was registered', () => {
    const registry = new ToolRegistry();
    const given = { ...tool('a', { timeoutMs: 5 }) };
    registry.register(given);
    Object.assign(given, { timeoutMs: 10, name: 'b' });
    const scope = registry.scope();
    expect(scope.find('a')).toMatchObject({ timeoutMs: 5, spec: { name: 'a' } });
    expect(scope.find('b')).toBeUndefined();
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['no name', { ...tool('a'), name: '' }],
    ['a name no model could send', { ...tool('a'), name: 'a b' }],
    ['the reserved name', tool('run_code')],
    ['no description', { ...tool('a'), description: undefined }],
    ['no body', { ...tool('a'), execute: undefined }],
    ['a classifier that is none', { ...tool('a'), isConcurrencySafe: true }],
    ['a time that no timer takes', tool('a', { timeoutMs: 2 ** 31 })],
    ['no time at all', tool('a', { timeoutMs: 0 })],
    ['a time that is text', tool('a', { timeoutMs: '5' as never })],
    ['a time without end', tool('a', { timeoutMs: Infinity })],
    ['a time that is no number', tool('a', { timeoutMs: Number.NaN })],
    ['no parameters', { ...tool('a'), parameters: undefined }],
    ['parameters that are no object', tool('a', { parameters: { type: 'string' } })],
    ['parameters that do not compile', tool('a', { parameters: { ...anyObject, minimum: 'x' } })],
    [
      'parameters that are no JSON',
      tool('a', { parameters: { ...anyObject, x: new Date() as never } }),
    ],
    [
      'parameters that no log could hold',
      tool('a', {
        parameters: {
          ...anyObject,
          default: JSON.parse('['.repeat(900) + ']'.repeat(900)) as never,
        },
      }),
    ],
    ['asynchronous parameters', tool('a', { parameters: { ...anyObject, $async: true } })],
    ['an output without rendering', tool('a', { output: { schema: {} } as never })],
    [
      'an output that does not compile',
      tool('a', { output: { schema: { type: 1 }, render: () => [] } }),
    ],
    ['a module without a URL', { module: './tool.js' }],
    [
      'a module whose options no thread can get',
      { module: new URL('file:///t.js'), options: () => {} },
    ],
  ])('refuses a tool with %s', (_, given) => {
    const registry = new ToolRegistry();
    expect(() => registry.register(given as HostTool)).toThrow(invalid);
    expect(names(registry.scope())).toEqual([]);
  });

  it('keeps modules apart: their tools are known once a thread has them', () => {
    const registry = withTools('a');
    const url = new URL('file:///tools.js');
    const withdraw = registry.register({ module: url, options: { depth: 1 } });
    expect(registry.modules()).toEqual([{ module: url, options: { depth: 1 } }]);
    expect(names(registry.scope())).toEqual(['a']);
    withdraw();
    expect(registry.modules()).toEqual([]);
  });
});

describe('the tools of one agent', () => {
  it('see later registrations and withdrawals of the harness', () => {
    const registry = withTools('a');
    const scope = registry.scope();
    expect(names(scope)).toEqual(['a']);
    const withdraw = registry.register(tool('b'));
    expect(names(scope)).toEqual(['a', 'b']);
    withdraw();
    expect(names(scope)).toEqual(['a']);
  });

  it('of its own are of no other agent, not even of one that it made', () => {
    const registry = withTools('a');
    const parent = registry.scope();
    const child = registry.scope(parent);
    parent.register(tool('own'));
    expect([names(parent), names(child)]).toEqual([['a', 'own'], ['a']]);
  });

  it('that are hidden from one are hidden from all below it, whatever those allow, and later, too', () => {
    const registry = withTools('a', 'b');
    const parent = registry.scope();
    parent.restrict({ deny: ['a'] });
    const grandchild = registry.scope(registry.scope(parent));
    grandchild.restrict({ allow: ['a', 'b'] });
    grandchild.assertFilters();
    expect([names(grandchild), grandchild.find('a')]).toEqual([['b'], undefined]);
    const lift = parent.restrict({ deny: ['b'] });
    expect(names(grandchild)).toEqual([]);
    lift();
    expect(names(grandchild)).toEqual(['b']);
    // Its own it has all the same.
    grandchild.register(tool('a', { description: 'mine' }));
    expect(names(grandchild)).toEqual(['a', 'b']);
  });

  it('are the same array until something changes', () => {
    const scope = withTools('a', 'b').scope();
    const before = scope.view();
    expect(scope.view()).toBe(before);
    const lift = scope.restrict({ deny: ['a'] });
    expect(names(scope)).toEqual(['b']);
    lift();
    expect(scope.view()).toEqual(before);
  });

  it('hide one of the harness by an own one of that name, for this agent only', () => {
    const registry = withTools('a');
    const scope = registry.scope();
    const own = tool('a', { description: 'mine' });
    const withdraw = scope.register(own);
    expect(scope.find('a')).toMatchObject({ kind: 'host', tool: own });
    expect(scope.view()).toEqual([expect.objectContaining({ description: 'mine' })]);
    expect(registry.scope().view()).toEqual([expect.objectContaining({ description: '' })]);
    expect(() => scope.register(tool('a'))).toThrow(invalid);
    withdraw();
    expect(scope.view()).toEqual([expect.objectContaining({ description: '' })]);
  });

  it('include what the thread has loaded, and forget what an earlier thread had', () => {
    const scope = withTools('a').scope();
    scope.addModuleTools([module('m'), module('n')]);
    expect(names(scope)).toEqual(['a', 'm', 'n']);
    expect(scope.find('m')).toMatchObject({ kind: 'module', spec: { name: 'm' } });
    scope.addModuleTools([module('o')]);
    expect(names(scope)).toEqual(['a', 'o']);
  });

  it('refuse a module tool of a name that is taken, and keep what they had', () => {
    const scope = withTools('a').scope();
    scope.addModuleTools([module('m')]);
    expect(() => scope.addModuleTools([module('a')])).toThrow(invalid);
    expect(() => scope.addModuleTools([module('x'), module('x')])).toThrow(invalid);
    expect(() => scope.addModuleTools([module('run_code')])).toThrow(invalid);
    expect(names(scope)).toEqual(['a', 'm']);
  });

  it('ask guards in order, and take the first denial', () => {
    const scope = withTools('a').scope();
    const call = { name: 'a', callId: CallId('1'), args: {} };
    expect(scope.denial(call)).toBeUndefined();
    const lift = scope.guard(({ name, args }) => `${name} ${JSON.stringify(args)}`);
    scope.guard(() => 'second');
    expect(scope.denial(call)).toBe('a {}');
    lift();
    expect(scope.denial(call)).toBe('second');
  });
});

describe('a filter', () => {
  it('keeps what it allows and drops what it denies', () => {
    const registry = withTools('a', 'b', 'c');
    const allowing = registry.scope();
    allowing.restrict({ allow: ['a', 'b'] });
    expect(names(allowing)).toEqual(['a', 'b']);
    const denying = registry.scope();
    denying.restrict({ deny: ['a'] });
    expect(names(denying)).toEqual(['b', 'c']);
    expect(denying.find('a')).toBeUndefined();
    const both = registry.scope();
    both.restrict({ allow: ['a', 'b'], deny: ['a'] });
    expect(names(both)).toEqual(['b']);
  });

  it('only ever narrows another', () => {
    const scope = withTools('a', 'b', 'c').scope();
    scope.restrict({ allow: ['a', 'b'] });
    const lift = scope.restrict({ allow: ['b', 'c'] });
    expect(names(scope)).toEqual(['b']);
    lift();
    expect(names(scope)).toEqual(['a', 'b']);
  });

  it('covers modules and later registrations, and never what is the agent’s own', () => {
    const registry = withTools('a');
    const scope = registry.scope();
    scope.restrict({ allow: [] });
    scope.register(tool('report'));
    scope.register(tool('a', { description: 'own' }));
    scope.addModuleTools([module('m')]);
    registry.register(tool('b'));
    expect(names(scope)).toEqual(['a', 'report']);
    expect(scope.find('a')?.spec.description).toBe('own');
    expect(scope.find('m')).toBeUndefined();
  });

  it('is refused when it says nothing, and taken when it allows nothing', () => {
    const scope = withTools('a').scope();
    const empty = expect.objectContaining({ name: 'ToolFilterError', code: 'EMPTY_FILTER' });
    expect(() => scope.restrict({})).toThrow(empty);
    expect(() => scope.restrict({ allow: 'a' as never })).toThrow(invalid);
    expect(() => scope.restrict({ deny: [1 as never] })).toThrow(invalid);
    expect(() => scope.restrict({ allow: [], denied: ['a'] } as never)).toThrow(/has no "denied"/);
    expect(() => scope.restrict(['a'] as never)).toThrow(invalid);
    scope.restrict({ allow: [] });
    scope.assertFilters();
    expect(names(scope)).toEqual([]);
  });

  it.each([[{ allow: ['a', 'run_code'] }], [{ deny: ['run_code'] }]])(
    'is refused at once when it names a tool that cannot be: %j',
    (filter) => {
      const scope = withTools('a').scope();
      expect(() => scope.restrict(filter)).toThrow(
        expect.objectContaining({
          name: 'ToolFilterError',
          code: 'UNKNOWN_TOOL_NAME',
          message: expect.stringContaining('`run_code`, which is reserved'),
        }),
      );
      expect(names(scope)).toEqual(['a']);
    },
  );

  it('judges what is registered later, the moment it is', () => {
    const registry = withTools('a');
    const scope = registry.scope();
    scope.restrict({ allow: ['a', 'later'], deny: ['never'] });
    registry.register(tool('later'));
    registry.register(tool('never'));
    registry.register(tool('other'));
    expect(names(scope)).toEqual(['a', 'later']);
    expect(scope.find('never')).toBeUndefined();
    scope.addModuleTools([module('mod')]);
    expect(names(scope)).toEqual(['a', 'later']);
  });

  it('is a copy of what it was given', () => {
    const scope = withTools('a', 'b').scope();
    const allow = ['a'];
    scope.restrict({ allow });
    allow.push('b');
    expect(names(scope)).toEqual(['a']);
  });

  it.each([[{ allow: ['nope'] }], [{ deny: ['nope'] }], [{ allow: ['own'] }]])(
    'names only what is inherited: %j',
    (filter) => {
      const scope = withTools('b', 'a').scope();
      scope.register(tool('own'));
      scope.addModuleTools([module('m')]);
      scope.restrict({ allow: ['m', 'a'] });
      scope.assertFilters();
      scope.restrict(filter);
      expect(() => scope.assertFilters()).toThrow(
        expect.objectContaining({
          name: 'ToolFilterError',
          code: 'UNKNOWN_TOOL_NAME',
          message: expect.stringContaining('Inherited are: `a`, `b`, `m`.'),
        }),
      );
    },
  );
});
