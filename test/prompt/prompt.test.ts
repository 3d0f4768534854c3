import { describe, expect, it } from 'vitest';
import { personaSection } from '../../src/prompt/persona.ts';
import { PromptRegistry } from '../../src/prompt/prompt.ts';
import type { PromptContext, PromptScope } from '../../src/prompt/prompt.ts';

const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' });
const assemble = (
  scope: PromptScope,
  context: Partial<PromptContext> = {},
): Promise<string | undefined> =>
  scope.assemble({ agent: undefined, signal: new AbortController().signal, ...context });

function withSections(sections: Readonly<Record<string, [order: number, text: string]>>) {
  const registry = new PromptRegistry();
  for (const [name, [order, text]] of Object.entries(sections)) {
    registry.section({ name, order, text });
  }
  return registry;
}

describe('a prompt', () => {
  it('joins its sections by order with a blank line, equal ones as they came', async () => {
    const registry = withSections({
      c: [5, 'third'],
      a: [-1, 'first'],
      b: [0, 'second'],
      d: [5, 'fourth'],
    });
    expect(await assemble(registry.scope())).toBe('first\n\nsecond\n\nthird\n\nfourth');
  });

  it('leaves out sections that are empty, and is absent when all are', async () => {
    const registry = withSections({ a: [0, ''], b: [1, 'text'], c: [2, ' \n'] });
    const withdraw = registry.section({ name: 'd', order: 3, text: '{{nothing}}' });
    registry.variable('nothing', '');
    expect(await assemble(registry.scope())).toBe('text');
    withdraw();
    expect(await assemble(withSections({ a: [0, ''] }).scope())).toBeUndefined();
    expect(await assemble(new PromptRegistry().scope())).toBeUndefined();
  });

  it('lets a section of the agent hide one of the harness, with an order of its own', async () => {
    const registry = withSections({ a: [0, 'a'], b: [1, 'b'] });
    const scope = registry.scope();
    const withdraw = scope.section({ name: 'a', order: 2, text: 'own' });
    expect(await assemble(scope)).toBe('b\n\nown');
    expect(await assemble(registry.scope())).toBe('a\n\nb');
    withdraw();
    expect(await assemble(scope)).toBe('a\n\nb');
  });

  it('lets an empty persona hide the one of the harness', async () => {
    const registry = new PromptRegistry();
    registry.section(personaSection('You work for ACME.'));
    const scope = registry.scope();
    scope.section(personaSection(''));
    expect(await assemble(scope)).toBeUndefined();
  });

  it('asks functions of its context, each variable once', async () => {
    const registry = new PromptRegistry();
    let asked = 0;
    registry.variable('team', ({ agent }) => `${String(agent)} ${++asked}`);
    registry.section({ name: 'a', order: 0, text: ({ model }) => `{{team}} {{team}} ${model}` });
    expect(await assemble(registry.scope(), { agent: 'x', model: 'm' })).toBe('x 1 x 1 m');
  });

  it('knows the route and the workspace of its agent', async () => {
    const registry = withSections({ a: [0, '{{provider}}/{{model}} in {{cwd}}'] });
    const route = { provider: 'p', model: 'm', cwd: '/w' };
    expect(await assemble(registry.scope(), route)).toBe('p/m in /w');
    await expect(assemble(registry.scope(), { provider: 'p', model: 'm' })).rejects.toThrow(
      'The prompt names `{{cwd}}`, which has no value.',
    );
  });

  it('prefers the nearest variable of a name', async () => {
    const registry = withSections({ a: [0, '{{team}} {{model}}'] });
    registry.variable('team', 'theirs');
    registry.variable('model', 'named by the harness');
    const scope = registry.scope();
    scope.variable('team', 'own');
    expect(await assemble(scope, { model: 'm' })).toBe('own named by the harness');
  });

  it.each([['{{toString}}'], ['{{constructor}}'], ['{{__proto__}}'], ['{{unknown}}']])(
    'rejects %s, which nobody registered',
    async (text) => {
      await expect(assemble(withSections({ a: [0, text] }).scope())).rejects.toThrow(Error);
    },
  );

  it('rejects with the error of a section or variable, and without a code', async () => {
    const registry = withSections({ a: [0, '{{bad}}'] });
    registry.variable('bad', () => {
      throw new Error('no team');
    });
    await expect(assemble(registry.scope())).rejects.toThrow('no team');
    const unknown: unknown = await assemble(withSections({ a: [0, '{{x}}'] }).scope()).catch(
      (error: unknown) => error,
    );
    expect(unknown).not.toHaveProperty('code');
  });

  it('rejects when a function gives no text', async () => {
    const registry = new PromptRegistry();
    registry.section({ name: 'a', order: 0, text: () => 3 as never });
    await expect(assemble(registry.scope())).rejects.toThrow('The section "a" gave no text.');
    const other = withSections({ a: [0, '{{x}}'] });
    other.variable('x', () => 3 as never);
    await expect(assemble(other.scope())).rejects.toThrow('The prompt variable "x" gave no text.');
  });

  it('is not made once its signal is aborted', async () => {
    const reason = new Error('enough');
    const scope = withSections({ a: [0, 'a'] }).scope();
    await expect(assemble(scope, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});

describe('registering a part of a prompt', () => {
  it('refuses a second one of its name in one layer until the first is withdrawn', async () => {
    const registry = new PromptRegistry();
    const text = (): string => 'same';
    const withdraw = [
      registry.section({ name: 'a', order: 0, text: '{{v}}' }),
      registry.variable('v', text),
    ];
    expect(() => registry.section({ name: 'a', order: 1, text: '' })).toThrow(invalid);
    expect(() => registry.variable('v', 'y')).toThrow(invalid);
    for (const each of withdraw) each();
    registry.section({ name: 'a', order: 0, text: '{{v}}' });
    registry.variable('v', text);
    for (const each of withdraw) each();
    expect(await assemble(registry.scope())).toBe('same');
  });

  it.each([
    [{ name: '', order: 0, text: '' }],
    [{ name: 'a', order: Number.NaN, text: '' }],
    [{ name: 'a', order: Number.POSITIVE_INFINITY, text: '' }],
    [{ name: 'a', order: 0, text: undefined as never }],
  ])('refuses the section %j', (section) => {
    expect(() => new PromptRegistry().section(section)).toThrow(invalid);
    expect(() => new PromptRegistry().scope().section(section)).toThrow(invalid);
  });

  it.each([['Team'], ['1st'], ['a-b'], [''], ['__proto__']])(
    'refuses a variable named %j',
    (name) => {
      expect(() => new PromptRegistry().variable(name, 'x')).toThrow(invalid);
      expect(() => new PromptRegistry().variable('x', 1 as never)).toThrow(invalid);
    },
  );
});
