/** Messages that were accepted and are not committed yet, and claims that come meanwhile. */
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { StoreAppend } from '../../src/session/store.ts';
import { gate } from '../support/gate.ts';
import { testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { USER, ends, has, shown, statuses, waiting } from './agent-words.ts';

/** Tells when a write begins, which then takes a while. */
class SlowStore extends StallingStore {
  onAppend: () => void = () => {};
  override async append(batch: readonly StoreAppend[]): Promise<void> {
    this.onAppend();
    await settled();
    await super.append(batch);
  }
}

describe('a claim', () => {
  it.each(['followup', 'steer', 'inject'] as const)(
    'waits for what was accepted before it, however many a %s comes after it',
    async (how) => {
      const store = new SlowStore();
      await using rt = await testHarness({ store, script: () => 'Done.' });
      let writes = 0;
      let begun = 0;
      // One more is not committed at the end of each write.
      store.onAppend = () => {
        if (++writes < 20) rt.root[how](message(`${writes}`));
      };
      rt.harness.on('session/event', ({ event }) => {
        if (event.type === 'turn/start' && begun === 0) begun = writes;
      });
      await rt.ask('go');
      expect(begun).toBeLessThan(4);
      await until(() => writes >= 20);
      await rt.root.whenIdle();
      const told = shown(rt.model).at(-1)!;
      const numbers = Array.from({ length: 19 }, (_, index) => `${index + 1}`);
      // In order, each once; context that came after the last turn waits for another.
      expect(told.filter((text) => text !== 'go')).toEqual(numbers.slice(0, told.length - 1));
      expect([...told.slice(1), ...waiting(rt.root).flat()]).toHaveLength(19);
    },
  );

  it('of a step waits for context that a tool left before it', async () => {
    const store = new StallingStore();
    let held = gate();
    await using rt = await testHarness({
      store,
      script: [{ toolCalls: [{ name: 'note', arguments: {} }] }, 'Done.'],
      tools: [
        {
          name: 'note',
          description: 'Notes.',
          parameters: { type: 'object' },
          execute() {
            held = store.stall();
            rt.root.inject(message('noted'));
            return 'Done.';
          },
        },
      ],
    });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'step/end'));
    await settled();
    expect(waiting(rt.root)).toEqual([['noted'], []]);
    held.open();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['go'], ['go', 'noted']]);
  });

  it('opens no turn for a message that is withdrawn, with another not committed yet', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['A.', 'B.'] });
    const first = gate();
    const second = gate();
    rt.harness.on('session/event', ({ event }) => {
      if (event.type !== 'turn/end' || event.data.turn !== 1) return;
      queueMicrotask(() => {
        store.hold = first;
        store.failure = new StoreError('STORE_IO', 'Broken.');
        rt.root.followup(message('two'));
      });
    });
    rt.root.followup(message('one'));
    await until(() => waiting(rt.root)[1]!.includes('two'));
    await settled();
    store.hold = second;
    rt.root.followup(message('three'));
    first.open();
    await settled();
    expect(waiting(rt.root)).toEqual([[], ['three']]);
    expect([rt.root.status, rt.root.session.lastTurn]).toEqual(['running', 1]);
    store.failure = undefined;
    second.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
    expect(shown(rt.model).at(-1)).toEqual(['one', 'three']);
  });
});

describe('a stop before anything was committed', () => {
  it('ends a one-shot run at once, and the prompt never runs', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, clock: new ManualClock(), script: ['Never.'] });
    const held = store.stall();
    const controller = new AbortController();
    const run = await rt.harness.subagents.start('spawn', {
      parent: rt.root,
      prompt: [{ type: 'text', text: 'Work.' }],
      signal: controller.signal,
    });
    controller.abort();
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
    held.open();
    await settled();
    expect(run.localAgent?.session.lastTurn).toBe(0);
    expect(rt.model.requests).toEqual([]);
    await run.dispose();
  });

  it.each([true, false])('makes the agent idle (inbox kept: %s)', async (keepInbox) => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, clock: new ManualClock(), script: ['A.', 'B.'] });
    const told = statuses(rt);
    const held = store.stall();
    rt.root.followup(message('one'));
    rt.root.cancel(USER, { keepInbox });
    await rt.root.whenIdle();
    held.open();
    await settled();
    expect(told).toEqual(['running', 'idle']);
    expect(rt.root.session.lastTurn).toBe(0);
    expect(waiting(rt.root)).toEqual([[], keepInbox ? ['one'] : []]);
    await rt.ask('two');
    expect(shown(rt.model)[0]).toEqual([keepInbox ? 'one' : 'two']);
  });

  it('by who is told of the message leaves the agent idle', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, clock: new ManualClock() });
    const held = store.stall();
    const undo = rt.harness.on('agent/inbox/inserted', () => rt.root.cancel(USER));
    rt.root.followup(message('one'));
    undo();
    const { status } = rt.root;
    held.open();
    expect([status, ...waiting(rt.root)]).toEqual(['idle', [], []]);
    await settled();
    expect(rt.root.session.lastTurn).toBe(0);
  });

  it('brings no thread back for a commit that comes when that was taken', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, limits: { maxThreads: 1 } });
    const held = store.stall();
    rt.root.followup(message('one'));
    rt.root.cancel(USER);
    const other = await rt.harness.agents.create();
    held.open();
    await settled();
    expect(rt.threads.all).toHaveLength(2);
    expect(rt.threads.of(other.agent.id)).toBe(rt.threads.all[1]);
  });
});
