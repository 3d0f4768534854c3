/** Listeners and hooks that are for one agent: it has to be the agent itself. */
import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';

const registers: Readonly<Record<string, (t: TestHarness, options: object) => () => void>> = {
  'a listener': ({ harness }, options) => harness.on('agent/status', () => {}, options),
  'a listener of delegations': ({ harness }, options) =>
    harness.on('subagent/end', () => {}, options),
  'a hook': ({ harness }, options) => harness.hooks.on('agent/pre-step', () => {}, options),
};

describe.each(Object.keys(registers))('%s', (what) => {
  const register = registers[what]!;

  it.each<[string, (t: TestHarness) => object, RegExp]>([
    ['a handle', ({ rootHandle }) => ({ agent: rootHandle }), /it is a handle; give the agent/],
    ['an object that is no agent', ({ root }) => ({ agent: { id: root.id } }), /it is no agent/],
    ['the id of an agent', ({ root }) => ({ agent: root.id }), /"agent" .* takes an object/],
    ['an option that does not exist', ({ root }) => ({ agents: root }), /has no "agents"/],
    ['the agent in place of its options', ({ root }) => root, /has no "/],
  ])('is refused for %s', async (_, options, words) => {
    await using t = await testHarness();
    const registration = (): unknown => register(t, options(t));
    expect(registration).toThrow(ArgumentError);
    expect(registration).toThrow(words);
  });

  it('is taken for an agent, and for nobody in particular', async () => {
    await using t = await testHarness();
    register(t, { agent: t.root })();
    register(t, {})();
  });
});

it('refuses a hook for an agent that has ended', async () => {
  await using t = await testHarness();
  await t.rootHandle.dispose();
  const register = (): unknown => registers['a hook']!(t, { agent: t.root });
  expect(register).toThrow(ArgumentError);
  expect(register).toThrow(/it has ended/);
  expect(t.harness.hooks.has('agent/pre-step', t.root)).toBe(false);
});
