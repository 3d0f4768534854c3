import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { deferred } from '../../src/base/deferred.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import {
  USER,
  callsDeaf,
  deafTool,
  ends,
  has,
  saysText,
  shown,
  statuses,
  waiting,
} from './agent-words.ts';

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
    rt.harness.prompt.context({ name: 'c', order: 1, text: '{{cancelling}}' });
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

describe('a thread that is being ended for what it did', () => {
  it('does not pass a limit of its turn until it is gone', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using rt = await testHarness({ clock, script: [{ hold: held }] });
    const { agent } = await rt.harness.agents.create({ limits: { turnMs: 1_000 } });
    agent.followup(message('one'));
    await held.arrived();
    const thread = rt.threads.of(agent.id);
    const kill = thread.kill.bind(thread);
    const told = deferred<() => void>();
    thread.kill = (reason) => told.resolve(() => kill(reason));
    thread.ports!.worker.postMessage('No frame.');
    const dies = await told.promise;
    await clock.advance(1_000);
    dies();
    await agent.whenIdle();
    expect(ends(agent.session)).toEqual(['error PROTOCOL_VIOLATION']);
  });
});
