/** Who waits is moved by something, whatever came in between. Each interleaving is held by gates. */
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled } from '../support/until.ts';
import { USER, ends, waiting } from './agent-words.ts';

const KEEP = { keepInbox: true };
const modules = (load: () => Promise<unknown>) => ({
  tools: [{ module: new URL('file:///look.mjs') }],
  threads: {
    async import() {
      await load();
      return { default: [] };
    },
  },
});

describe('one thread for two agents', () => {
  it('is given up by an agent that was interrupted while it was on its way', async () => {
    let arriving = gate();
    arriving.open();
    await using rt = await testHarness({
      script: ['One.', 'Two.', 'Three.'],
      limits: { maxThreads: 1 },
      ...modules(() => arriving.wait()),
    });
    const second = (await rt.harness.agents.create()).agent;
    await rt.ask('one', second);
    // The thread is on its way back to the root when its agent is stopped, and another waits.
    arriving = gate();
    rt.root.followup(message('two'));
    await arriving.arrived();
    rt.root.cancel(USER, KEEP);
    second.followup(message('three'));
    await settled();
    arriving.open();
    await settled();
    expect(rt.stalls()).toEqual([]);
    await second.whenIdle();
    expect(ends(second.session)).toEqual(['completed', 'completed']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
  });
});

describe('a loop that was told "not yet"', () => {
  it('is woken again by the commit of what wakes nobody by itself', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['One.', 'Two.'] });
    const first = gate();
    rt.harness.on('session/event', ({ event }) => {
      if (event.type !== 'turn/end' || event.data.turn !== 1) return;
      queueMicrotask(() => {
        store.hold = first;
        rt.root.inject(message('aside'));
      });
    });
    rt.root.followup(message('one'));
    await first.arrived();
    await settled();
    // The claim after the turn waits for that commit, and not for this one, which comes later.
    const second = (store.hold = gate());
    rt.harness.agents.enqueue(rt.root, message('quiet'));
    first.open();
    await second.arrived();
    await settled();
    second.open();
    await settled();
    expect(rt.stalls()).toEqual([]);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
  });

  it('is not left waiting when what unparked its queue is withdrawn beside a quiet one', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['One.', 'Two.'] });
    rt.root.followup(message('parked'));
    rt.root.cancel(USER, KEEP);
    await settled();
    // The write of the first fails; that of the second, which wakes nobody, is another.
    const held = (store.hold = gate());
    rt.root.followup(message('lost'));
    await held.arrived();
    rt.root.inject(message('quiet'));
    store.failure = new StoreError('STORE_FULL', 'The disk is full.');
    const next = gate();
    store.hold = next;
    held.open();
    await next.arrived();
    store.failure = undefined;
    next.open();
    await settled();
    expect(rt.stalls()).toEqual([]);
    expect(rt.root.status).toBe('idle');
    expect(waiting(rt.root)).toEqual([['quiet'], ['parked']]);
    store.hold = undefined;
    await rt.ask('go on');
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
  });
});
