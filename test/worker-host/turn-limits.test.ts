/** What one turn may use, and what becomes of one that wants more. Its wall time: `cancel.test.ts`. */
import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { AgentLimits } from '../../src/agent/agent-host.ts';
import { gate } from '../../src/base/gate.ts';
import { spawning } from '../subagents/spawning.ts';
import { text } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import {
  USER,
  callsDeaf,
  callsEndless,
  deafTool,
  endless,
  ends,
  has,
  saysText,
  shown,
  waiting,
} from './agent-words.ts';

const calls = { text: 'Looking.', toolCalls: [{ name: 'look', arguments: {} }] };
const look = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object' },
  execute: () => 'seen',
};

/** A child by itself, with these limits. */
async function child(rt: TestHarness, limits: AgentLimits) {
  const { agent } = await rt.harness.agents.create({ meta: { delegationDepth: 1 }, limits });
  return agent;
}
/** Why the last turn failed. */
const why = ({ session }: { session: TestHarness['root']['session'] }): string => {
  const end = session.events.findLast(({ type }) => type === 'turn/end');
  return end?.type === 'turn/end' && end.data.reason.kind === 'error'
    ? end.data.reason.error.message
    : '';
};

describe('the steps of a turn', () => {
  it('end it at the limit: the result says so, and has what was said by then', async () => {
    await using t = await spawning({ tools: [look], script: () => calls });
    const { result, child: agent } = await t.run({ limits: { steps: 5 } });
    expect(result).toEqual({
      output: [text('Looking.'), expect.objectContaining({ type: 'tool-call' })],
      stopReason: 'error',
      diagnostic:
        'LIMIT_EXCEEDED: The turn took all steps that its limit allows, and was to take another: ' +
        'steps is 5.',
    });
    expect(t.model.requests).toHaveLength(5);
    expect(agent.session.events.at(-1)?.data).toMatchObject({
      reason: { kind: 'error', error: { code: 'LIMIT_EXCEEDED' } },
    });
    const results = agent.session.events.filter(({ type }) => type === 'tool/result');
    expect(results).toHaveLength(5);
  });

  it('may all be taken, and are counted anew in each turn', async () => {
    await using rt = await testHarness({ tools: [look], script: [calls, 'A.', calls, 'B.'] });
    const agent = await child(rt, { steps: 2 });
    await rt.ask('one', agent);
    await rt.ask('two', agent);
    expect(ends(agent.session)).toEqual(['completed', 'completed']);
  });

  it('leave what waits for the next one unclaimed at the limit', async () => {
    const held = gate();
    await using rt = await testHarness({
      tools: [{ ...look, execute: () => held.wait() }],
      script: [calls, 'B.', 'C.'],
    });
    const agent = await child(rt, { steps: 1 });
    agent.followup(message('one'));
    await held.arrived();
    agent.steer(message('join'));
    held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(waiting(agent)).toEqual([['join'], []]);
    await rt.ask('two', agent);
    expect(shown(rt.model).at(-1)).toEqual(['one', 'join', 'two']);
  });

  it('that are all taken give what came meanwhile a turn of its own', async () => {
    const held = gate();
    await using rt = await testHarness({ script: [{ hold: held, text: 'A.' }, 'B.'] });
    const agent = await child(rt, { steps: 1 });
    agent.followup(message('one'));
    await held.arrived();
    agent.steer(message('join'));
    held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed', 'completed']);
    expect(shown(rt.model)).toEqual([['one'], ['one', 'join']]);
  });

  it('are not added to by a hook at the end of the last', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    rt.harness.hooks.on('agent/turn-stopping', ({ agent }) => agent.steer(message('go on')));
    const agent = await child(rt, { steps: 1 });
    await rt.ask('one', agent);
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(waiting(agent)).toEqual([['go on'], []]);
    expect(rt.model.requests).toHaveLength(1);
  });

  it('of a root are not limited by the harness, and are when it is given a limit', async () => {
    await using rt = await testHarness({
      tools: [look],
      limits: { steps: 1 },
      script: [calls, 'A.', calls],
    });
    await rt.ask('one');
    expect(ends(rt.root.session)).toEqual(['completed']);
    const { agent } = await rt.harness.agents.create({ limits: { steps: 1 } });
    await rt.ask('one', agent);
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
  });

  it('that pass the limit of a turn which was interrupted are no second cause', async () => {
    const tool = deafTool();
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, tools: [tool], script: [callsDeaf] });
    const agent = await child(rt, { steps: 1, toolMs: 100 });
    agent.followup(message('one'));
    await until(() => has(agent.session, 'tool/call'));
    await settled();
    await clock.advance(99);
    agent.cancel(USER, { keepInbox: true });
    await clock.advance(1);
    tool.held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['aborted user']);
  });
});

describe('what a turn adds to its log', () => {
  /** 1 000 characters in each piece. */
  const pieces = (count: number): string[] =>
    Array.from({ length: count }, () => 'x'.repeat(1_000));
  const logged = (agent: { session: TestHarness['root']['session'] }): number =>
    agent.session.events.filter(
      ({ type, data }) => type === 'assistant/chunk' && data.chunk.type === 'text-delta',
    ).length;

  it('ends it in the tick in which it is too much, and keeps what was said by then', async () => {
    await using t = await spawning({ script: [{ text: pieces(100) }] });
    const { result, child: agent } = await t.run({ limits: { outputBytes: 10_000 } });
    expect(result.stopReason).toBe('error');
    expect(result.diagnostic).toMatch(
      /^LIMIT_EXCEEDED: The turn added more to its log than its limit: outputBytes is 10000, and it had added 10\d\d\d bytes\.$/,
    );
    expect(logged(agent)).toBe(10);
    expect(textOf(result.output)).toBe('x'.repeat(10_000));
  });

  it('ends it for the result of a tool, which is in the log', async () => {
    await using rt = await testHarness({
      tools: [{ ...look, execute: () => 'y'.repeat(5_000) }],
      script: [calls],
    });
    const agent = await child(rt, { outputBytes: 5_000 });
    await rt.ask('one', agent);
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(has(agent.session, 'tool/result')).toBe(true);
    expect(rt.model.requests).toHaveLength(1);
  });

  it('ends it for the messages that a tool adds', async () => {
    const execute = (_args: unknown, { deferContext }: Pick<ToolContext, 'deferContext'>) => {
      deferContext(message('y'.repeat(5_000)));
      return 'Looked.';
    };
    await using rt = await testHarness({ tools: [{ ...look, execute }], script: [calls] });
    const agent = await child(rt, { outputBytes: 5_000 });
    await rt.ask('one', agent);
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(rt.model.requests).toHaveLength(1);
  });

  it('from a model in its thread is at most one frame too much', async () => {
    const model = {
      async *stream() {
        yield { type: 'block-start', index: 0, blockType: 'text' };
        for (const piece of pieces(200)) yield { type: 'text-delta', index: 0, text: piece };
        yield {
          type: 'block-end',
          index: 0,
          block: { type: 'text', text: pieces(200).join('') },
        };
        yield { type: 'finish', reason: { kind: 'stop' } };
      },
    };
    await using rt = await testHarness({
      models: { own: { module: new URL('file:///own.mjs') } },
      threads: { import: () => Promise.resolve({ default: model }) },
    });
    const { agent } = await rt.harness.agents.create({
      meta: { delegationDepth: 1 },
      agentOptions: { provider: 'own', model: 'm' },
      limits: { outputBytes: 1_000 },
    });
    await rt.ask('one', agent);
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(why(agent)).toContain('outputBytes is 1000');
    expect(logged(agent)).toBeGreaterThan(0);
    expect(has(agent.session, 'assistant/message')).toBe(true);
  });

  it('is counted anew in each turn, and is not limited where the limit is taken away', async () => {
    await using rt = await testHarness({
      limits: { outputBytes: 'unlimited' },
      script: [{ text: pieces(3) }, { text: pieces(3) }, { text: pieces(3) }],
    });
    const agent = await child(rt, { outputBytes: 12_000 });
    await rt.ask('one', agent);
    await rt.ask('two', agent);
    const free = await child(rt, {});
    await rt.ask('one', free);
    expect([...ends(agent.session), ...ends(free.session)]).toEqual(Array(3).fill('completed'));
  });
});

describe('the time of a tool call', () => {
  it('ends the turn of a child at the limit, whatever the tool waits for', async () => {
    const tool = deafTool();
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, tools: [tool], script: [callsDeaf] });
    const agent = await child(rt, { toolMs: 500 });
    agent.followup(message('one'));
    await until(() => has(agent.session, 'tool/call'));
    await settled();
    await clock.advance(499);
    expect(agent.session.open).toBeDefined();
    await clock.advance(1);
    tool.held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(why(agent)).toContain('toolMs is 500 ms, and "deaf" was not done by then.');
    expect(clock.pending).toBe(0);
  });

  it('of a module that hears nothing ends its thread after the grace', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, ...endless, script: [callsEndless] });
    const agent = await child(rt, { toolMs: 500 });
    agent.followup(message('one'));
    await until(() => has(agent.session, 'tool/call'));
    await settled();
    await clock.advance(5_499);
    expect(ends(agent.session)).toEqual([]);
    await clock.advance(1);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(clock.pending).toBe(0);
  });

  it('is that of each call: one that is done is measured no more', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({
      clock,
      tools: [look],
      script: [calls, { hold: held, text: 'A.' }],
    });
    const agent = await child(rt, { toolMs: 500 });
    agent.followup(message('one'));
    await held.arrived();
    await clock.advance(10_000);
    held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed']);
  });
});

describe('the time of a run', () => {
  it('is what a turn has left of it, and leaves the next one none', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({ clock, script: ['A.', { hold: held }] });
    const agent = await child(rt, { runMs: 1_000, turnMs: 900 });
    await rt.ask('one', agent);
    await clock.advance(400);
    agent.followup(message('two'));
    agent.followup(message('three'));
    await held.arrived();
    await clock.advance(599);
    expect(ends(agent.session)).toEqual(['completed']);
    await clock.advance(1);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed', 'error LIMIT_EXCEEDED']);
    expect(why(agent)).toContain('runMs is 1000 ms, and it had lasted 1000 ms.');
    agent.followup(message('four'));
    await agent.whenIdle();
    expect(ends(agent.session).at(-1)).toBe('error LIMIT_EXCEEDED');
    expect(waiting(agent)).toEqual([[], ['three', 'four']]);
    expect(rt.model.requests).toHaveLength(2);
    expect(clock.pending).toBe(0);
  });

  it('begins with the agent, and goes on when its thread is another', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({
      clock,
      limits: { maxThreads: 1 },
      script: ['A.', { hold: held }],
    });
    const agent = await child(rt, { runMs: 1_000 });
    await clock.advance(600);
    // The root takes the thread of the idle child, which then gets another.
    await rt.ask('go');
    agent.followup(message('one'));
    await held.arrived();
    await clock.advance(399);
    expect(agent.session.open).toBeDefined();
    await clock.advance(1);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(rt.threads.all.filter(({ init }) => init?.sessionId === agent.id)).toHaveLength(2);
  });
});

describe('the processor time of a turn', () => {
  it('is looked at again and again, and ends it when it is too much', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({ clock, script: ['A.', { text: ['B', held] }] });
    const agent = await child(rt, { cpuMs: 1_000 });
    await rt.ask('one', agent);
    const thread = rt.threads.of(agent.id);
    // What was used before the turn is not the turn's.
    thread.usedCpuMs = 5_000;
    agent.followup(message('two'));
    await until(() => saysText(agent.session) && held.waiting > 0);
    thread.usedCpuMs = 6_000;
    await clock.advance(250);
    expect(agent.session.open).toBeDefined();
    thread.usedCpuMs = 6_001;
    await clock.advance(249);
    expect(agent.session.open).toBeDefined();
    await clock.advance(1);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed', 'error LIMIT_EXCEEDED']);
    expect(why(agent)).toContain('cpuMs is 1000 ms, and its thread had used 1001 ms.');
    expect(clock.pending).toBe(0);
  });

  it('is not known now and then, and counts from when it is', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({ clock, script: [{ hold: held, text: 'A.' }] });
    const agent = await child(rt, { cpuMs: 1_000 });
    agent.followup(message('one'));
    await held.arrived();
    const thread = rt.threads.of(agent.id);
    await clock.advance(250);
    thread.usedCpuMs = 4_000;
    await clock.advance(250);
    thread.usedCpuMs = undefined;
    await clock.advance(250);
    thread.usedCpuMs = 4_900;
    await clock.advance(250);
    held.open();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed']);
  });
});

describe('a limit that is passed', () => {
  it('holds although the turn was over before its thread heard of it', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: ['A.', 'B.'] });
    const agent = await child(rt, { turnMs: 1_000 });
    // The last words of the turn are on their way.
    let isPassed = false;
    rt.harness.on('session/event', ({ session, event }) => {
      if (session !== agent.session || event.type !== 'step/end' || isPassed) return;
      isPassed = true;
      agent.cancel({ kind: 'limit', limit: 'unresponsiveMs' }, { keepInbox: true });
    });
    agent.followup(message('one'));
    agent.followup(message('two'));
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(why(agent)).toBe('The turn was stopped for a limit: unresponsiveMs.');
    expect(waiting(agent)).toEqual([[], ['two']]);
  });
});
