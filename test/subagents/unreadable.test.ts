/** What cannot be read, or changes while it is, is refused as an argument, and named. */
import { describe, expect, it } from 'vitest';
import { createUserMessage } from '../../src/agent/agent.ts';
import { spawn } from '../../src/providers/worker-spawn.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { rejection } from './stubs.ts';

const INVALID = { code: 'INVALID_ARGUMENT' };
const signal = (): AbortSignal => new AbortController().signal;
const source = { kind: 'user' } as const;

function revoked(): never {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy as never;
}
const throwing = (key: string): never =>
  Object.defineProperty({}, key, {
    enumerable: true,
    get() {
      throw new Error('not to be read');
    },
  }) as never;
/** Another value each time it is read. */
const changing = (key: string, ...values: unknown[]): never =>
  Object.defineProperty({}, key, { enumerable: true, get: () => values.shift() }) as never;

const start = ({ harness, root }: TestHarness, more: object = {}, request: object = {}) =>
  harness.subagents.startContinuable({
    provider: 'spawn',
    label: 'child',
    signal: signal(),
    request: { parent: root, prompt: 'Work.', ...request },
    ...more,
  });

type Call = (t: TestHarness) => Promise<unknown>;
it.each<[string, Call]>([
  ['a start that is revoked', ({ harness }) => harness.subagents.startContinuable(revoked())],
  [
    'a start with an accessor',
    ({ harness }) => harness.subagents.startContinuable(throwing('label')),
  ],
  ['a request that is revoked', (t) => start(t, { request: revoked() })],
  ['a request with an accessor', (t) => start(t, { request: throwing('prompt') })],
  ['limits with an accessor', (t) => start(t, {}, { limits: throwing('turnMs') })],
  ['options with an accessor', (t) => start(t, {}, { agentOptions: throwing('model') })],
  ['a depth that the caller chooses', (t) => start(t, {}, { agentOptions: { subagentDepth: 0 } })],
  [
    'a follow-up whose options are revoked',
    (t) => t.harness.subagents.followup(t.root, 'child' as never, 'More.', revoked()),
  ],
  [
    'a report whose options have an accessor',
    (t) => t.harness.subagents.reportFrom(t.root, 'Done.', throwing('delivery')),
  ],
  [
    'a drain below what is revoked',
    (t) => t.harness.subagents.drainContinuableDescendants([revoked()]),
  ],
  [
    'a drain of children that are no ids',
    (t) => t.harness.subagents.drainContinuableChildren(t.root, [1, {}] as never),
  ],
  [
    'a one-shot child whose depth the caller chooses',
    ({ harness, root }) =>
      harness.subagents.start('spawn', {
        parent: root,
        prompt: 'Work.' as never,
        signal: signal(),
        agentOptions: { subagentDepth: 0 },
      }),
  ],
])('refuses %s', async (_, call) => {
  await using t = await testHarness();
  expect(await rejection(call(t))).toMatchObject(INVALID);
  expect(t.harness.agents.list()).toEqual([t.root]);
});

it.each<[string, Call]>([
  ['a start', (t) => start(t, {}, { parent: revoked() })],
  [
    'a follow-up',
    (t) =>
      t.harness.subagents.followup(revoked(), 'child' as never, 'x', { source, signal: signal() }),
  ],
])('refuses %s by what is revoked, which is no agent', async (_, call) => {
  await using t = await testHarness();
  expect(await rejection(call(t))).toMatchObject({ code: 'UNAUTHORIZED' });
});

it('refuses a message of what cannot be read', () => {
  for (const content of [revoked(), [revoked()], [throwing('type')]] as never[]) {
    expect(() => createUserMessage(content)).toThrow(expect.objectContaining(INVALID));
  }
  expect(() => createUserMessage('Hi.', throwing('kind'))).toThrow(
    expect.objectContaining(INVALID),
  );
});

it('reads the seed of a provider once', async () => {
  await using t = await testHarness({ script: ['Done.'] });
  t.harness.subagents.registerProvider({
    ...spawn()({ agents: t.harness.agents }),
    name: 'changing',
    prepareContinuable: () => Promise.resolve(changing('seed', [], 'no list')),
  } as never);
  await expect(start(t, { provider: 'changing' })).resolves.toBeDefined();
});

describe('a listener of delegations', () => {
  it.each<[string, unknown[]]>([
    ['an event that does not exist', ['anything', () => {}]],
    ['no function', ['subagent/start', 5]],
    ['no agent', ['subagent/end', () => {}, { agent: revoked() }]],
    ['options that do not exist', ['subagent/end', () => {}, { agents: {} }]],
  ])('is refused for %s', async (_, given) => {
    await using t = await testHarness();
    const on = (): unknown => Reflect.apply(t.harness.subagents.on, t.harness.subagents, given);
    expect(on).toThrow(expect.objectContaining(INVALID));
  });
});
