import { describe, expect, it, vi } from 'vitest';
import { ArgumentError, SubagentDepthError, ToolFilterError } from '../../protocol/errors.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SessionEventOf } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { delegationContext } from '../../src/prompt/delegation.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import { eventTypes } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { heldModel, lookTool, resultCodes, spawning } from './spawning.ts';
import { rejection, text } from './stubs.ts';

/** All that is told of agents and delegations coming and going. */
function edges({ harness }: TestHarness): string[] {
  const told: string[] = [];
  harness.on('session/created', () => told.push('session/created'));
  harness.on('agent/created', () => told.push('agent/created'));
  harness.on('subagent/start', () => told.push('subagent/start'));
  harness.on('subagent/end', () => told.push('subagent/end'));
  return told;
}

const turnEnd = (agent: Agent) =>
  agent.session.events.findLast(
    (event): event is SessionEventOf<'turn/end'> => event.type === 'turn/end',
  )?.data.reason;
const userTexts = ({ messages }: ModelRequest): string[] =>
  messages.flatMap(({ role, content }) =>
    role === 'user' ? content.flatMap((b) => (b.type === 'text' ? [b.text] : [])) : [],
  );

describe('spawn', () => {
  it('runs a child to its end and releases it', async () => {
    await using t = await spawning({ script: ['The answer.'] });
    const run = await t.start();
    const child = run.localAgent!;
    expect(run.id).toBe(child.id);
    expect(await run.result).toEqual({ output: [text('The answer.')], stopReason: 'completed' });
    expect(child.session.header).toMatchObject({
      parentSession: t.root.id,
      origin: 'subagent',
      delegationDepth: 1,
    });
    expect(child.options.subagentDepth).toBe(1);
    expect(userTexts(t.model.requests[0]!)).toEqual([
      'Work.',
      expect.stringContaining(delegationContext.text),
    ]);
    await run.dispose();
    await run.dispose();
    expect(t.harness.agents.get(run.id)).toBeUndefined();
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('can be looked up while its start is told', async () => {
    await using t = await spawning({ script: ['Hi.'] });
    const found: unknown[] = [];
    t.harness.on('subagent/start', ({ id, local }) =>
      found.push([t.harness.agents.get(id), local]),
    );
    const { run } = await t.run();
    expect(found).toEqual([[run.localAgent, true]]);
  });

  it('tells its start and its end in order, with what it said', async () => {
    await using t = await spawning({ script: ['Hi.'] });
    const ends: unknown[] = [];
    const told = edges(t);
    t.harness.on('subagent/end', (info) => ends.push(info), { agent: t.root });
    const { run } = await t.run();
    expect(told).toEqual(['session/created', 'agent/created', 'subagent/start', 'subagent/end']);
    expect(ends).toMatchObject([
      { id: run.id, stopReason: 'completed', lastAssistantMessage: [text('Hi.')] },
    ]);
  });

  it('refuses a signal that was aborted already, before anything is made', async () => {
    await using t = await spawning();
    const told = edges(t);
    const reason = new Error('stop');
    const error = await rejection(t.start({ signal: AbortSignal.abort(reason) }));
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as Error).cause).toBe(reason);
    expect(told).toEqual([]);
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('is not published when the caller aborts in the tick of the call', async () => {
    await using t = await spawning();
    const told = edges(t);
    const controller = new AbortController();
    const reason = new Error('changed my mind');
    const starting = t.start({ signal: controller.signal });
    controller.abort(reason);
    expect(await rejection(starting)).toBe(reason);
    expect(told).toEqual([]);
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('stops with the signal of its caller, keeps what it streamed, and says whose stop it was', async () => {
    const { asked, signals, script } = heldModel('Half');
    await using t = await spawning({ script });
    const controller = new AbortController();
    const run = await t.start({ signal: controller.signal });
    await asked.wait();
    controller.abort();
    expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
    expect((signals[0]!.reason as DOMException).cause).toEqual({ kind: 'parent' });
    expect(turnEnd(run.localAgent!)).toEqual({ kind: 'aborted', reason: { kind: 'parent' } });
    await run.dispose();
  });

  it('is stopped by its disposal, which waits until it is quiet', async () => {
    const { asked, signals, script } = heldModel('Half');
    await using t = await spawning({ script });
    const run = await t.start();
    await asked.wait();
    await run.dispose();
    expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
    expect(signals[0]!.aborted).toBe(true);
    expect(turnEnd(run.localAgent!)).toEqual({ kind: 'aborted', reason: { kind: 'parent' } });
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('is told nothing when the abort comes while it is published', async () => {
    await using t = await spawning();
    const controller = new AbortController();
    const off = t.harness.on('agent/created', () => controller.abort());
    const run = await t.start({ signal: controller.signal });
    off();
    expect(run.id).toBe(run.localAgent!.id);
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
    expect(run.localAgent!.session.events).toEqual([]);
    await run.dispose();
    expect(t.model.requests).toEqual([]);
    expect(await t.harness.sessionPersistence.list()).toEqual([]);
  });

  it('leaves nothing behind when its tool filter names no tool that exists', async () => {
    await using t = await spawning();
    const told = edges(t);
    for (const toolFilter of [{ deny: ['nobody_knows'] }, {}]) {
      expect(await rejection(t.start({ toolFilter }))).toBeInstanceOf(ToolFilterError);
    }
    expect(told).toEqual([]);
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('cannot be started by a parent that has ended', async () => {
    await using t = await spawning();
    await t.rootHandle.dispose();
    expect(await rejection(t.start())).toMatchObject({ code: 'UNAUTHORIZED' });
    expect(t.live()).toEqual({ agents: 0, sessions: 0 });
  });

  it('is not published when its parent ends while it is made', async () => {
    await using t = await spawning();
    const told = edges(t);
    const starting = t.start();
    const ending = t.rootHandle.dispose();
    expect(await rejection(starting)).toMatchObject({ code: 'UNAUTHORIZED' });
    await ending;
    expect(told).toEqual([]);
    expect(t.live()).toEqual({ agents: 0, sessions: 0 });
  });

  it('ends with its parent', async () => {
    const { asked, script } = heldModel('Half');
    await using t = await spawning({ script });
    const run = await t.start();
    await asked.wait();
    await t.rootHandle.dispose();
    expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
    expect(t.live()).toEqual({ agents: 0, sessions: 0 });
    await run.dispose();
  });

  it('says that its model reached the token limit, and keeps the text', async () => {
    await using t = await spawning({ script: [{ text: 'So far', finish: 'max-tokens' }] });
    expect((await t.run()).result).toEqual({ output: [text('So far')], stopReason: 'max-tokens' });
  });

  it('fails with its model, and names the failure', async () => {
    const failure = { code: 'AUTH', message: 'no key' };
    await using t = await spawning({ script: [{ failure }] });
    expect((await t.run()).result).toEqual({
      output: [],
      stopReason: 'error',
      diagnostic: 'AUTH: no key',
    });
  });

  it('keeps the text of an earlier step when the last one had room for usage only', async () => {
    const usage = { inputTokens: 1, outputTokens: 1 };
    await using t = await spawning({
      tools: [lookTool().tool],
      script: [
        { text: 'I look.', toolCalls: [{ name: 'look', arguments: {} }] },
        { usage, finish: 'max-tokens' },
      ],
    });
    const { result } = await t.run();
    expect(result.stopReason).toBe('max-tokens');
    expect(result.output).toMatchObject([text('I look.'), { type: 'tool-call', name: 'look' }]);
  });

  it('needs no flush at its end', async () => {
    await using t = await spawning({ script: ['Done.'] });
    const flush = vi.spyOn(t.harness.sessions, 'flush').mockRejectedValue(new Error('full'));
    expect((await t.run()).result.stopReason).toBe('completed');
    expect(flush).not.toHaveBeenCalled();
  });

  it('invents no route: without one its turn fails', async () => {
    await using t = await spawning();
    const { agent: parent } = await t.harness.agents.create({ agentOptions: {} });
    const { child, result } = await t.run({ parent });
    expect(child.options).toStrictEqual({ subagentDepth: 1 });
    expect(result).toMatchObject({ output: [], stopReason: 'error' });
  });

  it('has the default model when its parent is the embedding program', async () => {
    await using t = await spawning({ script: ['Done.'] });
    const host = await t.harness.agents.createHost();
    const { result } = await t.run({ parent: host.agent });
    expect(result).toEqual({ output: [text('Done.')], stopReason: 'completed' });
  });

  it('works where its parent works', async () => {
    await using t = await spawning({ script: () => 'Done.' });
    const { agent: parent } = await t.harness.agents.create({ meta: { cwd: '/srv' } });
    expect((await t.run({ parent })).child.session.header.cwd).toBe('/srv');
    expect((await t.run()).child.session.header).not.toHaveProperty('cwd');
  });

  it('has the options of its parent, under its own', async () => {
    await using t = await spawning({ script: () => 'Done.' });
    const { agent: parent } = await t.harness.agents.create({
      agentOptions: { provider: 'script', model: 'big', maxTokens: 111 },
    });
    await t.run({ parent });
    await t.run({ parent, agentOptions: { maxTokens: 222, model: 'small' } });
    expect(t.model.requests.map(({ model, maxTokens }) => [model, maxTokens])).toEqual([
      ['big', 111],
      ['small', 222],
    ]);
  });

  it('writes its descriptor once, in its first turn, before the first step', async () => {
    const { tool } = lookTool();
    const step = { toolCalls: [{ name: 'look', arguments: {} }] };
    await using t = await spawning({ tools: [tool], script: [step, step, 'Done.'] });
    const { child } = await t.run({ label: 'read the docs' });
    expect(eventTypes(child.session).filter((type) => type === 'step/start')).toHaveLength(3);
    expect(eventTypes(child.session).slice(0, 6)).toEqual([
      'agent/inbox/spliced',
      'turn/start',
      'agent/inbox/spliced',
      'subagent/descriptor',
      'step/start',
      'user/message',
    ]);
    const written = child.session.events.filter(({ type }) => type === 'subagent/descriptor');
    expect(written.map(({ data }) => data)).toEqual([
      { version: 1, mode: 'one-shot', provider: 'spawn', label: 'read the docs' },
    ]);
  });

  it('is told once that it was delegated to, beside its prompt and behind its task', async () => {
    const { tool } = lookTool();
    await using t = await spawning({
      tools: [tool],
      script: [{ toolCalls: [{ name: 'look', arguments: {} }] }, 'Done.', 'The parent.'],
    });
    const { child } = await t.run({ persona: 'You are terse.' });
    await t.ask('Hello.');
    const told = child.session.events.flatMap((event) =>
      event.type === 'user/message' ? [event.data.source] : [],
    );
    const { name, text: words } = delegationContext;
    expect(told).toEqual([
      { kind: 'user' },
      { kind: 'plugin', plugin: 'prompt', form: 'snapshot', sections: [{ name, text: words }] },
    ]);
    expect(t.model.requests.map(({ system }) => system)).toEqual([
      'You are terse.',
      'You are terse.',
      undefined,
    ]);
    expect(userTexts(t.model.requests[2]!)).toEqual(['Hello.']);
  });

  it('gives a run that cannot be steered or resumed', async () => {
    await using t = await spawning({ script: ['Done.'] });
    const { run } = await t.run();
    for (const name of ['steer', 'resume', 'followup', 'sendMessage']) {
      expect(run).not.toHaveProperty(name);
    }
  });

  it('refuses what is no content as its prompt', async () => {
    await using t = await spawning();
    for (const prompt of [undefined, [{ text: 'no type' }], [null]]) {
      expect(await rejection(t.start({ prompt: prompt as never }))).toBeInstanceOf(ArgumentError);
    }
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('refuses a model provider that is not there', async () => {
    await using t = await spawning();
    const error = await rejection(t.start({ agentOptions: { provider: 'nobody' } }));
    expect(error).toBeInstanceOf(ArgumentError);
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('is held to the cap of its own start and to that of the harness', async () => {
    await using t = await spawning({ limits: { maxDepth: 1 }, script: () => 'Done.' });
    expect(await rejection(t.start({ maxDepth: 0 }))).toEqual(new SubagentDepthError(1, 0));
    const run = await t.start({ maxDepth: 5 });
    const error = await rejection(t.start({ parent: run.localAgent!, maxDepth: 5 }));
    expect(error).toEqual(new SubagentDepthError(2, 1));
    await run.dispose();
  });

  it('counts the recorded depth of a parent that was resumed without one', async () => {
    await using t = await spawning({ script: () => 'Done.' });
    const { child } = await t.run();
    const resumed = await t.harness.agents.resume(child.id);
    const error = await rejection(t.start({ parent: resumed.agent, maxDepth: 1 }));
    expect(error).toEqual(new SubagentDepthError(2, 1));
  });

  it('speaks with a persona of its own', async () => {
    await using t = await spawning({ persona: 'You lead.', script: () => 'Done.' });
    await t.run({ persona: 'You read.' });
    await t.run({ persona: '' });
    await t.ask('Hello.');
    expect(t.model.requests.map(({ system }) => system)).toEqual([
      'You read.',
      undefined,
      'You lead.',
    ]);
  });

  it('has no tool that its filter hides, not even when its model calls it', async () => {
    const look = lookTool();
    await using t = await spawning({
      tools: [look.tool],
      script: [{ toolCalls: [{ name: 'look', arguments: {} }] }, 'Then not.'],
    });
    const { result, child } = await t.run({ toolFilter: { deny: ['look'] } });
    expect(t.model.requests[0]).not.toHaveProperty('tools');
    expect(result).toMatchObject({ output: [text('Then not.')], stopReason: 'completed' });
    expect(resultCodes(child)).toEqual(['UNKNOWN_TOOL']);
    expect(look.calls).toEqual([]);
  });

  it('has no tool that is hidden from its parent, whatever its own filter allows', async () => {
    await using t = await spawning({ tools: [lookTool().tool], script: ['Above.', 'Below.'] });
    const above = await t.start({ toolFilter: { deny: ['look'] } });
    await above.result;
    const parent = t.harness.agents.get(above.id as never)!;
    const below = await t.start({ parent, toolFilter: { allow: ['look'] } });
    await below.result;
    expect(t.model.requests.map(({ tools }) => tools)).toEqual([undefined, undefined]);
    await below.dispose();
    await above.dispose();
  });

  it('delegates further, down to the cap, through the tool', async () => {
    const depths: number[] = [];
    await using t = await spawning({
      limits: { maxDepth: 3 },
      script: (request) => {
        const agent = t.harness.agents.get(request.sessionId as never)!;
        const last = request.messages.at(-1)!.content[0]!;
        const depth = agent.session.header.delegationDepth ?? 0;
        depths.push(depth);
        if (last.type === 'tool-result') {
          const [block] = last.content;
          return block?.type === 'text' ? `${depth}>${block.text}` : 'nothing';
        }
        const args = { description: 'go on', prompt: 'Go on.' };
        return { toolCalls: [{ name: 'subagent', arguments: args }] };
      },
    });
    t.harness.tools.register(subagentTool(t.harness.subagents, { provider: 'spawn' }));
    await t.ask('Go.');
    const [block] = t.root.session.deriveMessages().at(-1)!.content;
    expect(block).toMatchObject({
      text: expect.stringMatching(/^0>1>2>3>Error: You cannot/) as string,
    });
    expect(depths).toEqual([0, 1, 2, 3, 3, 2, 1, 0]);
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });
});
