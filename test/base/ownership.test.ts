/** Every registry of a harness loses with an owner what belongs to it, and nothing else. */
import { describe, expect, it } from 'vitest';
import { Scope } from '../../src/base/scope.ts';
import type { Ownership } from '../../src/base/scope.ts';
import type { SubagentProvider } from '../../src/subagents/provider.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';

interface Registry {
  register(t: TestHarness, name: string, owner: Ownership): () => void;
  /** What is registered there, by name and in order; what the harness itself brought may be too. */
  names(t: TestHarness): Promise<readonly string[]> | readonly string[];
  /** Whether a name can be taken once only. */
  readonly unique: boolean;
}

const { signal } = new AbortController();
const provider = (name: string): SubagentProvider => ({
  name,
  capabilities: { outputSchema: false, depthLimit: false, toolFilter: false, persona: false },
  inheritsParentContext: false,
  start: () => Promise.reject(new Error('It starts nothing.')),
});
const assemble = (t: TestHarness) =>
  t.harness.prompt.scope().assemble({ agent: t.root, signal, provider: 'p' });

/** Who heard of what happened last: listeners and hooks have no names but what they do. */
const heard: string[] = [];
const listening = async (happen: () => Promise<unknown>): Promise<readonly string[]> => {
  heard.length = 0;
  await happen();
  return [...heard];
};
const makeAgent = async (t: TestHarness): Promise<void> => {
  await (await t.harness.agents.create()).dispose();
};

const registries: Readonly<Record<string, Registry>> = {
  'tools.register': {
    register: (t, name, owner) =>
      t.harness.tools.register(
        { name, description: name, parameters: { type: 'object' }, execute: () => name },
        owner,
      ),
    names: (t) =>
      t.harness.tools
        .scope()
        .view()
        .map(({ name }) => name),
    unique: true,
  },
  'tools.register of a module': {
    register: (t, name, owner) =>
      t.harness.tools.register({ module: new URL(`file:///${name}.mjs`) }, owner),
    names: (t) => t.harness.tools.modules().map(({ module }) => module.pathname.slice(1, -4)),
    unique: false,
  },
  'prompt.section': {
    register: (t, name, owner) => t.harness.prompt.section({ name, order: 0, text: name }, owner),
    names: async (t) => ((await assemble(t)).system() ?? '').split('\n\n').filter(Boolean),
    unique: true,
  },
  'prompt.context': {
    register: (t, name, owner) => t.harness.prompt.context({ name, order: 0, text: name }, owner),
    names: async (t) => (await assemble(t)).contexts.map(({ name }) => name),
    unique: true,
  },
  'prompt.variable': {
    register: (t, name, owner) => t.harness.prompt.variable(name, name, owner),
    async names(t) {
      const known: string[] = [];
      for (const name of ['kept', 'mine', 'theirs', 'late']) {
        const scope = t.harness.prompt.scope();
        scope.section({ name, order: 0, text: `{{${name}}}` });
        const prompt = await scope.assemble({ agent: t.root, signal });
        try {
          known.push(prompt.system() ?? '');
        } catch {
          // Unknown, as the others are that were withdrawn.
        }
      }
      return known;
    },
    unique: true,
  },
  'models.register': {
    register: (t, name, owner) => t.harness.models.register(name, t.model, owner),
    names: (t) => t.harness.models.names(),
    unique: true,
  },
  'subagents.registerProvider': {
    register: (t, name, owner) => t.harness.subagents.registerProvider(provider(name), owner),
    names: (t) => t.harness.subagents.list(),
    unique: true,
  },
  'on, of sessions': {
    register: (t, name, owner) =>
      t.harness.on('session/created', () => void heard.push(name), owner),
    names: (t) => listening(() => makeAgent(t)),
    unique: false,
  },
  'on, of agents': {
    register: (t, name, owner) => t.harness.on('agent/created', () => void heard.push(name), owner),
    names: (t) => listening(() => makeAgent(t)),
    unique: false,
  },
  'on, of subagents': {
    register: (t, name, owner) =>
      t.harness.on('subagent/provider-added', () => void heard.push(name), owner),
    names: (t) =>
      listening(async () => t.harness.subagents.registerProvider(provider('passing'))()),
    unique: false,
  },
  'hooks.on': {
    register: (t, name, owner) =>
      t.harness.hooks.on('agent/turn-stopping', () => void heard.push(name), owner),
    names: (t) =>
      listening(() =>
        t.harness.hooks.run('agent/turn-stopping', { agent: t.root, turn: 1, signal }, () => {}),
      ),
    unique: false,
  },
};

const named = Object.entries(registries);

describe.each(named)('%s', (_name, { register, names }) => {
  it("leaves no residue of an owner, and all that is others'", async () => {
    await using t = await testHarness();
    const before = await names(t);
    const [scope, other] = [new Scope(), new Scope()];
    register(t, 'kept', {});
    register(t, 'mine', { scope });
    register(t, 'theirs', { scope: other });
    expect(await names(t)).toEqual([...before, 'kept', 'mine', 'theirs']);
    await scope.dispose();
    expect(await names(t)).toEqual([...before, 'kept', 'theirs']);
    await other.dispose();
    expect(await names(t)).toEqual([...before, 'kept']);
  });

  it('has a disposer that takes back its own registration, once', async () => {
    await using t = await testHarness();
    const before = await names(t);
    const scope = new Scope();
    const undo = register(t, 'mine', { scope });
    undo();
    expect(await names(t)).toEqual(before);
    // The name is free, and neither the disposer nor the owner has anything left to undo.
    register(t, 'mine', {});
    undo();
    await scope.dispose();
    undo();
    expect(await names(t)).toEqual([...before, 'mine']);
  });

  it('has a disposer that does nothing after its owner has ended', async () => {
    await using t = await testHarness();
    const before = await names(t);
    const scope = new Scope();
    const undo = register(t, 'mine', { scope });
    await scope.dispose();
    register(t, 'mine', {});
    undo();
    expect(await names(t)).toEqual([...before, 'mine']);
  });

  it('registers nothing for an owner that has ended', async () => {
    await using t = await testHarness();
    const before = await names(t);
    const scope = new Scope();
    await scope.dispose();
    expect(() => register(t, 'late', { scope })).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    );
    expect(await names(t)).toEqual(before);
  });
});

it.each(named.filter(([, { unique }]) => unique))(
  '%s leaves nothing with an owner when the name is taken',
  async (_name, { register, names }) => {
    await using t = await testHarness();
    const scope = new Scope();
    register(t, 'mine', {});
    const all = await names(t);
    expect(() => register(t, 'mine', { scope })).toThrow();
    await scope.dispose();
    expect(await names(t)).toEqual(all);
  },
);

it('takes a provider back whose owner an observer of its arrival disposes', async () => {
  await using t = await testHarness();
  const scope = new Scope();
  const removed: string[] = [];
  t.harness.on('subagent/provider-added', () => void scope.dispose());
  t.harness.on('subagent/provider-removed', (name) => void removed.push(name));
  const before = t.harness.subagents.list();
  expect(() => t.harness.subagents.registerProvider(provider('mine'), { scope })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  );
  expect(t.harness.subagents.list()).toEqual(before);
  expect(removed).toEqual(['mine']);
});
