import { describe, expect, it, vi } from 'vitest';
import type { ChildScope } from '../../src/agent/create-options.ts';
import { delegationContext } from '../../src/prompt/delegation.ts';
import { personaSection } from '../../src/prompt/persona.ts';
import { PromptRegistry } from '../../src/prompt/prompt.ts';
import { composeChild } from '../../src/subagents/child-composition.ts';
import { ToolRegistry } from '../../src/tools/registry.ts';

const signal = new AbortController().signal;

/** A child of a deployment with a persona of its own and one tool. */
function childOf() {
  const prompt = new PromptRegistry();
  prompt.section(personaSection('You work for ACME.'));
  const tools = new ToolRegistry();
  tools.register({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: () => 'seen',
  });
  const child = { prompt: prompt.scope(), tools: tools.scope() };
  return { child, prompt, tools };
}
const assemble = (child: Pick<ChildScope, 'prompt'>) =>
  child.prompt.assemble({ agent: undefined, signal });

describe('composing a child', () => {
  it('tells every child that it was delegated to, beside its prompt and not in it', async () => {
    const { child, prompt } = childOf();
    composeChild(child, {});
    const composed = await assemble(child);
    expect(composed.contexts).toEqual([
      { name: 'subagent:delegation', text: delegationContext.text },
    ]);
    expect(composed.system()).toBe('You work for ACME.');
    expect((await assemble({ prompt: prompt.scope() })).contexts).toEqual([]);
  });

  it('puts that behind the context that the deployment gives first', async () => {
    const { child, prompt } = childOf();
    prompt.context({ name: 'late', order: 121, text: 'late' });
    prompt.context({ name: 'early', order: 119, text: 'early' });
    composeChild(child, {});
    const names = (await assemble(child)).contexts.map(({ name }) => name);
    expect(names).toEqual(['early', 'subagent:delegation', 'late']);
  });

  it.each([
    ['You are terse.', 'You are terse.'],
    ['', undefined],
    [undefined, 'You work for ACME.'],
  ])('with the persona %j has the system text %j', async (persona, text) => {
    const { child, prompt } = childOf();
    composeChild(child, persona === undefined ? {} : { persona });
    expect((await assemble(child)).system()).toBe(text);
    expect((await assemble({ prompt: prompt.scope() })).system()).toBe('You work for ACME.');
  });

  it('hides tools from that child only', () => {
    const { child, tools } = childOf();
    composeChild(child, { toolFilter: { deny: ['look'] } });
    expect(child.tools.find('look')).toBeUndefined();
    expect(tools.scope().find('look')).toBeDefined();
  });

  it('gives the context first, then the persona, then the filter', () => {
    const { child } = childOf();
    const order: string[] = [];
    const note = (name: string) => (): (() => void) => {
      order.push(name);
      return () => {};
    };
    vi.spyOn(child.prompt, 'context').mockImplementation(note('context'));
    vi.spyOn(child.prompt, 'section').mockImplementation(note('persona'));
    vi.spyOn(child.tools, 'restrict').mockImplementation(note('filter'));
    composeChild(child, { toolFilter: { allow: [] }, persona: 'p' });
    expect(order).toEqual(['context', 'persona', 'filter']);
  });
});
