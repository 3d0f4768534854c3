/** What a caller gives may fail by itself: a logger, a signal. Nobody else waits or ends for that. */
import { describe, expect, it } from 'vitest';
import type { AgentHandle } from '../../src/agent/agent.ts';
import type { Logger } from '../../src/base/logger.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled, until } from '../support/until.ts';
import { rejection, text } from './stubs.ts';

const unhandled = watchUnhandled();
const failure = new Error('Of the caller.');
const fail = (): never => {
  throw failure;
};

describe('a logger that throws', () => {
  const logger: Logger = { debug: fail, info: fail, warn: fail, error: fail };

  it('keeps no agent from running, and no harness from ending', async () => {
    await using t = await testHarness({ logger, script: ['Done.', 'Done.'] });
    t.harness.on('agent/status', fail);
    t.harness.on('subagent/start', () => Promise.reject(failure));
    await t.ask('Hi.');
    const { agents, subagents } = t.harness;
    const { childId } = await subagents.startContinuable({
      provider: 'spawn',
      label: 'child',
      request: { parent: t.root, prompt: 'Work.' },
      signal: new AbortController().signal,
    });
    await until(() => agents.get(childId) === undefined);
    await settled();
    expect(unhandled).toEqual([]);
  });
});

/** A signal of which one method throws from its `count`th call on. */
function brokenSignal(method: 'addEventListener' | 'removeEventListener', count = 1): AbortSignal {
  const { signal } = new AbortController();
  const own = signal[method];
  let calls = 0;
  signal[method] = (...given: unknown[]) => {
    if (++calls >= count) throw failure;
    Reflect.apply(own, signal, given);
  };
  return signal;
}

const STARTS = {
  'a continuable start': (t: TestHarness, signal: AbortSignal) =>
    t.harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'child',
      request: { parent: t.root, prompt: 'Work.' },
      signal,
    }),
  'a follow-up': (t: TestHarness, signal: AbortSignal) =>
    t.harness.subagents.followup(t.root, 'nobody' as never, 'More.', {
      source: { kind: 'user' },
      signal,
    }),
  'a one-shot start': async (t: TestHarness, signal: AbortSignal) => {
    const run = await t.harness.subagents.start('spawn', {
      parent: t.root,
      prompt: [text('Work.')],
      signal,
    });
    const result = await run.result;
    await run.dispose();
    return result;
  },
  'a new agent': (t: TestHarness, signal: AbortSignal): Promise<AgentHandle> =>
    t.harness.agents.create({ signal }),
} as const;

describe.each(Object.entries(STARTS))('%s', (_, start) => {
  it.each([1, 2, 3])(
    'with a signal that takes no listener (from the %i. on) leaves nothing to wait for',
    async (count) => {
      await using t = await testHarness({ script: () => 'Done.' });
      const [told] = await Promise.allSettled([start(t, brokenSignal('addEventListener', count))]);
      if (told.status === 'rejected') expect(t.harness.agents.list()).toEqual([t.root]);
      await t.harness.subagents.drainContinuableDescendants([t.root]);
      await t.rootHandle.dispose();
      await t.harness.dispose();
      expect(t.harness.agents.list()).toEqual([]);
      expect(unhandled).toEqual([]);
    },
  );

  it.each([1, 2, 3])(
    'goes on with a signal that keeps its listeners (from the %i. on)',
    async (count) => {
      await using t = await testHarness({ script: () => 'Done.' });
      const [told] = await Promise.allSettled([
        start(t, brokenSignal('removeEventListener', count)),
      ]);
      if (start !== STARTS['a follow-up']) expect(told).toMatchObject({ status: 'fulfilled' });
      else expect(told).toMatchObject({ reason: { code: 'NOT_RESUMABLE' } });
      await t.harness.subagents.drainContinuableDescendants([t.root]);
      await t.harness.dispose();
      await settled();
      expect(t.harness.agents.list()).toEqual([]);
      expect(unhandled).toEqual([]);
    },
  );
});

it('tells what the signal threw', async () => {
  await using t = await testHarness();
  for (const [what, start] of Object.entries(STARTS)) {
    const told = await rejection(start(t, brokenSignal('addEventListener')));
    if (what === 'a follow-up') expect(told).toMatchObject({ cause: failure });
    else expect(told).toBe(failure);
  }
});
