import { describe, expect, it } from 'vitest';
import { unpack } from '../../protocol/codec.ts';
import { WorkerError } from '../../protocol/errors.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { closeSubagents } from '../../src/subagents/runtime.ts';
import { settled } from '../support/until.ts';
import { ends, waiting } from '../worker-host/agent-words.ts';
import { endsTold, family, insertions, notices, text, told, turns } from './children.ts';
import type { Family } from './children.ts';

describe('a parent is told of its child', () => {
  it('in its next step while it is busy, of several in one', async () => {
    const working = gate();
    const tool: ToolDefinition<Agent> = {
      name: 'work',
      description: 'Takes a while.',
      parameters: { type: 'object' },
      async execute() {
        await working.wait();
        return 'Worked.';
      },
    };
    await using all = await family(
      { root: [{ toolCalls: [{ name: 'work', arguments: {} }] }, 'Read both.'] },
      { tools: [tool] },
    );
    const { root } = all.rt;
    root.followup(createUserMessage('Work.'));
    await working.arrived();
    const one = await all.start({ label: 'one' });
    await all.gone(one);
    const two = await all.start({ label: 'two' });
    await all.gone(two);
    expect(waiting(root)[0]).toHaveLength(2);
    working.open();
    await root.whenIdle();
    expect(told(root)).toEqual([['user'], ['notice', 'notice']]);
    expect(turns(root)).toBe(1);
    expect(notices(root).map((notice) => /"(\w+)"/.exec(notice)?.[1])).toEqual(['one', 'two']);
  });

  it('of several in one turn and in order, when it was idle for the first', async () => {
    const loading = gate();
    const held = gate();
    let isSlow = false;
    await using all = await family(
      { child: () => ({ hold: held, text: 'Done.' }) },
      {
        tools: [{ module: new URL('file:///slow.mjs') }],
        threads: {
          async import() {
            if (isSlow) await loading.wait();
            return { default: [] };
          },
        },
      },
    );
    const { root, threads } = all.rt;
    const children = [];
    for (const label of ['one', 'two', 'three']) children.push(await all.start({ label }));
    await held.arrived(3);
    // Nobody claims anything for it before it has a thread again.
    threads.of(root.id).crash();
    await settled();
    isSlow = true;
    held.open();
    for (const child of children) await all.gone(child);
    const inserted = insertions(root).map(({ message }) => message.id);
    loading.open();
    await root.whenIdle();
    expect(told(root)).toEqual([['notice', 'notice', 'notice']]);
    const read = root.session.events.flatMap(({ type, data }) =>
      type === 'user/message' && data.source.kind === 'subagent-settled' ? [data.id] : [],
    );
    expect(read).toEqual(inserted);
  });

  it('before it is let go on, and before whoever watches', async () => {
    const below = gate();
    const held = gate();
    await using all = await family({
      child: [{ hold: held, text: 'Delegated.' }, 'Read.'],
      grandchild: [{ hold: below, text: 'Done.' }],
    });
    const { root, harness } = all.rt;
    const order: string[] = [];
    const nameOf = (id: string): string =>
      id === root.id ? 'root' : id === child.id ? 'child' : 'grandchild';
    const child = await all.start();
    await held.arrived();
    const grandchild = await all.start({ parent: child });
    harness.on('agent/inbox/inserted', ({ agent }) => order.push(`told ${nameOf(agent.id)}`));
    harness.on('agent/disposed', ({ agent }) => order.push(`gone ${nameOf(agent.id)}`));
    harness.on('subagent/end', ({ id }) => order.push(`end of ${nameOf(id)}`));
    held.open();
    await below.arrived();
    await child.whenIdle();
    await settled();
    // It has nothing else to do than to wait for what it owns.
    expect(all.isLive(child)).toBe(true);
    below.open();
    await all.gone(child);
    expect(all.isLive(grandchild)).toBe(false);
    expect(told(child)).toEqual([['user'], ['notice']]);
    expect(order).toEqual([
      'gone grandchild',
      'told child',
      'end of grandchild',
      'gone child',
      'told root',
      'end of child',
    ]);
  });

  it.each<[string, (all: Family) => Promise<void>]>([
    ['everything', ({ rt }) => closeSubagents(rt.harness.subagents)],
    ['what is below it', ({ rt }) => rt.harness.subagents.drainContinuableDescendants([rt.root])],
  ])('without a turn when %s is being ended, in any depth', async (_, end) => {
    const held = gate();
    const below = gate();
    await using all = await family({
      child: [{ hold: held, text: 'A' }],
      grandchild: [{ hold: below, text: 'B' }],
    });
    const { root, rootHandle, harness } = { ...all.rt, harness: all.rt.harness };
    const child = await all.start();
    await held.arrived();
    const grandchild = await all.start({ parent: child });
    await below.arrived();
    await end(all);
    await settled();
    expect(root.status).toBe('idle');
    expect([root, child, grandchild].map(turns)).toEqual([0, 1, 1]);
    expect(all.models.root.requests).toEqual([]);
    expect([all.models.child, all.models.grandchild].map((m) => m.requests.length)).toEqual([1, 1]);
    expect(waiting(root)[0]).toHaveLength(1);
    expect(notices(child)).toHaveLength(1);

    await rootHandle.dispose();
    // It goes with what else waited for a parent that is disposed: this is no mailbox.
    const stored = await harness.sessions.inspect(root.id);
    const splices = stored.events.flatMap((event) =>
      event.type === 'agent/inbox/spliced'
        ? [event.data.outcome ?? event.data.inserted.map(({ source }) => source.kind).join()]
        : [],
    );
    expect(splices).toEqual(['subagent-settled', 'canceled']);
    if (_ === 'everything') return;
    const again = await harness.agents.resume(root.id);
    expect(again.agent.inbox.hasPending).toBe(false);
  });

  it('not at all when it is gone, and nobody is warned', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'Done.' }] });
    const { root, warnings, harness } = all.rt;
    const { agents } = harness;
    const told = endsTold(all.rt);
    const child = await all.start();
    await held.arrived();
    const get = agents.get.bind(agents);
    agents.get = (id) => (id === root.id ? undefined : get(id));
    held.open();
    await all.gone(child);
    agents.get = get;
    expect(warnings).toEqual([]);
    expect(insertions(root)).toEqual([]);
    expect(told).toEqual([{ reason: 'completed', said: 'Done.' }]);
  });

  it('and that it does not take it changes nothing for the child', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'Done.' }] });
    const { root, warnings } = all.rt;
    const told = endsTold(all.rt);
    const child = await all.start();
    await held.arrived();
    root.followup = () => {
      throw new Error('Full.');
    };
    held.open();
    await all.gone(child);
    expect(warnings).toMatchObject([
      { message: 'A parent could not be told of its child.', error: { message: 'Full.' } },
    ]);
    expect(told).toEqual([{ reason: 'completed', said: 'Done.' }]);
  });

  it.each([
    ['arrives', false],
    ['is still under way when its thread has ended', true],
  ])('and of its report only if that %s', async (_, dies) => {
    let used = 0;
    const tool: ToolDefinition<Agent> = {
      name: 'tell_parent',
      description: 'Reports.',
      parameters: { type: 'object' },
      async execute(_args, { agent }) {
        used++;
        await all.rt.harness.subagents.reportFrom(agent, text('Found.'), { delivery: 'quiet' });
        return 'Told.';
      },
    };
    const called = { toolCalls: [{ name: 'tell_parent', arguments: {} }] };
    const held = gate();
    await using all: Family = await family(
      { child: [{ hold: held, ...called }, 'Done.'] },
      { tools: [tool] },
    );
    const child = await all.start();
    await held.arrived();
    const thread = all.rt.threads.of(child.id);
    const port = thread.ports!.worker;
    const post = port.postMessage.bind(port);
    const late: unknown[] = [];
    port.postMessage = (frame) => {
      post(frame);
      if (!JSON.stringify(unpack(frame as Uint8Array)).includes('"callTool"')) return;
      late.push(frame);
      if (dies) thread.kill(new WorkerError('WORKER_CRASHED', 'Gone.'));
    };
    held.open();
    await all.gone(child);
    expect(late).toHaveLength(1);
    // And again, when there is nobody any more to read it.
    post(late[0]);
    await settled();
    const kinds = insertions(all.rt.root).map(({ message }) => message.source.kind);
    expect(kinds).toEqual(dies ? ['subagent-settled'] : ['subagent-report', 'subagent-settled']);
    expect(used).toBe(dies ? 0 : 1);
    expect(ends(child.session)).toEqual([dies ? 'error WORKER_CRASHED' : 'completed']);
  });
});
