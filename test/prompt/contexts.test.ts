import { describe, expect, it } from 'vitest';
import { delegationContext } from '../../src/prompt/delegation.ts';
import { PromptRegistry } from '../../src/prompt/prompt.ts';
import type { PromptContext, PromptScope } from '../../src/prompt/prompt.ts';

const assemble = (scope: PromptScope, context: Partial<PromptContext> = {}) =>
  scope.assemble({ agent: undefined, signal: new AbortController().signal, ...context });
const contexts = async (scope: PromptScope, context: Partial<PromptContext> = {}) =>
  (await assemble(scope, context)).contexts;

describe('the runtime context', () => {
  it('is none where nobody gives any', async () => {
    expect(await contexts(new PromptRegistry().scope())).toEqual([]);
  });

  it('has its parts by order, equal ones as they came', async () => {
    const registry = new PromptRegistry();
    for (const [name, order] of [
      ['c', 5],
      ['a', -1],
      ['b', 0],
      ['d', 5],
    ] as const) {
      registry.context({ name, order, text: `text of ${name}` });
    }
    const names = (await contexts(registry.scope())).map(({ name }) => name);
    expect(names).toEqual(['a', 'b', 'c', 'd']);
  });

  it('leaves out parts that are empty or have nothing to say now', async () => {
    const registry = new PromptRegistry();
    registry.context({ name: 'a', order: 0, text: '' });
    registry.context({ name: 'b', order: 0, text: ' {{empty}}\n' });
    registry.context({ name: 'c', order: 0, text: () => undefined });
    registry.context({ name: 'd', order: 0, text: 'said' });
    registry.variable('empty', '');
    expect(await contexts(registry.scope())).toEqual([{ name: 'd', text: 'said' }]);
  });

  it('lets a part of the agent hide one of the harness, with an order of its own', async () => {
    const registry = new PromptRegistry();
    registry.context({ name: 'a', order: 0, text: 'a' });
    registry.context({ name: 'b', order: 1, text: 'b' });
    const scope = registry.scope();
    const withdraw = scope.context({ name: 'a', order: 2, text: 'own' });
    expect((await contexts(scope)).map(({ text }) => text)).toEqual(['b', 'own']);
    expect((await contexts(registry.scope())).map(({ text }) => text)).toEqual(['a', 'b']);
    withdraw();
    expect((await contexts(scope)).map(({ text }) => text)).toEqual(['a', 'b']);
  });

  it('is filled with the variables of the prompt, and asks each of them once for both', async () => {
    let asked = 0;
    const registry = new PromptRegistry();
    registry.variable('count', () => `${++asked}`);
    registry.context({ name: 'a', order: 0, text: ({ agent }) => `{{count}} {{model}} ${agent}` });
    registry.section({ name: 'a', order: 0, text: '{{count}}' });
    const prompt = await assemble(registry.scope(), { model: 'm', agent: 'x' });
    expect(prompt.contexts).toEqual([{ name: 'a', text: '1 m x' }]);
    expect(prompt.system()).toBe('1');
  });

  it('is no part of the system text', async () => {
    const registry = new PromptRegistry();
    registry.context({ name: 'a', order: 0, text: 'a' });
    expect((await assemble(registry.scope())).system()).toBeUndefined();
  });

  it.each([
    ['{{unknown}}', '`{{unknown}}`, which has no value'],
    ['{{ x }}', 'malformed variable `{{ x }}`'],
    [
      (): string => {
        throw new Error('no place');
      },
      'no place',
    ],
    [(): string => 3 as never, 'The prompt context "a" gave no text.'],
  ])('fails the assembly with %s, before the system text is asked for', async (text, message) => {
    const registry = new PromptRegistry();
    registry.context({ name: 'a', order: 0, text });
    await expect(assemble(registry.scope())).rejects.toThrow(message);
  });

  it('does not fail with the system text', async () => {
    const registry = new PromptRegistry();
    registry.context({ name: 'a', order: 0, text: 'a' });
    registry.section({ name: 'a', order: 0, text: '{{unknown}}' });
    expect(await contexts(registry.scope())).toEqual([{ name: 'a', text: 'a' }]);
  });
});

it('tells a delegated agent who hears it, and that nobody can be asked', async () => {
  const scope = new PromptRegistry().scope();
  scope.context(delegationContext);
  const [told] = await contexts(scope);
  expect(told?.name).toBe('subagent:delegation');
  for (const words of [
    /task by another agent/,
    /nobody can answer a question or approve/,
    /say in your answer what you assumed/,
    /tools and permissions are fixed/,
    /last message is what the other agent receives/,
  ]) {
    expect(told?.text).toMatch(words);
  }
});
