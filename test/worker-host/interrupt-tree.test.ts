/** A stop of an agent whose tool call on main needs its own time to stop, such as for a child. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import { USER, callsDeaf, callsEndless, deafTool, endless, ends, has } from './agent-words.ts';

const delegates = {
  toolCalls: [{ name: 'subagent', arguments: { description: 'Work', prompt: 'Work.' } }],
};
const overlapping = { isConcurrencySafe: () => true };

async function delegating(
  options: TestHarnessOptions,
): Promise<TestHarness & { readonly clock: ManualClock }> {
  const clock = new ManualClock();
  const rt = await testHarness({ ...options, clock });
  rt.harness.tools.register(subagentTool(rt.harness.subagents, { provider: 'spawn' }));
  return { ...rt, clock, [Symbol.asyncDispose]: () => rt[Symbol.asyncDispose]() };
}

/** Told to go, and down to the tool of the last one in the tree. */
async function running(rt: TestHarness, depth: number): Promise<readonly Agent[]> {
  rt.root.followup(message('go'));
  await until(() => {
    const agents = rt.harness.agents.list();
    return agents.length === depth && agents.every(({ session }) => has(session, 'tool/call'));
  });
  await settled();
  return rt.harness.agents.list();
}

const toolResults = ({ session }: Agent): string[] =>
  session.events.flatMap(({ type, data }) =>
    type === 'tool/result' ? [data.error?.code ?? JSON.stringify(data.message.content)] : [],
  );

describe('a parent that is told to stop while its call waits for a child', () => {
  it('waits until the child was ended by force, and goes on in its own thread', async () => {
    await using rt = await delegating({ ...endless, script: [delegates, callsEndless, 'On.'] });
    const [root, child] = await running(rt, 2);
    const thread = rt.threads.of(rt.root.id);
    rt.root.cancel(USER);
    await rt.clock.advance(4_999);
    expect([ends(root!.session), ends(child!.session)]).toEqual([[], []]);
    await rt.clock.advance(1);
    await rt.root.whenIdle();
    expect(ends(child!.session)).toEqual(['aborted parent']);
    expect(ends(root!.session)).toEqual(['aborted user']);
    expect(toolResults(root!)).toEqual([expect.stringContaining('was stopped before it finished')]);
    expect(rt.threads.of(rt.root.id)).toBe(thread);
    await rt.ask('on');
    expect(rt.threads.of(rt.root.id)).toBe(thread);
    expect(rt.clock.pending).toBe(0);
  });

  it('waits for a thread that takes its time to be gone, and blames no tool', async () => {
    await using rt = await delegating({ ...endless, script: [delegates, callsEndless] });
    const [root, child] = await running(rt, 2);
    const thread = rt.threads.of(child!.id);
    const kill = thread.kill.bind(thread);
    thread.kill = (reason) => void rt.clock.after(3_000, () => kill(reason));
    rt.root.cancel(USER);
    await rt.clock.advance(7_999);
    expect([ends(root!.session), rt.harness.agents.list().length]).toEqual([[], 2]);
    await rt.clock.advance(1);
    await rt.root.whenIdle();
    expect(rt.harness.agents.list()).toEqual([root]);
    expect(toolResults(root!)).toEqual([expect.stringContaining('was stopped before it finished')]);
    expect(rt.warnings).toEqual([]);
  });

  it('loses one thread of a deep tree, that of the one which does not obey', async () => {
    await using rt = await delegating({
      ...endless,
      script: [delegates, delegates, callsEndless],
    });
    const agents = await running(rt, 3);
    const killed: string[] = [];
    for (const { id } of agents) {
      const thread = rt.threads.of(id);
      const kill = thread.kill.bind(thread);
      thread.kill = (reason) => {
        killed.push(`${id} ${reason.code}`);
        kill(reason);
      };
    }
    rt.root.cancel(USER);
    await rt.clock.advance(5_000);
    await rt.root.whenIdle();
    expect(agents.map(({ session }) => ends(session))).toEqual([
      ['aborted user'],
      ['aborted parent'],
      ['aborted parent'],
    ]);
    expect(killed).toEqual([`${agents[2]!.id} WORKER_UNRESPONSIVE`]);
    expect(rt.clock.pending).toBe(0);
  });
});

it('a call that stops right before the grace is over has a thread that may hear of it', async () => {
  const tool = deafTool();
  await using rt = await delegating({ tools: [tool], script: [callsDeaf, 'On.'] });
  await running(rt, 1);
  rt.root.cancel(USER);
  await rt.clock.advance(4_999);
  tool.held.open();
  await rt.clock.advance(1);
  await rt.root.whenIdle();
  await rt.ask('on');
  expect(ends(rt.root.session)).toEqual(['aborted user', 'completed']);
  expect(rt.threads.all).toHaveLength(1);
});

describe('a call on main that does not stop', () => {
  it('is given up once a child would have been gone, and its agent keeps its thread', async () => {
    const tool = deafTool();
    await using rt = await delegating({ tools: [tool], script: [callsDeaf] });
    const [root] = await running(rt, 1);
    rt.root.cancel(USER);
    // Grace of a turn, grace of a thread, the end by force, and a margin.
    await rt.clock.advance(5_000 + 2_000 + 3_000 + 999);
    expect(ends(root!.session)).toEqual([]);
    await rt.clock.advance(1);
    await rt.root.whenIdle();
    expect(toolResults(root!)).toEqual(['TOOL_ABANDONED']);
    expect(ends(root!.session)).toEqual(['aborted user']);
    expect(rt.threads.all).toHaveLength(1);
    expect(rt.clock.pending).toBe(0);
    tool.held.open();
  });

  it('is given up in a disposal when the grace of that is over', async () => {
    const tool = deafTool();
    await using rt = await delegating({ tools: [tool], script: [callsDeaf] });
    const [root] = await running(rt, 1);
    const disposal = rt.rootHandle.dispose();
    await rt.clock.advance(1_999);
    expect(ends(root!.session)).toEqual([]);
    await rt.clock.advance(1);
    await disposal;
    expect(toolResults(root!)).toEqual(['TOOL_ABANDONED']);
    expect(ends(root!.session)).toEqual(['aborted disposed']);
    expect(rt.clock.pending).toBe(0);
    tool.held.open();
  });

  it('is warned of by its name, but not when it waits for a child that is being ended', async () => {
    const tool = deafTool();
    await using rt = await delegating({ tools: [tool], script: [callsDeaf] });
    await running(rt, 1);
    const disposal = rt.rootHandle.dispose();
    await rt.clock.advance(2_000);
    await disposal;
    expect(rt.warnings).toMatchObject([{ message: 'A tool ignored that it was to stop.' }]);
    tool.held.open();

    await using tree = await delegating({ ...endless, script: [delegates, callsEndless] });
    const [root] = await running(tree, 2);
    const ended = tree.rootHandle.dispose();
    await tree.clock.advance(2_000);
    await ended;
    expect(toolResults(root!)).toEqual(['TOOL_ABANDONED']);
    expect(tree.warnings).toEqual([]);
  });

  it('does not hold up the end of an agent that is disposed after it was cancelled', async () => {
    const tool = deafTool();
    await using rt = await delegating({ tools: [tool], script: [callsDeaf] });
    const [root] = await running(rt, 1);
    rt.root.cancel(USER);
    await rt.clock.advance(1_000);
    const disposal = rt.rootHandle.dispose();
    await rt.clock.advance(2_000);
    await disposal;
    expect(ends(root!.session)).toEqual(['aborted user']);
    tool.held.open();
  });

  it('keeps a thread that does not obey either for as long as it takes, and no longer', async () => {
    const tool = { ...deafTool(), ...overlapping };
    const { default: endlessTool } = await endless.threads.import();
    await using rt = await delegating({
      tools: [tool, ...endless.tools],
      threads: { import: () => Promise.resolve({ default: { ...endlessTool, ...overlapping } }) },
      script: [{ toolCalls: [...callsDeaf.toolCalls, ...callsEndless.toolCalls] }],
    });
    const [root] = await running(rt, 1);
    rt.root.cancel(USER);
    await rt.clock.advance(6_500);
    expect(ends(root!.session)).toEqual([]);
    tool.held.open();
    // At its next look it is not held up any more; a second later it has had time to hear of it.
    await rt.clock.advance(1_499);
    expect(ends(root!.session)).toEqual([]);
    await rt.clock.advance(1);
    await rt.root.whenIdle();
    expect(ends(root!.session)).toEqual(['aborted user']);
    expect(rt.clock.pending).toBe(0);
  });
});
