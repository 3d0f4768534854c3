import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { ObjectJsonSchema, SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { foldSubagentDescriptor } from '../../src/subagents/descriptor.ts';
import { eventTypes } from '../support/harness.ts';
import { forking, moduleModel, ownEvents, shown } from './forking.ts';
import { lookTool } from './spawning.ts';
import { rejection, text } from './stubs.ts';

const ownTypes = (agent: Agent): string[] => eventTypes({ events: ownEvents(agent) });
const turns = (events: readonly SessionEvent[]): number[] =>
  events.flatMap((event) => (event.type === 'turn/start' ? [event.data.turn] : []));

describe('fork', () => {
  it('makes a fresh child for a parent without a finished turn', async () => {
    await using t = await forking({ script: ['Done.'] });
    const { child, result } = await t.run();
    expect(result).toEqual({ output: [text('Done.')], stopReason: 'completed' });
    expect(child.session.header).not.toHaveProperty('seedLength');
    expect(eventTypes(child.session)[0]).toBe('agent/inbox/spliced');
    expect(shown(t.model.requests[0]!)).toContain('user: Work.');
  });

  it('begins with the very events of the finished turns of its parent', async () => {
    await using t = await forking({ script: ['One.', 'Two.', 'Done.'] });
    await t.ask('First?');
    await t.ask('Second?');
    const inherited = t.root.session.events;
    const { child } = await t.run();
    expect(child.session.header.seedLength).toBe(inherited.length);
    const seed = child.session.events.slice(0, inherited.length);
    expect(seed.every((event, index) => event === inherited[index])).toBe(true);
    expect(seed.at(-1)!.type).toBe('turn/end');
    expect(seed.filter(({ type }) => type === 'turn/end')).toHaveLength(2);
    expect(child.session.events.every(({ seq }, index) => seq === index)).toBe(true);
    expect(ownTypes(child).slice(0, 7)).toEqual([
      'session/end-seed',
      'agent/inbox/spliced',
      'turn/start',
      'agent/inbox/spliced',
      'subagent/descriptor',
      'step/start',
      'user/message',
    ]);
  });

  it('goes on with the turns and the request of its parent, and shows its model both', async () => {
    const { tool } = lookTool();
    await using t = await forking({
      tools: [tool],
      script: [{ toolCalls: [{ name: 'look', arguments: {} }] }, 'Seen.', 'Done.'],
    });
    await t.ask('Look!');
    const { child, result } = await t.run();
    expect(result).toEqual({ output: [text('Done.')], stopReason: 'completed' });
    expect(turns(ownEvents(child))).toEqual([2]);
    const request = ownEvents(child).find(({ type }) => type === 'request/header');
    expect(request!.data).toMatchObject({ reason: 'resume' });
    const [before, task] = [shown(t.model.requests[1]!), shown(t.model.requests[2]!)];
    expect(before).toEqual(expect.arrayContaining(['user: Look!', 'user has a result']));
    expect(task.slice(0, before.length + 1)).toEqual([...before, 'assistant: Seen.']);
    expect(task.slice(before.length + 1)).toContain('user: Work.');
  });

  it('leaves an open turn of its parent out', async () => {
    const asked = gate();
    const hold = gate();
    await using t = await forking({
      script: (request) => {
        const said = shown(request);
        if (said.includes('user: Work.')) return said.includes('user: Second?') ? 'Both.' : 'One.';
        if (!said.includes('user: Second?')) return 'First.';
        asked.open();
        return { text: ['Half', hold, '.'] };
      },
    });
    await t.ask('First?');
    const finished = t.root.session.seq;
    t.root.followup(createUserMessage('Second?'));
    await asked.wait();
    const { child, result } = await t.run();
    expect(result.output).toEqual([text('One.')]);
    expect(child.session.header.seedLength).toBe(finished);
    expect(turns(child.session.events)).toEqual([1, 2]);
    hold.open();
    await t.root.whenIdle();
  });

  it('borrows no word of its parent', async () => {
    await using t = await forking({ script: ['Said by the parent.', {}] });
    await t.ask('Hello.');
    const { result } = await t.run();
    expect(result).toEqual({ output: [], stopReason: 'completed' });
  });

  it('can be looked up while its start is told', async () => {
    await using t = await forking({ script: ['One.', 'Done.'] });
    await t.ask('First?');
    const found: unknown[] = [];
    t.harness.on('subagent/start', ({ id, local }) =>
      found.push([t.harness.agents.get(id), local]),
    );
    const { run } = await t.run();
    expect(found).toEqual([[run.localAgent, true]]);
  });

  it('has nothing in its inbox of what waited for its parent, and tells nobody of it', async () => {
    const [first, second] = [gate(), gate()];
    const [firstAsked, secondAsked] = [gate(), gate()];
    await using t = await forking({
      script: (request) => {
        const said = shown(request);
        if (said.includes('user: Work.')) return 'Done.';
        const isFirst = !said.includes('user: Second?');
        (isFirst ? firstAsked : secondAsked).open();
        return { text: ['Said.', isFirst ? first : second] };
      },
    });
    t.root.followup(createUserMessage('First?'));
    await firstAsked.wait();
    // Accepted in the first turn, which is inherited, and claimed in the second, which is not.
    t.root.followup(createUserMessage('Second?'));
    first.open();
    await secondAsked.wait();
    const told: string[] = [];
    t.harness.on('session/event', ({ session, event }) => {
      if (session.id !== t.root.id) told.push(event.type);
    });
    const run = await t.start();
    const child = run.localAgent!;
    expect(child.session.completedTurns()!.map(({ data }) => JSON.stringify(data))).toContainEqual(
      expect.stringMatching(/"next-turn".*Second\?/),
    );
    expect(child.inbox.nextTurn).toMatchObject([{ content: [text('Work.')] }]);
    expect(child.inbox.nextStep).toEqual([]);
    expect((await run.result).output).toEqual([text('Done.')]);
    await run.dispose();
    // The mark of the seed's end stands before the child is live.
    expect(told[0]).toBe('agent/inbox/spliced');
    expect(told).toHaveLength(ownEvents(child).length - 1);
    second.open();
    await t.root.whenIdle();
  });

  it('is kept whole, and opens again with an inbox of its own', async () => {
    await using t = await forking({ script: ['One.', 'Done.'] });
    await t.ask('First?');
    const { child } = await t.run();
    const stored = await t.harness.sessionPersistence.inspect(child.id);
    expect(stored.header).toEqual(child.session.header);
    expect(stored.events).toEqual(child.session.events);
    const again = await t.harness.agents.resume(child.id);
    expect(again.agent.inbox.hasPending).toBe(false);
    expect(again.agent.session.header.seedLength).toBe(child.session.header.seedLength);
  });

  it('is what its parent was at the call, whatever that does while it is made', async () => {
    const up = gate();
    await using t = await forking({
      script: () => 'Said.',
      models: { module: moduleModel },
      threads: {
        async import() {
          await up.wait();
          return { default: scriptedModel(['Done.']) };
        },
      },
    });
    await t.ask('First?');
    const finished = t.root.session.seq;
    const starting = t.start({ agentOptions: { provider: 'module', model: 'm' } });
    await t.ask('Second?');
    expect(t.root.session.seq).toBeGreaterThan(finished);
    up.open();
    const run = await starting;
    expect((await run.result).output).toEqual([text('Done.')]);
    expect(run.localAgent!.session.header.seedLength).toBe(finished);
    await run.dispose();
  });

  it('is not published when its parent ends while it is made', async () => {
    await using t = await forking({ script: ['One.'] });
    await t.ask('First?');
    const told: string[] = [];
    t.harness.on('agent/created', () => told.push('created'));
    t.harness.on('subagent/start', () => told.push('start'));
    const starting = t.start();
    const ending = t.rootHandle.dispose();
    expect(await rejection(starting)).toMatchObject({ code: 'UNAUTHORIZED' });
    await ending;
    expect(told).toEqual([]);
    expect(t.live()).toEqual({ agents: 0, sessions: 0 });
  });

  it('can be forked: the grandchild begins with both, and has a descriptor of its own', async () => {
    await using t = await forking({ script: () => 'Said.' });
    await t.ask('First?');
    const inherited = t.root.session.seq;
    const middle = await t.start({ label: 'middle' });
    await middle.result;
    const parent = middle.localAgent!;
    expect(parent.session.header.seedLength).toBe(inherited);
    const { child } = await t.run({ parent, label: 'grandchild' });
    expect(child.session.header).toMatchObject({
      seedLength: parent.session.seq,
      delegationDepth: 2,
    });
    expect(child.session.events.slice(0, parent.session.seq)).toEqual(parent.session.events);
    expect(turns(child.session.events)).toEqual([1, 2, 3]);
    expect(foldSubagentDescriptor(ownEvents(child))).toMatchObject({ label: 'grandchild' });
    expect(foldSubagentDescriptor(ownEvents(parent))).toMatchObject({ label: 'middle' });
    await middle.dispose();
  });

  it('hands a grandchild what it inherited itself, while its own first turn is open', async () => {
    const asked = gate();
    const hold = gate();
    await using t = await forking({
      script: (request) => {
        const tasks = shown(request).filter((line) => line.startsWith('user: Work'));
        if (tasks.length === 0) return 'Said.';
        if (tasks[0] === 'user: Work below.') return 'Below.';
        asked.open();
        return { text: [hold, 'Above.'] };
      },
    });
    await t.ask('First?');
    const inherited = t.root.session.seq;
    const middle = await t.start();
    await asked.wait();
    const { child, result } = await t.run({
      parent: middle.localAgent!,
      prompt: [text('Work below.')],
    });
    expect(result.output).toEqual([text('Below.')]);
    expect(child.session.header.seedLength).toBe(inherited);
    hold.open();
    expect((await middle.result).output).toEqual([text('Above.')]);
    await middle.dispose();
  });

  it('begins with what the embedding program was told, if that is its parent', async () => {
    await using t = await forking({ script: ['Done.'] });
    const answered = gate();
    const host = await t.harness.agents.createHost({ onMessage: () => answered.open() });
    host.agent.followup(createUserMessage('For the program.'));
    await answered.wait();
    await host.agent.whenIdle();
    const { child, result } = await t.run({ parent: host.agent });
    expect(result.output).toEqual([text('Done.')]);
    expect(child.session.header.seedLength).toBe(host.agent.session.seq);
    expect(shown(t.model.requests[0]!)).toEqual(
      expect.arrayContaining(['user: For the program.', 'user: Work.']),
    );
  });

  it('can be asked for a persona, a filter and a schema like any child', async () => {
    const schema: ObjectJsonSchema = { type: 'object', properties: { n: { type: 'integer' } } };
    const { tool } = lookTool();
    await using t = await forking({
      persona: 'You lead.',
      tools: [tool],
      script: ['One.', { toolCalls: [{ name: 'structured_output', arguments: { n: 1 } }] }],
    });
    await t.ask('First?');
    const { result } = await t.run({
      persona: 'You count.',
      toolFilter: { deny: ['look'] },
      outputSchema: schema,
    });
    expect(result).toMatchObject({ structured: { n: 1 }, stopReason: 'completed' });
    const [, asked] = t.model.requests;
    expect(asked!.system).toMatch(/^You count\./);
    expect(asked!.tools!.map(({ name }) => name)).toEqual(['structured_output']);
  });

  it('works beside a spawned child, and their parent goes on', async () => {
    await using t = await forking({
      script: (request) => (shown(request).includes('user: First?') ? 'I know.' : 'I do not.'),
    });
    await t.ask('First?');
    const [forked, spawned] = await Promise.all([t.run(), t.run({}, 'spawn')]);
    expect(forked.result).toEqual({ output: [text('I know.')], stopReason: 'completed' });
    expect(spawned.result).toEqual({ output: [text('I do not.')], stopReason: 'completed' });
    expect(spawned.child.session.header).not.toHaveProperty('seedLength');
    await t.ask('And now?');
    expect(turns(t.root.session.events)).toEqual([1, 2]);
  });

  it('says what is inherited by both, and can do the same', async () => {
    await using t = await forking();
    const [first, second] = t.harness.subagents.list();
    expect([first, second]).toEqual(['spawn', 'fork']);
    const known = [first, second].map((name) => t.harness.subagents.getProvider(name!)!);
    expect(known.map((one) => one.inheritsParentContext)).toEqual([false, true]);
    for (const { capabilities } of known) {
      expect(Object.values(capabilities)).toEqual([true, true, true, true]);
    }
  });
});

describe('what a durable child would begin with', () => {
  const prepare = (t: Awaited<ReturnType<typeof forking>>, name: string) =>
    t.harness.subagents.getProvider(name)!.prepareContinuable!({
      sessionId: SessionId('child'),
      parent: t.root,
      signal: new AbortController().signal,
    });

  it('is the finished turns of its parent from fork, and nothing from spawn', async () => {
    await using t = await forking({ script: ['One.'] });
    expect(await prepare(t, 'fork')).toStrictEqual({});
    await t.ask('First?');
    const { seed } = await prepare(t, 'fork');
    expect(seed).toEqual(t.root.session.events);
    expect(seed!.map(({ seq }) => seq)).toEqual([...seed!.keys()]);
    expect(seed!.at(-1)!.type).toBe('turn/end');
    expect(await prepare(t, 'spawn')).toStrictEqual({});
  });

  it('is not told to who gave up', async () => {
    await using t = await forking();
    const reason = new Error('stop');
    for (const name of ['fork', 'spawn']) {
      const preparing = t.harness.subagents.getProvider(name)!.prepareContinuable!({
        sessionId: SessionId('child'),
        parent: t.root,
        signal: AbortSignal.abort(reason),
      });
      expect(await rejection(preparing)).toBe(reason);
    }
  });
});
