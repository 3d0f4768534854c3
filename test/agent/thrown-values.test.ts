/**
 * What foreign code throws, or gives where nothing is asked for, is looked at wherever it comes
 * in. Whatever it is, the failure stays with the call, turn, run or start that it belongs to.
 */
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Logger } from '../../src/base/logger.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { rejection, stubRun } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled } from '../support/until.ts';
import { ZOO } from '../support/zoo.ts';
import { ends } from '../worker-host/agent-words.ts';

const unhandled = watchUnhandled();
const failed = { kind: 'error', error: { code: expect.any(String), message: expect.any(String) } };

/** What became of the tool calls so far. */
const results = ({ root }: TestHarness) =>
  root.session.events.flatMap((event) => {
    if (event.type !== 'tool/result') return [];
    const [block] = event.data.message.content;
    return [block?.type === 'tool-result' && block.isError === true ? 'failed' : 'done'];
  });
const calls = (name: string) => ({ toolCalls: [{ name, arguments: {} }] });
const note = {
  name: 'note',
  description: 'Notes.',
  parameters: { type: 'object' },
  execute: () => 'Noted.',
};
const policy = {
  maxRetries: 0,
  retryableCodes: [],
  initialDelayMs: 1,
  maxDelayMs: 1,
  jitterRatio: 0,
};
/** A turn of a root, with one call of `note` in it. */
const withCall = (options: TestHarnessOptions = {}): Promise<TestHarness> =>
  testHarness({ tools: [note], script: [calls('note'), 'Done.'], ...options });
const start = (rt: TestHarness, provider = 'spawn') =>
  rt.harness.subagents.start(provider, {
    parent: rt.root,
    prompt: 'go',
    signal: new AbortController().signal,
  });

describe.each(ZOO)('%s', (_, make) => {
  const throws = (): never => {
    throw make();
  };

  it.each(['tool/pre-execute', 'tool/post-execute'] as const)(
    'fails the call when a hook of %s throws it',
    async (type) => {
      await using rt = await withCall();
      rt.harness.hooks.on(type, throws);
      await rt.ask('go');
      expect([results(rt), ends(rt.root.session)]).toEqual([['failed'], ['completed']]);
      await settled();
      expect(unhandled).toEqual([]);
    },
  );

  it.each(['agent/pre-step', 'agent/request', 'agent/turn-stopping'] as const)(
    'fails the turn when a hook of %s throws it',
    async (type) => {
      await using rt = await testHarness({ script: ['Done.'] });
      rt.harness.hooks.on(type, throws);
      await rt.ask('go');
      expect(ends(rt.root.session)).toEqual([expect.stringMatching(/^error (UNKNOWN|STORE_IO)$/)]);
      await settled();
      expect(unhandled).toEqual([]);
    },
  );

  it('fails the request when a model on main throws it, and the next attempt is made', async () => {
    let asked = 0;
    const model = {
      retryPolicy: { ...policy, maxRetries: 1, retryableCodes: ['UNKNOWN', 'STORE_IO'] },
      stream(): never {
        asked += 1;
        throw make();
      },
    };
    await using rt = await testHarness({
      models: { own: model },
      defaultModel: { provider: 'own', model: 'm' },
    });
    await rt.ask('go');
    const end = rt.root.session.events.findLast(({ type }) => type === 'turn/end');
    expect(end?.data).toMatchObject({ reason: failed });
    expect(end?.data).not.toMatchObject({ reason: { error: { code: 'PROTOCOL_VIOLATION' } } });
    expect(asked).toBe(2);
    expect(rt.threads.all).toHaveLength(1);
  });

  it('is no reason to give a session up when a store of one’s own throws it', async () => {
    const store = new (class extends MemoryStore {
      fails = false;
      override async append(...batch: Parameters<MemoryStore['append']>): Promise<void> {
        if (this.fails) throw make();
        return super.append(...batch);
      }
    })();
    await using rt = await testHarness({ store, script: ['One.', 'Two.'] });
    await rt.ask('go');
    store.fails = true;
    rt.root.inject(createUserMessage('aside'));
    expect(await rejection(rt.harness.sessions.flush(rt.root.session))).toBeInstanceOf(StoreError);
    store.fails = false;
    await rt.ask('go on');
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
    await settled();
    expect(unhandled).toEqual([]);
  });

  it('fails the call when a tool or what shows its result throws it', async () => {
    const shown = { ...note, name: 'shown', output: { schema: {}, render: throws } };
    const tools = [{ ...note, execute: throws }, shown];
    await using rt = await testHarness({ tools, script: [calls('note'), calls('shown'), 'Done.'] });
    await rt.ask('go');
    expect([results(rt), ends(rt.root.session)]).toEqual([['failed', 'failed'], ['completed']]);
  });

  it('fails the start or the run when a provider throws it', async () => {
    await using rt = await testHarness();
    const { subagents } = rt.harness;
    const broken = stubRun({ id: 'broken' });
    const capabilities = {
      outputSchema: false,
      depthLimit: false,
      toolFilter: false,
      persona: false,
    };
    const common = { capabilities, inheritsParentContext: false };
    subagents.registerProvider({ ...common, name: 'throwing', start: async () => throws() });
    subagents.registerProvider({ ...common, name: 'failing', start: async () => broken.run });
    const begun = await Promise.allSettled([start(rt, 'throwing')]);
    expect(begun).toMatchObject([{ status: 'rejected' }]);
    const run = await start(rt, 'failing');
    broken.fail(make());
    expect(await Promise.allSettled([run.result])).toHaveLength(1);
    await run.dispose();
    const { jobId } = rt.harness.jobs.start(rt.root, { label: 'l', provider: 'x' }, async () =>
      throws(),
    );
    expect(await rt.harness.jobs.output(rt.root, jobId, { wait: true })).toMatchObject({
      status: 'failed',
    });
    await settled();
    expect(unhandled).toEqual([]);
  });

  it('fails the creation when a setup throws it, and the end when what it registered does', async () => {
    await using rt = await testHarness();
    const { agents } = rt.harness;
    const live = agents.list().length;
    expect(await Promise.allSettled([agents.create({ setup: throws })])).toMatchObject([
      { status: 'rejected' },
    ]);
    expect(agents.list()).toHaveLength(live);
    const handle = await agents.create({ setup: (child) => void child.onDispose(throws) });
    expect(await Promise.allSettled([handle.dispose()])).toMatchObject([{ status: 'rejected' }]);
    expect(agents.list()).toHaveLength(live);
    await settled();
    expect(unhandled).toEqual([]);
  });

  it('stops nobody when a listener or the logger throws, rejects with or returns it', async () => {
    const logger = { debug: throws, info: throws, warn: throws, error: make } as Logger;
    await using rt = await testHarness({ logger, script: () => 'Done.' });
    const { harness } = rt;
    for (const type of ['session/created', 'agent/created'] as const) {
      harness.on(type, make);
      harness.on(type, async () => throws());
    }
    for (const type of ['session/event', 'agent/status', 'subagent/end'] as const) {
      harness.on(type, throws);
      harness.on(type, async () => throws());
      harness.on(type, make);
    }
    const run = await start(rt);
    expect(await run.result).toMatchObject({ stopReason: 'completed' });
    await run.dispose();
    await settled();
    expect(unhandled).toEqual([]);
  });
});
