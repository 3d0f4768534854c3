import { describe, expect, it } from 'vitest';
import { createUserMessage } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { observeRuntime } from '../../src/serve/runtime-events.ts';
import type { RuntimeEvent } from '../../src/serve/runtime-events.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import { testHarness } from '../support/harness.ts';
import { served, take } from './served.ts';

type Status = Extract<RuntimeEvent, { type: 'session/status' }>;

/** The statuses of one session as they are told, in short. */
function statusesOf(events: readonly RuntimeEvent[], id: string): readonly string[] {
  return events
    .filter((event): event is Status => event.type === 'session/status' && event.session === id)
    .map(({ status, waitingOn, reason }) =>
      [status, waitingOn, reason].filter((part) => part !== undefined).join(' '),
    );
}

const delegate = { name: 'subagent', arguments: { description: 'look', prompt: 'Look.' } };

describe('the status of an agent', () => {
  it('is told with each change, of a parent that delegates and of its child', async () => {
    await using t = await testHarness({
      script: (request) => {
        const isChild = JSON.stringify(request.messages).includes('Look.');
        const isBack = request.messages.at(-1)?.source.kind === 'tool';
        if (isChild && !isBack && !JSON.stringify(request.messages).includes('Go')) return 'Seen.';
        return isBack ? 'Done.' : { toolCalls: [delegate] };
      },
    });
    t.harness.tools.register(subagentTool(t.harness.subagents, { provider: 'spawn' }));
    const events: RuntimeEvent[] = [];
    const stop = observeRuntime(t.harness, (event) => events.push(event));
    await t.ask('Go');
    stop();
    const start = events.find((event) => event.type === 'subagent/start');
    expect(start).toMatchObject({ parent: t.root.id, label: 'look', local: true });
    expect(statusesOf(events, t.root.id)).toEqual([
      'starting',
      'running',
      'waiting model',
      'running',
      'waiting tool',
      'waiting child',
      'waiting tool',
      'running',
      'waiting model',
      'running',
      'idle completed',
    ]);
    expect(statusesOf(events, start?.type === 'subagent/start' ? start.id : '')).toEqual([
      'starting',
      'running',
      'waiting model',
      'running',
      'idle completed',
      'settled completed',
    ]);
  });

  it('is queued while it waits for a thread that another one holds', async () => {
    const held = gate();
    await using t = await testHarness({
      limits: { maxThreads: 1 },
      script: ['One.', { hold: held, text: 'Two.' }, 'Three.'],
    });
    await t.ask('Go');
    const other = await t.harness.agents.create();
    const events: RuntimeEvent[] = [];
    const stop = observeRuntime(t.harness, (event) => events.push(event));
    other.agent.followup(createUserMessage('Hold'));
    await held.arrived();
    t.root.followup(createUserMessage('Again'));
    await t.harness.sessions.flush(t.root.session);
    expect(statusesOf(events, t.root.id)).toEqual(['starting', 'queued']);
    held.open();
    await t.root.whenIdle();
    stop();
    expect(statusesOf(events, t.root.id).slice(2, 4)).toEqual(['starting', 'running']);
  });
});

describe('a watched tree', () => {
  it('is shown as it is, then told of as it happens, each event once', async () => {
    await using s = await served({ script: ['One.', 'Two.'] });
    await s.t.ask('Go');
    const isSecond = deferred<void>();
    const reading = take(s.client.watch({ rootId: s.t.root.id }), (update) => {
      if (update.type === 'snapshot') isSecond.resolve();
      return (
        update.type === 'event' &&
        update.event.type === 'session/status' &&
        update.event.status === 'idle'
      );
    });
    await isSecond.promise;
    await s.t.harness.agents.create();
    await s.t.ask('Again');
    const [first, ...rest] = await reading;
    expect(first).toMatchObject({
      type: 'snapshot',
      rows: [{ id: s.t.root.id, status: 'idle', reason: 'completed', lastLine: 'One.' }],
    });
    const seqs = rest.flatMap((update) =>
      update.type === 'event' && update.event.type === 'session/event'
        ? [update.event.event.seq]
        : [],
    );
    const second = s.t.root.session.events.findLastIndex(({ type }) => type === 'turn/start') - 1;
    const { seq } = s.t.root.session;
    expect(seqs).toEqual(Array.from({ length: seq - second }, (_, index) => second + index));
  });

  it('shows what is stored beside what is live, each in front of its children', async () => {
    await using s = await served({
      script: (request) =>
        request.messages.at(-1)?.source.kind === 'user' &&
        JSON.stringify(request.messages).includes('Go')
          ? { toolCalls: [delegate], usage: { inputTokens: 5, outputTokens: 7 } }
          : 'Said.',
    });
    s.t.harness.tools.register(subagentTool(s.t.harness.subagents, { provider: 'spawn' }));
    await s.t.ask('Go');
    const live = await s.client.call('session/list', {});
    expect(live.rows).toMatchObject([
      { mode: 'root', live: true, status: 'idle', tokens: { input: 5, output: 7 } },
      { mode: 'one-shot', live: false, status: 'settled', reason: 'completed', label: 'look' },
    ]);
    expect(live.rows[1]).toMatchObject({ parentId: live.rows[0]?.id, depth: 1, lastLine: 'Said.' });
    await s.t.rootHandle.dispose();
    const { rows, diagnostics } = await s.client.call('session/list', { rootId: s.t.root.id });
    expect(rows[0]).toEqual({
      ...live.rows[0],
      live: false,
      status: 'settled',
      workedMs: expect.any(Number) as number,
    });
    expect(rows[1]).toEqual(live.rows[1]);
    expect(diagnostics).toEqual([]);
  });
});
