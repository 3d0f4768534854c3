import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { textOf } from '../../protocol/content.ts';
import { StoreError, WorkerError } from '../../protocol/errors.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SessionEventType } from '../../protocol/session-events.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { Session } from '../../src/session/session.ts';
import type { ScriptedModel } from '../../src/models/scripted.ts';
import { gate } from '../support/gate.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';

const message = createUserMessage;
const USER = { kind: 'user' } as const;

const ends = (session: Session): string[] =>
  session.events.flatMap((event) => {
    if (event.type !== 'turn/end') return [];
    const { reason } = event.data;
    if (reason.kind === 'error') return [`error ${reason.error.code}`];
    return [reason.kind === 'aborted' ? `aborted ${reason.reason.kind}` : reason.kind];
  });
/** What the user said, as each request showed it. */
const shown = ({ requests }: ScriptedModel): string[][] =>
  requests.map(({ messages }: ModelRequest) =>
    messages
      .filter(({ role, source }) => role === 'user' && source.kind !== 'tool')
      .map(({ content }) => textOf(content)),
  );
const waiting = ({ inbox }: Agent): string[][] => [
  inbox.nextStep.map(({ content }) => textOf(content)),
  inbox.nextTurn.map(({ content }) => textOf(content)),
];
const has = (session: Session, type: SessionEventType): boolean =>
  session.events.some((event) => event.type === type);

const saysText = ({ events }: Session): boolean =>
  events.some(({ type, data }) => type === 'assistant/chunk' && data.chunk.type === 'text-delta');

function statuses(rt: TestHarness, agent = rt.root): string[] {
  const told: string[] = [];
  rt.harness.on('agent/status', ({ status }) => told.push(status), { agent });
  return told;
}

/** A tool on main that is held open, and does not look at its signal. */
function deafTool(): ToolDefinition<Agent> & { readonly held: ReturnType<typeof gate> } {
  const held = gate();
  return {
    held,
    name: 'deaf',
    description: 'Waits.',
    parameters: { type: 'object' },
    async execute() {
      await held.wait();
      return 'heard';
    },
  };
}
const callsDeaf = { toolCalls: [{ name: 'deaf', arguments: {} }] };

describe('a waking message', () => {
  it('makes the agent running at once, and runs when it is committed', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['Hello.'] });
    const told = statuses(rt);
    const held = store.stall();
    rt.root.followup(message('Hi'));
    expect(rt.root.status).toBe('running');
    await settled();
    expect(waiting(rt.root)).toEqual([[], ['Hi']]);
    expect(has(rt.root.session, 'turn/start')).toBe(false);
    held.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['completed']);
    expect(told).toEqual(['running', 'idle']);
  });

  it('that cannot be committed is withdrawn, and nothing of it runs', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['Hello.'] });
    const errors: object[] = [];
    rt.harness.on('agent/error', ({ error }) => errors.push(error));
    store.failure = new StoreError('STORE_FULL', 'The disk is full.');
    rt.root.followup(message('Hi'));
    await rt.root.whenIdle();
    expect(errors).toMatchObject([{ code: 'STORE_FULL' }]);
    expect(waiting(rt.root)).toEqual([[], []]);
    expect(rt.model.requests).toEqual([]);
    store.failure = undefined;
    await rt.ask('Again');
    expect(shown(rt.model)).toEqual([['Again']]);
  });

  it('that is removed before it is claimed leaves a running and an idle, and no turn', async () => {
    await using rt = await testHarness();
    const told = statuses(rt);
    const one = message('Hi');
    rt.root.followup(one);
    rt.root.cancel(USER);
    expect(waiting(rt.root)).toEqual([[], []]);
    await rt.root.whenIdle();
    expect(told).toEqual(['running', 'idle']);
    expect(has(rt.root.session, 'turn/start')).toBe(false);
  });

  it('opens one turn of its own, and status is told once for all of them', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    const told = statuses(rt);
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
    expect(told).toEqual(['running', 'idle']);
  });

  it('that is sent by whoever hears that the agent is idle is run as well', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    let isFirst = true;
    rt.harness.on('agent/status', ({ agent, status }) => {
      if (status !== 'idle' || !isFirst) return;
      isFirst = false;
      agent.followup(message('two'));
    });
    rt.root.followup(message('one'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });

  it('that is accepted while the loop asks for more is run without another', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    // Between the end of the turn and the claim that follows it.
    rt.harness.on('session/event', ({ session, event }) => {
      if (event.type !== 'turn/end' || event.data.turn !== 1) return;
      queueMicrotask(() => rt.harness.agents.get(session.id)?.followup(message('two')));
    });
    rt.root.followup(message('one'));
    await rt.root.whenIdle();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });
});

describe('steering and injecting', () => {
  it('joins the running turn at its next step', async () => {
    const tool = deafTool();
    await using rt = await testHarness({ tools: [tool], script: [callsDeaf, 'Done.'] });
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'tool/call'));
    rt.root.steer(message('left'));
    rt.root.inject(message('aside'));
    tool.held.open();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['go'], ['go', 'left', 'aside']]);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('adds a step to a turn that would have ended', async () => {
    const held = gate();
    await using rt = await testHarness({ script: [{ hold: held, text: 'A.' }, 'B.'] });
    rt.root.followup(message('go'));
    await until(() => rt.model.requests.length === 1);
    rt.root.inject(message('aside'));
    held.open();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['go'], ['go', 'aside']]);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('of an idle agent opens a turn when it wakes, and waits when it does not', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    rt.root.inject(message('aside'));
    await settled();
    expect(rt.root.status).toBe('idle');
    expect(waiting(rt.root)).toEqual([['aside'], []]);
    rt.root.steer(message('now'));
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['aside', 'now']]);
  });
});

describe('cancelling', () => {
  it('an idle agent discards what waits, and arms nothing for later', async () => {
    await using rt = await testHarness({ script: ['A.'] });
    rt.root.inject(message('aside'));
    rt.root.cancel(USER, { keepInbox: true });
    expect(waiting(rt.root)).toEqual([['aside'], []]);
    rt.root.cancel(USER);
    expect(waiting(rt.root)).toEqual([[], []]);
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('stops a stream of main at once, and keeps what was visible', async () => {
    const held = gate();
    const clock = new ManualClock();
    const signals: AbortSignal[] = [];
    await using rt = await testHarness({
      clock,
      script: [
        (_request, { signal }) => {
          signals.push(signal);
          return { reasoning: 'Hm. ', text: ['So far', held, ' never'] };
        },
      ],
    });
    rt.root.followup(message('go'));
    await until(() => saysText(rt.root.session));
    // What is gathered for one frame has gone down to the thread.
    await clock.advance(16);
    await settled();
    rt.root.cancel(USER);
    expect(signals[0]?.aborted).toBe(true);
    const chunks = rt.root.session.events.filter(({ type }) => type === 'assistant/chunk');
    await rt.root.whenIdle();
    const { events } = rt.root.session;
    const said = events.find(({ type }) => type === 'assistant/message');
    expect(said?.data).toMatchObject({
      interrupted: true,
      message: {
        content: [
          { type: 'reasoning', text: 'Hm. ' },
          { type: 'text', text: 'So far' },
        ],
        source: { kind: 'model', provider: 'script', model: 'test' },
      },
    });
    // Nothing was kept of the stream after the cancel, and the message cites what was.
    expect(events.filter(({ type }) => type === 'assistant/chunk')).toEqual(chunks);
    const cited = (said as { sourceEventSeqs?: readonly number[] }).sourceEventSeqs ?? [];
    expect(cited.length).toBeGreaterThan(0);
    expect(chunks.map(({ seq }) => seq)).toEqual(expect.arrayContaining([...cited]));
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('before anything was visible leaves no message', async () => {
    await using rt = await testHarness({ script: [{ hold: gate() }] });
    rt.root.followup(message('go'));
    await until(() => rt.model.requests.length === 1);
    rt.root.cancel(USER);
    await rt.root.whenIdle();
    expect(has(rt.root.session, 'assistant/message')).toBe(false);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('has the first of two causes', async () => {
    await using rt = await testHarness({ script: [{ hold: gate() }] });
    rt.root.followup(message('go'));
    await until(() => rt.model.requests.length === 1);
    rt.root.cancel(USER);
    rt.root.cancel({ kind: 'parent' });
    await rt.rootHandle.dispose();
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('with the inbox kept parks it; the next message runs it first', async () => {
    await using rt = await testHarness({ script: [{ hold: gate() }, 'B.', 'C.', 'D.'] });
    for (const text of ['one', 'two', 'three']) rt.root.followup(message(text));
    await until(() => rt.model.requests.length === 1);
    rt.root.cancel(USER, { keepInbox: true });
    await rt.root.whenIdle();
    expect(waiting(rt.root)).toEqual([[], ['two', 'three']]);
    expect(rt.model.requests).toHaveLength(1);
    await rt.ask('four');
    expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['one', 'two', 'three', 'four']);
  });

  it('without it discards what waits', async () => {
    await using rt = await testHarness({ script: [{ hold: gate() }] });
    for (const text of ['one', 'two']) rt.root.followup(message(text));
    rt.root.inject(message('aside'));
    await until(() => rt.model.requests.length === 1);
    rt.root.inject(message('another'));
    rt.root.cancel(USER);
    await rt.root.whenIdle();
    expect(waiting(rt.root)).toEqual([[], []]);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it.each([
    ['a followup', 'followup'],
    ['a steer', 'steer'],
  ] as const)('is no end for %s that comes before the turn has ended', async (_, how) => {
    const tool = deafTool();
    await using rt = await testHarness({ tools: [tool], script: [callsDeaf, 'B.', 'C.'] });
    const told = statuses(rt);
    rt.root.followup(message('one'));
    rt.root.followup(message('older'));
    await until(() => has(rt.root.session, 'tool/call'));
    rt.root.cancel(USER, { keepInbox: true });
    rt.root[how](message('newer'));
    expect(waiting(rt.root)).toEqual([[], ['older', 'newer']]);
    tool.held.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user', 'completed', 'completed']);
    expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['one', 'older', 'newer']);
    expect(told).toEqual(['running', 'idle']);
  });

  it('again, without the inbox, takes that back', async () => {
    const tool = deafTool();
    await using rt = await testHarness({ tools: [tool], script: [callsDeaf] });
    rt.root.followup(message('one'));
    await until(() => has(rt.root.session, 'tool/call'));
    rt.root.cancel(USER);
    rt.root.followup(message('newer'));
    rt.root.cancel({ kind: 'parent' });
    tool.held.open();
    await rt.root.whenIdle();
    expect(waiting(rt.root)).toEqual([[], []]);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('while the prompt is assembled closes a turn without a step', async () => {
    await using rt = await testHarness();
    rt.harness.prompt.variable('cancelling', () => {
      rt.root.cancel(USER);
      return 'x';
    });
    rt.harness.prompt.section({ name: 's', order: 1, text: '{{cancelling}}' });
    await rt.ask('go');
    expect(eventTypes(rt.root.session)).toEqual([
      'agent/inbox/spliced',
      'turn/start',
      'agent/inbox/spliced',
      'turn/end',
    ]);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });
});

describe('a turn that fails', () => {
  it('parks what waits; the next message runs it first', async () => {
    const failure = { code: 'AUTH', message: 'No key.' };
    await using rt = await testHarness({ script: [{ failure }, 'B.', 'C.'] });
    const errors: object[] = [];
    rt.harness.on('agent/error', ({ turn, error }) => errors.push({ turn, ...error }));
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(errors).toEqual([{ turn: 1, ...failure }]);
    expect(ends(rt.root.session)).toEqual(['error AUTH']);
    expect(waiting(rt.root)).toEqual([[], ['two']]);
    await rt.ask('three');
    expect(shown(rt.model).map((texts) => texts.at(-1))).toEqual(['one', 'two', 'three']);
  });

  it('because its prompt could not be made has no step', async () => {
    await using rt = await testHarness();
    rt.harness.prompt.section({ name: 's', order: 1, text: '{{missing}}' });
    await rt.ask('go');
    expect(eventTypes(rt.root.session).at(-1)).toBe('turn/end');
    expect(has(rt.root.session, 'step/start')).toBe(false);
    expect(ends(rt.root.session)[0]).toMatch(/^error /);
  });

  it('because its step could not be committed asks no model', async () => {
    const store = new StallingStore();
    await using rt = await testHarness({ store, script: ['Never.', 'B.'] });
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/start') store.failure = new StoreError('STORE_IO', 'Broken.');
    });
    rt.root.followup(message('go'));
    await rt.root.whenIdle();
    expect(rt.model.requests).toEqual([]);
    expect(ends(rt.root.session)).toEqual(['error STORE_IO']);
    expect(eventTypes(rt.root.session).slice(-2)).toEqual(['step/end', 'turn/end']);
    store.failure = undefined;
  });
});

describe('the limit of a turn', () => {
  it('ends a turn of a child that is too long, and keeps its inbox', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({ clock, script: [{ hold: gate() }] });
    const { agent } = await rt.harness.agents.create({
      meta: { delegationDepth: 1 },
      limits: { turnMs: 1_000 },
    });
    agent.followup(message('one'));
    agent.followup(message('two'));
    await until(() => rt.model.requests.length === 1);
    await clock.advance(999);
    expect(agent.status).toBe('running');
    await clock.advance(1);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(agent.session.events.at(-1)?.data).toMatchObject({
      reason: { error: { message: expect.stringContaining('turnMs is 1000 ms') } },
    });
    expect(waiting(agent)).toEqual([[], ['two']]);
    expect(clock.pending).toBe(0);
  });

  it('of the harness holds for children and not for roots', async () => {
    const clock = new ManualClock();
    await using rt = await testHarness({
      clock,
      limits: { turnMs: 1_000 },
      script: [{ hold: gate() }, { hold: gate() }],
    });
    const child = await rt.harness.agents.create({ meta: { delegationDepth: 1 } });
    rt.root.followup(message('go'));
    child.agent.followup(message('go'));
    await until(() => rt.model.requests.length === 2);
    await clock.advance(600_000);
    await child.agent.whenIdle();
    expect(ends(child.agent.session)).toEqual(['error LIMIT_EXCEEDED']);
    expect(rt.root.status).toBe('running');
    rt.root.cancel(USER);
    await rt.root.whenIdle();
  });

  it('is spent anew by each turn', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({ clock, script: [{ hold: held, text: 'A.' }, 'B.'] });
    const { agent } = await rt.harness.agents.create({
      meta: { delegationDepth: 1 },
      limits: { turnMs: 1_000 },
    });
    agent.followup(message('one'));
    await until(() => rt.model.requests.length === 1);
    await clock.advance(900);
    held.open();
    await agent.whenIdle();
    agent.followup(message('two'));
    await clock.advance(900);
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['completed', 'completed']);
  });
});

/** A tool in the thread that is never done, whatever it is told. */
const endless = {
  tools: [{ module: new URL('file:///endless.mjs') }],
  threads: {
    import: () =>
      Promise.resolve({
        default: {
          name: 'endless',
          description: 'Never done.',
          parameters: { type: 'object' },
          execute: () => new Promise(() => {}),
        },
      }),
  },
};
const callsEndless = { toolCalls: [{ name: 'endless', arguments: {} }] };

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
    await using full = await testHarness({ limits: { maxThreads: 1 }, script: [{ hold: gate() }] });
    full.root.followup(message('go'));
    await until(() => full.model.requests.length === 1);
    await expect(full.harness.agents.create({ owner: full.root })).rejects.toMatchObject({
      code: 'CAPACITY',
    });
  });
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

it('is not disturbed by a listener that throws, or appends where it may not', async () => {
  await using rt = await testHarness({ script: ['A.'] });
  rt.harness.on('session/event', ({ session }) => {
    session.append('session/end-seed', {});
  });
  rt.harness.on('agent/status', () => {
    throw new Error('A bad listener.');
  });
  await rt.ask('go');
  expect(ends(rt.root.session)).toEqual(['completed']);
  expect(has(rt.root.session, 'session/end-seed')).toBe(false);
  expect(rt.warnings.some(({ error }) => error?.message === 'A bad listener.')).toBe(true);
});
