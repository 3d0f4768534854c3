import { describe, expect, it } from 'vitest';
import { personaSection } from '../../src/prompt/persona.ts';
import { PromptRegistry } from '../../src/prompt/prompt.ts';
import type { PromptContext, PromptScope } from '../../src/prompt/prompt.ts';

const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' });
const assemble = (scope: PromptScope, context: Partial<PromptContext> = {}) =>
  scope.assemble({ agent: undefined, signal: new AbortController().signal, ...context });
const system = async (
  scope: PromptScope,
  context: Partial<PromptContext> = {},
): Promise<string | undefined> => (await assemble(scope, context)).system();

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
    expect(await system(registry.scope())).toBe('first\n\nsecond\n\nthird\n\nfourth');
  });

  it('leaves out sections that are empty, and is absent when all are', async () => {
    const registry = withSections({ a: [0, ''], b: [1, 'text'], c: [2, ' \n'] });
    const withdraw = registry.section({ name: 'd', order: 3, text: '{{nothing}}' });
    registry.variable('nothing', '');
    expect(await system(registry.scope())).toBe('text');
    withdraw();
    expect(await system(withSections({ a: [0, ''] }).scope())).toBeUndefined();
    expect(await system(new PromptRegistry().scope())).toBeUndefined();
  });

  it('lets a section of the agent hide one of the harness, with an order of its own', async () => {
    const registry = withSections({ a: [0, 'a'], b: [1, 'b'] });
    const scope = registry.scope();
    const withdraw = scope.section({ name: 'a', order: 2, text: 'own' });
    expect(await system(scope)).toBe('b\n\nown');
    expect(await system(registry.scope())).toBe('a\n\nb');
    withdraw();
    expect(await system(scope)).toBe('a\n\nb');
  });

  it('lets an empty persona hide the one of the harness', async () => {
    const registry = new PromptRegistry();
    registry.section(personaSection('You work for ACME.'));
    const scope = registry.scope();
    scope.section(personaSection(''));
    expect(await system(scope)).toBeUndefined();
  });

  it('asks functions of its context, each variable once', async () => {
    const registry = new PromptRegistry();
    let asked = 0;
    registry.variable('team', ({ agent }) => `${String(agent)} ${++asked}`);
    registry.section({ name: 'a', order: 0, text: ({ model }) => `{{team}} {{team}} ${model}` });
    expect(await system(registry.scope(), { agent: 'x', model: 'm' })).toBe('x 1 x 1 m');
  });

  it('knows the route and the workspace of its agent', async () => {
    const registry = withSections({ a: [0, '{{provider}}/{{model}} in {{cwd}}'] });
    const route = { provider: 'p', model: 'm', cwd: '/w' };
    expect(await system(registry.scope(), route)).toBe('p/m in /w');
    await expect(system(registry.scope(), { provider: 'p', model: 'm' })).rejects.toThrow(
      'The prompt names `{{cwd}}`, which has no value.',
    );
  });

  it('prefers the nearest variable of a name', async () => {
    const registry = withSections({ a: [0, '{{team}} {{model}}'] });
    registry.variable('team', 'theirs');
    registry.variable('model', 'named by the harness');
    const scope = registry.scope();
    scope.variable('team', 'own');
    expect(await system(scope, { model: 'm' })).toBe('own named by the harness');
  });

  it.each([['toString'], ['constructor'], ['__proto__'], ['unknown']])(
    'cannot be made with {{%s}}, which nobody registered',
    async (name) => {
      const made = system(withSections({ a: [0, `{{${name}}}`] }).scope());
      await expect(made).rejects.toThrow(`{{${name}}}`);
    },
  );

  it('knows a variable that is named like a part of every object, once it is registered', async () => {
    const registry = withSections({ a: [0, '{{constructor}} {{valueof}}'] });
    registry.variable('constructor', 'C');
    registry.variable('valueof', 'V');
    expect(await system(registry.scope())).toBe('C V');
  });

  it('cannot be made with a variable that has no value now', async () => {
    const registry = withSections({ a: [0, '{{team}}'] });
    registry.variable('team', () => undefined);
    await expect(system(registry.scope())).rejects.toThrow('`{{team}}`, which has no value');
  });

  it('does not look for variables in the value of one', async () => {
    const registry = withSections({ a: [0, '{{quoted}}'] });
    registry.variable('quoted', '{{unknown}} {{ x }}');
    expect(await system(registry.scope())).toBe('{{unknown}} {{ x }}');
  });

  it('fails with the error of a section or variable, and without a code', async () => {
    const registry = withSections({ a: [0, '{{bad}}'] });
    registry.variable('bad', () => {
      throw new Error('no team');
    });
    await expect(system(registry.scope())).rejects.toThrow('no team');
    const unknown: unknown = await system(withSections({ a: [0, '{{x}}'] }).scope()).catch(
      (error: unknown) => error,
    );
    expect(unknown).not.toHaveProperty('code');
  });

  it('fails when a function gives no text', async () => {
    const registry = new PromptRegistry();
    registry.section({ name: 'a', order: 0, text: () => 3 as never });
    await expect(system(registry.scope())).rejects.toThrow('The prompt section "a" gave no text.');
    const other = withSections({ a: [0, '{{x}}'] });
    other.variable('x', () => 3 as never);
    await expect(system(other.scope())).rejects.toThrow('The prompt variable "x" gave no text.');
  });

  it('is not made once its signal is aborted', async () => {
    const reason = new Error('enough');
    const scope = withSections({ a: [0, 'a'] }).scope();
    await expect(assemble(scope, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  it('renders its system text when it is asked for, and once', async () => {
    let rendered = 0;
    const registry = new PromptRegistry();
    registry.section({ name: 'a', order: 0, text: () => `${++rendered}` });
    const prompt = await assemble(registry.scope());
    expect(rendered).toBe(0);
    expect([prompt.system(), prompt.system()]).toEqual(['1', '1']);
  });

  it('throws the same error however often its system text is asked for', async () => {
    let failed = 0;
    const registry = new PromptRegistry();
    registry.section({
      name: 'a',
      order: 0,
      text() {
        throw new Error(`failure ${++failed}`);
      },
    });
    const prompt = await assemble(registry.scope());
    expect(() => prompt.system()).toThrow('failure 1');
    expect(() => prompt.system()).toThrow('failure 1');
  });

  it('is made of the parts that there were when it was put together', async () => {
    const registry = new PromptRegistry();
    const withdraw = registry.section({ name: 'a', order: 0, text: 'before {{v}}' });
    const withdrawVariable = registry.variable('v', 'V');
    const prompt = await assemble(registry.scope());
    withdraw();
    withdrawVariable();
    registry.section({ name: 'b', order: 0, text: 'after' });
    expect(prompt.system()).toBe('before V');
  });
});

describe('a section that is the whole prompt', () => {
  const whole = { name: 'whole', order: 5, complete: true, text: 'All of {{what}}.' } as const;

  it('leaves out all others, and does not even ask them', async () => {
    const registry = withSections({ a: [0, '{{unknown}}'] });
    registry.section(whole);
    registry.variable('what', 'it');
    expect(await system(registry.scope())).toBe('All of it.');
  });

  it('leaves no prompt at all when it is empty', async () => {
    const registry = withSections({ a: [0, 'a'] });
    registry.section({ ...whole, text: '' });
    expect(await system(registry.scope())).toBeUndefined();
  });

  it('is one of several only when a nearer section of its name hides it', async () => {
    const registry = withSections({ a: [0, 'a'] });
    registry.section(whole);
    const scope = registry.scope();
    scope.section({ name: 'whole', order: 1, text: 'b' });
    expect(await system(scope)).toBe('a\n\nb');
  });

  it('cannot stand beside another one', async () => {
    const registry = new PromptRegistry();
    registry.section({ ...whole, text: 'a' });
    const scope = registry.scope();
    const withdraw = scope.section({ ...whole, name: 'own', text: 'b' });
    const prompt = await assemble(scope);
    expect(() => prompt.system()).toThrow('not "whole", "own"');
    withdraw();
    expect(await system(scope)).toBe('a');
  });

  it('says so with true or not at all', () => {
    const section = { ...whole, complete: false as never };
    expect(() => new PromptRegistry().section(section)).toThrow(invalid);
  });
});

describe('registering a part of a prompt', () => {
  it('refuses a second one of its name in one layer until the first is withdrawn', async () => {
    const registry = new PromptRegistry();
    const text = (): string => 'same';
    const withdraw = [
      registry.section({ name: 'a', order: 0, text: '{{v}}' }),
      registry.context({ name: 'a', order: 0, text: '{{v}}' }),
      registry.variable('v', text),
    ];
    expect(() => registry.section({ name: 'a', order: 1, text: '' })).toThrow(invalid);
    expect(() => registry.context({ name: 'a', order: 1, text: '' })).toThrow(invalid);
    expect(() => registry.variable('v', 'y')).toThrow(invalid);
    for (const each of withdraw) each();
    registry.section({ name: 'a', order: 0, text: '{{v}}' });
    registry.context({ name: 'a', order: 0, text: '{{v}}' });
    registry.variable('v', text);
    for (const each of withdraw) each();
    const prompt = await assemble(registry.scope());
    expect(prompt.system()).toBe('same');
    expect(prompt.contexts).toEqual([{ name: 'a', text: 'same' }]);
  });

  it.each([
    [{ name: '', order: 0, text: '' }],
    [{ name: 'a', order: Number.NaN, text: '' }],
    [{ name: 'a', order: Number.POSITIVE_INFINITY, text: '' }],
    [{ name: 'a', order: 0, text: undefined as never }],
  ])('refuses the section and the context %j', (part) => {
    for (const prompt of [new PromptRegistry(), new PromptRegistry().scope()]) {
      expect(() => prompt.section(part)).toThrow(invalid);
      expect(() => prompt.context(part)).toThrow(invalid);
    }
  });

  it.each([['Team'], ['1st'], ['a-b'], [''], ['__proto__']])(
    'refuses a variable named %j',
    (name) => {
      expect(() => new PromptRegistry().variable(name, 'x')).toThrow(invalid);
      expect(() => new PromptRegistry().variable('x', 1 as never)).toThrow(invalid);
    },
  );
});
