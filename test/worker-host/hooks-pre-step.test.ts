/** `agent/pre-step`: what an agent is told in a step is decided before there is one. */
import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import type { AgentHooks } from '../../src/agent/hooks.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { tempStore } from '../support/temp-store.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled } from '../support/until.ts';
import { USER, ends, has, shown, waiting } from './agent-words.ts';

type Context = AgentHooks['agent/pre-step']['context'];

const NO_STEP = ['agent/inbox/spliced', 'turn/start', 'agent/inbox/spliced', 'turn/end'];
const calls = (name = 'note') => ({ toolCalls: [{ name, arguments: {} }] });
const note = {
  name: 'note',
  description: 'Notes.',
  parameters: { type: 'object' },
  execute: () => 'Noted.',
};

describe('a hook before a step', () => {
  it('is asked before every step, with what was claimed for it', async () => {
    await using rt = await testHarness({ tools: [note], script: [calls(), 'Done.'] });
    const seen: object[] = [];
    rt.harness.hooks.on('agent/pre-step', ({ agent, turn, step, messages, signal }) => {
      seen.push({ turn, step, texts: messages.map(({ content }) => textOf(content)) });
      expect(agent).toBe(rt.root);
      expect(signal.aborted).toBe(false);
      expect(rt.root.session.open?.step).toBeUndefined();
    });
    rt.root.inject(message('aside'));
    await rt.ask('go');
    expect(seen).toEqual([
      { turn: 1, step: 1, texts: ['aside', 'go'] },
      { turn: 1, step: 2, texts: [] },
    ]);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it('decides what is told: messages of its own, in its own order, and no other', async () => {
    await using rt = await testHarness({ script: ['Done.'] });
    const mine = message('mine', { kind: 'plugin', plugin: 'test' });
    rt.harness.hooks.on('agent/pre-step', async ({ messages }, next) => {
      const decision = await next();
      expect(decision).toEqual({ kind: 'enter', messages });
      return { kind: 'enter', messages: [mine, ...messages.slice(1)] };
    });
    rt.root.inject(message('aside'));
    await rt.ask('go');
    expect(shown(rt.model)).toEqual([['mine', 'go']]);
    const told = rt.root.session.events.find(({ type }) => type === 'user/message');
    expect(told?.data).toEqual(mine);
    expect(waiting(rt.root)).toEqual([[], []]);
  });

  it('keeps no hold on what it returned', async () => {
    await using rt = await testHarness({ script: ['Done.'] });
    const content = [{ type: 'text' as const, text: 'as it was' }];
    rt.harness.hooks.on('agent/pre-step', ({ messages: [first] }) => ({
      kind: 'enter',
      messages: [{ ...first!, content }],
    }));
    rt.harness.hooks.on('agent/request', () => {
      content[0]!.text = 'changed';
    });
    await rt.ask('go');
    expect(shown(rt.model)).toEqual([['as it was']]);
  });

  it('does not see what comes after the claim; that joins a later step', async () => {
    const held = gate();
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    let asked = 0;
    rt.harness.hooks.on('agent/pre-step', async () => {
      if (++asked === 1) await held.wait();
    });
    rt.root.followup(message('one'));
    await held.arrived();
    rt.root.steer(message('two'));
    await settled();
    held.open();
    await rt.root.whenIdle();
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });

  it.each([{ reason: 'Not in this house.' }, {}])(
    'can refuse it: the turn ends so, and what was claimed is spent %o',
    async (why) => {
      await using rt = await testHarness({ script: ['B.'] });
      const undo = rt.harness.hooks.on('agent/pre-step', () => ({ kind: 'reject', ...why }));
      rt.root.followup(message('one'));
      rt.root.followup(message('two'));
      await rt.root.whenIdle();
      expect(eventTypes(rt.root.session).slice(1)).toEqual(NO_STEP);
      expect(rt.root.session.events.at(-1)?.data).toEqual({
        turn: 1,
        reason: { kind: 'blocked', ...why },
      });
      expect(waiting(rt.root)).toEqual([[], ['two']]);
      expect(rt.model.requests).toEqual([]);
      undo();
      await rt.ask('three');
      expect(shown(rt.model)[0]).toEqual(['two']);
    },
  );

  it('can refuse a later step, and the steps before it stand', async () => {
    await using rt = await testHarness({ tools: [note], script: [calls()] });
    rt.harness.hooks.on('agent/pre-step', ({ step }) =>
      step === 2 ? { kind: 'reject', reason: 'Enough.' } : undefined,
    );
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['blocked']);
    expect(eventTypes(rt.root.session).slice(-3)).toEqual(['tool/result', 'step/end', 'turn/end']);
  });

  it.each<[string, unknown, string]>([
    ['that throws', () => Promise.reject(new Error('No idea.')), 'error UNKNOWN'],
    ['that decides nothing known', () => ({ kind: 'skip' }), 'error INVALID_ARGUMENT'],
    ['that gives no list', () => ({ kind: 'enter', messages: 'go' }), 'error INVALID_ARGUMENT'],
    ['whose reason is no text', () => ({ kind: 'reject', reason: 1 }), 'error INVALID_ARGUMENT'],
    ...(
      [
        ['what is no object', 'go'],
        ['a message of the model', { ...message('x'), role: 'assistant' }],
        ['a message without an id', { ...message('x'), id: '' }],
        ['a message without a source', { ...message('x'), source: undefined }],
        ['a message without a list of content', { ...message('x'), content: 'x' }],
        ['content that is no block', { ...message('x'), content: ['x'] }],
        ['content that is no JSON', { ...message('x'), content: [{ type: 'x', f: () => {} }] }],
      ] as const
    ).map(([what, given]): [string, unknown, string] => [
      `that returns ${what}`,
      () => ({ kind: 'enter', messages: [given] }),
      'error INVALID_ARGUMENT',
    ]),
  ])('%s fails the turn without a step', async (_, hook, end) => {
    await using rt = await testHarness({ script: ['B.'] });
    const undo = rt.harness.hooks.on('agent/pre-step', hook as never);
    await rt.ask('go');
    expect(eventTypes(rt.root.session)).toEqual(NO_STEP);
    expect(ends(rt.root.session)).toEqual([end]);
    undo();
    await rt.ask('on');
    expect(shown(rt.model)).toEqual([['on']]);
  });
});

describe('a step that is told nothing', () => {
  const nothing = (): { kind: 'enter'; messages: UserMessage[] } => ({
    kind: 'enter',
    messages: [],
  });

  it('is none at the beginning of a turn, which is completed, and the next goes on', async () => {
    await using rt = await testHarness({ script: ['B.'] });
    rt.harness.hooks.on('agent/pre-step', ({ turn }) => (turn === 1 ? nothing() : undefined));
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    expect(eventTypes(rt.root.session).slice(1, 5)).toEqual(NO_STEP);
    expect(ends(rt.root.session)).toEqual(['completed', 'completed']);
    expect(shown(rt.model)).toEqual([['two']]);
  });

  it('is none after a step that concluded: the turn ends as that did', async () => {
    const held = gate();
    await using rt = await testHarness({
      script: [{ hold: held, text: 'Cut', finish: 'max-tokens' }],
    });
    rt.harness.hooks.on('agent/pre-step', ({ step }) => (step === 2 ? nothing() : undefined));
    rt.root.followup(message('go'));
    await held.arrived();
    rt.root.inject(message('aside'));
    held.open();
    await rt.root.whenIdle();
    expect(rt.model.requests).toHaveLength(1);
    expect(ends(rt.root.session)).toEqual(['max-tokens']);
    expect(waiting(rt.root)).toEqual([[], []]);
  });

  it('goes on after a step that only used tools', async () => {
    await using rt = await testHarness({ tools: [note], script: [calls(), 'Done.'] });
    rt.harness.hooks.on('agent/pre-step', ({ step }) => (step === 2 ? nothing() : undefined));
    await rt.ask('go');
    expect(rt.model.requests).toHaveLength(2);
    expect(ends(rt.root.session)).toEqual(['completed']);
  });
});

describe('a stop while a hook decides about a step', () => {
  const late: readonly [string, (context: Context) => AgentHooks['agent/pre-step']['decision']][] =
    [
      ['enter', ({ messages }) => ({ kind: 'enter', messages })],
      ['reject', () => ({ kind: 'reject' })],
    ];

  it.each(late)('wins at once, and a late "%s" comes to nothing', async (_, decide) => {
    const held = gate();
    // The time in which a thread that does not obey is ended does not pass.
    await using rt = await testHarness({ clock: new ManualClock() });
    rt.harness.hooks.on('agent/pre-step', async (context) => {
      await held.wait();
      return decide(context);
    });
    rt.root.followup(message('go'));
    await held.arrived();
    rt.root.cancel(USER);
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    const { seq } = rt.root.session;
    held.open();
    await settled();
    expect(rt.root.session.seq).toBe(seq);
    expect(eventTypes(rt.root.session)).toEqual(NO_STEP);
  });

  it('wins over what the hook decides in the same breath', async () => {
    await using rt = await testHarness();
    rt.harness.hooks.on('agent/pre-step', () => {
      rt.root.cancel(USER);
      return { kind: 'reject' };
    });
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('wins over what it throws, and a late throw is nobody’s', async () => {
    const held = gate();
    await using rt = await testHarness();
    rt.harness.hooks.on('agent/pre-step', async ({ signal }) => {
      await held.wait();
      signal.throwIfAborted();
    });
    rt.root.followup(message('go'));
    await held.arrived();
    rt.root.cancel(USER);
    held.open();
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['aborted user']);
  });

  it('asks no hook when it came before the turn was begun', async () => {
    await using rt = await testHarness();
    let asked = 0;
    rt.harness.hooks.on('agent/pre-step', () => void asked++);
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/start') rt.root.cancel(USER, { keepInbox: true });
    });
    await rt.ask('go');
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    expect(asked).toBe(0);
  });

  it('by the end of its thread leaves nothing to wait for', async () => {
    const held = gate();
    await using rt = await testHarness({ script: ['A.', 'B.'] });
    const signals: AbortSignal[] = [];
    const undo = rt.harness.hooks.on('agent/pre-step', async ({ signal }) => {
      signals.push(signal);
      await held.wait();
    });
    rt.root.followup(message('one'));
    await held.arrived();
    rt.threads.of(rt.root.id).crash('Boom.');
    await rt.root.whenIdle();
    expect(ends(rt.root.session)).toEqual(['error WORKER_CRASHED']);
    expect(signals[0]?.aborted).toBe(true);
    held.open();
    await settled();
    expect(has(rt.root.session, 'step/start')).toBe(false);
    // Nobody decided about it: it waits again, and runs first.
    expect(waiting(rt.root)).toEqual([[], ['one']]);
    undo();
    await rt.ask('two');
    expect(shown(rt.model)).toEqual([['one'], ['one', 'two']]);
  });

  it('by the end of the harness keeps what was claimed for the next life', async () => {
    const held = gate();
    const temp = tempStore();
    {
      await using rt = await testHarness({ store: temp.open() });
      rt.harness.hooks.on('agent/pre-step', () => held.wait());
      rt.root.inject(message('context'));
      rt.root.followup(message('one'));
      await held.arrived();
      const { id } = rt.root;
      await rt.harness.dispose();
      await using again = await testHarness({ store: temp.open(), script: ['A.', 'B.'] });
      const { agent } = await again.harness.agents.resume(id);
      expect(waiting(agent)).toEqual([['context'], ['one']]);
      await again.ask('two', agent);
      expect(shown(again.model)).toEqual([
        ['context', 'one'],
        ['context', 'one', 'two'],
      ]);
    }
    held.open();
    await temp[Symbol.asyncDispose]();
  });

  it('by the disposal of the agent wins as well', async () => {
    const held = gate();
    await using rt = await testHarness();
    rt.harness.hooks.on('agent/pre-step', () => held.wait());
    rt.root.followup(message('go'));
    await held.arrived();
    await rt.rootHandle.dispose();
    expect(ends(rt.root.session)).toEqual(['aborted disposed']);
    held.open();
  });
});

describe('runtime context', () => {
  it('is told behind what was claimed, and a hook may leave it out until it is told', async () => {
    await using rt = await testHarness({ script: ['A.', 'B.', 'C.'] });
    rt.harness.prompt.context({ name: 'c', order: 1, text: 'It rains.' });
    const undo = rt.harness.hooks.on('agent/pre-step', async ({ messages }, next) => {
      const decision = await next();
      expect(decision.kind === 'enter' && decision.messages).toHaveLength(2);
      return { kind: 'enter', messages };
    });
    await rt.ask('one');
    undo();
    await rt.ask('two');
    await rt.ask('three');
    const told = shown(rt.model).at(-1)!;
    expect(told).toHaveLength(4);
    expect(told.map((text) => text.includes('It rains.'))).toEqual([false, false, true, false]);
  });
});
