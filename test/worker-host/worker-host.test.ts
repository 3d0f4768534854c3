import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { WorkerError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { defineTool } from '../../protocol/tool.ts';
import { deferred } from '../../src/base/deferred.ts';
import { buildHarness } from '../../src/harness.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import type { HostTool } from '../../src/tools/registry.ts';
import { gate } from '../support/gate.ts';
import { testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import {
  USER,
  callsDeaf,
  callsEndless,
  deafTool,
  endless,
  ends,
  has,
  shown,
  statuses,
  waiting,
} from './agent-words.ts';
import { FakeThread } from './fake-thread.ts';

describe('a thread that does not obey', () => {
  it('is ended after the grace; the turn has the first cause, and a new thread goes on', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, ...endless, script: [callsEndless, 'B.', 'C.'] });
    const told = statuses(rt);
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await until(() => has(rt.root.session, 'tool/call'));
    await settled();
    rt.root.cancel(USER, { keepInbox: true });
    rt.root.followup(message('three'));
    await clock.advance(4_999);
    expect(ends(rt.root.session)).toEqual([]);
    await clock.advance(1);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user', 'completed', 'completed']);
    expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['one', 'two', 'three']);
    expect(rt.threads.all).toHaveLength(2);
    expect(told).toEqual(['running', 'idle']);
    const unknown = rt.root.session.events.find(({ type }) => type === 'tool/result');
    expect(unknown?.data).toMatchObject({ error: { code: 'TOOL_OUTCOME_UNKNOWN' } });
  });

  it('is ended within the grace of its disposal, and its turn closed', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, ...endless, script: [callsEndless] });
    rt.root.followup(message('one'));
    await until(() => has(rt.root.session, 'tool/call'));
    await settled();
    let isOver = false;
    const disposal = rt.rootHandle.dispose().then(() => (isOver = true));
    await clock.advance(1_999);
    expect(isOver).toBe(false);
    await clock.advance(1);
    await disposal;
    expect(ends(rt.root.session)).toEqual(['aborted disposed']);
    expect(clock.pending).toBe(0);
  });
});

describe('a thread that dies', () => {
  it('in a turn ends it with the error, and parks what waits for the next thread', async () => {
    await using rt = await testHarness({ script: [{ text: ['So far', gate()] }, 'B.', 'C.'] });
    const errors: string[] = [];
    rt.harness.on('agent/error', ({ turn, error }) => errors.push(`${turn} ${error.code}`));
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await until(() => has(rt.root.session, 'assistant/chunk'));
    rt.threads.of(rt.root.id).crash('Boom.');
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error WORKER_CRASHED']);
    expect(errors).toEqual(['1 WORKER_CRASHED']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    await rt.ask('three');
    expect(ends(rt.root.session).slice(1)).toEqual(['completed', 'completed']);
    expect(rt.threads.all).toHaveLength(2);
  });

  it('while its agent is idle is told of, and replaced at the next message', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    const errors: object[] = [];
    rt.harness.on('agent/error', ({ turn, error }) => errors.push({ turn, code: error.code }));
    await rt.ask('one');
    rt.threads.of(rt.root.id).crash();
    await settled();
    expect(errors).toEqual([{ turn: undefined, code: 'WORKER_CRASHED' }]);
    expect(rt.root.status).toBe('idle');
    await rt.ask('two');
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });

  it('between acceptance and claim leaves what was accepted waiting', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['A.', 'B.'] });
    const held = store.stall();
    rt.root.followup(message('one'));
    rt.threads.of(rt.root.id).crash();
    await settled();
    expect(rt.root.status).toBe('idle');
    held.open();
    await settled();
    expect(waiting(rt.root)).toEqual([[], ['one']]);
    expect(rt.model.requests).toEqual([]);
    await rt.ask('two');
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });

  it('cannot touch the log of its successor', async () => {
    await using rt = await testHarness({ script: [{ hold: gate() }, { hold: gate() }] });
    rt.root.followup(message('one'));
    await until(() => rt.model.requests.length === 1);
    const old = rt.threads.of(rt.root.id);
    old.crash();
    await rt.root.whenIdle();
    rt.root.followup(message('two'));
    await until(() => rt.model.requests.length === 2);
    const { seq } = rt.root.session;
    const late = { type: 'step/end', data: { turn: 2, step: 1 } };
    old.ports?.worker.postMessage(pack({ type: 'events', from: 0, events: [late] }));
    await settled();
    expect(rt.root.session.seq).toBe(seq);
    expect(rt.root.status).toBe('running');
    rt.root.cancel(USER);
    await rt.root.whenIdle();
  });

  it('and cannot be replaced leaves the agent idle, and what waits in place', async () => {
    const failure = new WorkerError('WORKER_START_FAILED', 'No thread today.');
    await using rt = await testHarness({
      script: ['A.', 'B.'],
      threads: { failStart: (index) => (index === 1 ? failure : undefined) },
    });
    const errors: string[] = [];
    await rt.ask('one');
    rt.threads.of(rt.root.id).crash();
    await settled();
    rt.harness.on('agent/error', ({ error }) => errors.push(error.code));
    await rt.ask('two');
    expect(errors).toEqual(['WORKER_START_FAILED']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    await rt.ask('three');
    expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['one', 'two', 'three']);
  });
});

describe('when threads are scarce', () => {
  it("takes an idle agent's thread, and brings another when that is told something", async () => {
    await using rt = await testHarness({ limits: { maxThreads: 1 }, script: ['A.', 'B.', 'C.'] });
    const other = await rt.harness.agents.create();
    await rt.ask('one', other.agent);
    await rt.ask('two');
    await rt.ask('three', other.agent);
    expect(shown(rt.model)).toEqual([['one'], ['two'], ['one', 'three']]);
    expect(rt.threads.all).toHaveLength(4);
  });

  it('runs a message that came while the thread was being taken', async () => {
    await using rt = await testHarness({ limits: { maxThreads: 1 }, script: ['A.', 'B.', 'C.'] });
    await rt.ask('one');
    const creation = rt.harness.agents.create();
    // The stop is on its way to the thread; the root does not wait for it to arrive.
    await until(() => rt.threads.of(rt.root.id).ports?.waiting('worker') === 1);
    rt.root.followup(message('two'));
    const other = await creation;
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
    await other.dispose();
  });

  it('lets an accepted message wait for an agent to become idle', async () => {
    const held = gate();
    await using rt = await testHarness({
      limits: { maxThreads: 1 },
      script: [{ hold: held, text: 'A.' }, 'B.'],
    });
    const other = await rt.harness.agents.create();
    rt.root.followup(message('one'));
    await until(() => rt.model.requests.length === 1);
    other.agent.followup(message('two'));
    await settled();
    expect(other.agent.status).toBe('running');
    expect(rt.model.requests).toHaveLength(1);
    held.open();
    await other.agent.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['two']]);
  });

  it('refuses the newest start when every agent waits for a child of its own', async () => {
    await using rt = await testHarness({ limits: { maxThreads: 1 } });
    await expect(rt.harness.agents.create({ owner: rt.root })).resolves.toBeDefined();
    // A child that a tool call of the only agent waits for can never get a thread.
    const refused = deferred<unknown>();
    await using full = await testHarness({
      limits: { maxThreads: 1 },
      script: [{ toolCalls: [{ name: 'delegate', arguments: {} }] }, 'No.'],
      tools: [
        defineTool<Agent>({
          name: 'delegate',
          description: 'Have a child.',
          parameters: { type: 'object' },
          async execute(_args, { agent }) {
            await full.harness.agents.create({ owner: agent }).catch(refused.resolve);
          },
        }) as HostTool,
      ],
    });
    await full.ask('go');
    expect(await refused.promise).toMatchObject({ code: 'CAPACITY' });
  });

  it('refuses every start that can never get a thread, and the turn goes on', async () => {
    await using rt = await testHarness({
      limits: { maxThreads: 1 },
      script: [
        {
          toolCalls: ['one', 'two', 'three'].map((prompt) => ({
            name: 'subagent',
            arguments: { description: prompt, prompt },
          })),
        },
        'Alone, then.',
      ],
    });
    rt.harness.tools.register(subagentTool(rt.harness.subagents, { provider: 'spawn' }));
    await rt.ask('go');
    const codes = rt.root.session.events.flatMap((event) =>
      event.type === 'tool/result' ? [event.data.error?.code] : [],
    );
    expect(codes).toEqual(['CAPACITY', 'CAPACITY', 'CAPACITY']);
    expect(rt.model.requests).toHaveLength(2);
  });

  it('runs a message that waited while the only thread went to a new agent', async () => {
    const held = gate();
    let holds = false;
    let isLoading = false;
    await using rt = await testHarness({
      limits: { maxThreads: 1 },
      script: ['One.', 'Two.'],
      tools: [{ module: new URL('file:///held.mjs') }],
      threads: {
        async import() {
          if (holds) {
            isLoading = true;
            await held.wait();
          }
          return { default: [] };
        },
      },
    });
    await rt.ask('one');
    holds = true;
    const creation = rt.harness.agents.create();
    await until(() => isLoading);
    // The thread is not the new agent's to give up before it is published.
    rt.root.followup(message('two'));
    await settled();
    held.open();
    await creation;
    await rt.root.whenIdle();
    expect(rt.model.requests).toHaveLength(2);
  });

  it('refuses a start that was made earlier when its agent begins to wait for it', async () => {
    let creation: Promise<unknown> = Promise.resolve();
    const parameters = { type: 'object' };
    await using rt = await testHarness({
      limits: { maxThreads: 1 },
      script: [
        { toolCalls: [{ name: 'begin', arguments: {} }] },
        { toolCalls: [{ name: 'wait', arguments: {} }] },
        'Done.',
      ],
      tools: [
        defineTool<Agent>({
          name: 'begin',
          description: 'Have a child, later.',
          parameters,
          execute(_args, { agent }) {
            creation = rt.harness.agents.create({ owner: agent });
            creation.catch(() => {});
          },
        }) as HostTool,
        { name: 'wait', description: 'Wait.', parameters, execute: () => creation.then(() => {}) },
      ],
    });
    await rt.ask('go');
    await expect(creation).rejects.toMatchObject({ code: 'CAPACITY' });
    expect(rt.model.requests).toHaveLength(3);
  });

  it('lets a start wait for an agent that is busy, though a child of it was started', async () => {
    const held = gate();
    await using rt = await testHarness({
      limits: { maxThreads: 1 },
      script: [{ hold: held, text: 'Done.' }],
    });
    rt.root.followup(message('go'));
    await until(() => rt.model.requests.length === 1);
    const creation = rt.harness.agents.create({ owner: rt.root });
    await settled();
    held.open();
    await expect(creation).resolves.toBeDefined();
  });
});

it('refuses nobody for want of threads while one is on its way out', async () => {
  const made: FakeThread[] = [];
  const harness = await buildHarness(
    { limits: { maxThreads: 2 }, workers: { warm: 0 } },
    {
      threads: () => (limits) => {
        made.push(new FakeThread(limits));
        return made.at(-1)!;
      },
    },
  );
  const bring = async (index: number): Promise<void> => {
    await until(() => made.length > index);
    made[index]!.comesUp();
    await settled();
    made[index]!.ports.worker.postMessage(pack({ type: 'ready', tools: [] }));
  };
  const make = async (index: number, owner?: Agent): Promise<Agent> => {
    const creation = harness.agents.create(owner === undefined ? {} : { owner });
    await bring(index);
    return (await creation).agent;
  };
  const root = await make(0);
  const child = await make(1, root);
  child.followup(message('go'));
  // The root is idle and gives its thread up; until that is gone, all seem to wait for children.
  const second = make(2, root);
  await settled();
  const third = make(3, child);
  await settled();
  made[0]!.goes(undefined);
  await second;
  await settled();
  // The second is idle as well.
  made[2]!.goes(undefined);
  await third;
  const disposal = harness.dispose();
  for (const thread of made) thread.goes(undefined);
  await disposal;
});

describe('disposing an agent', () => {
  it('whose thread is on its way leaves nothing of it', async () => {
    const held = gate();
    let holds = false;
    await using rt = await testHarness({
      tools: [{ module: new URL('file:///held.mjs') }],
      threads: {
        async import() {
          if (holds) await held.wait();
          return { default: [] };
        },
      },
    });
    rt.threads.of(rt.root.id).crash();
    await settled();
    holds = true;
    rt.root.followup(message('go'));
    await until(() => rt.threads.all.length === 2);
    await rt.rootHandle.dispose();
    expect(rt.root.status).toBe('idle');
    expect(has(rt.root.session, 'turn/start')).toBe(false);
    held.open();
  });

  it('in the middle of a turn ends it, and nothing happens afterwards', async () => {
    const tool = deafTool();
    await using rt = await testHarness({ tools: [tool], script: [callsDeaf] });
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await until(() => has(rt.root.session, 'tool/call'));
    const disposal = rt.rootHandle.dispose();
    tool.held.open();
    await disposal;
    const { seq } = rt.root.session;
    expect(ends(rt.root.session)).toEqual(['aborted disposed']);
    expect(waiting(rt.root)).toEqual([[], []]);
    await settled();
    expect(rt.root.session.seq).toBe(seq);
  });
});
