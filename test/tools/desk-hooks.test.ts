import { describe, expect, it } from 'vitest';
import { SubagentError } from '../../protocol/errors.ts';
import { CallId, MessageId } from '../../protocol/ids.ts';
import { gate } from '../support/gate.ts';
import {
  anyObject,
  heldTool,
  hooked,
  note,
  overlapping,
  settled,
  theAgent,
  tool,
} from './desk-fixture.ts';

const words = (text: string) => [{ type: 'text', text } as const];
const module = { name: 'inside', description: '', parameters: anyObject };

describe('hooks before a body', () => {
  it('are asked once the call is logged, and before its record is waited for', async () => {
    const commit = gate();
    const t = hooked([tool('a')], { committed: () => commit.wait() });
    t.noteAll();
    t.scope.guard(() => void t.events.push('guard') as undefined);
    const asked = t.call('a');
    expect(t.events).toEqual(['call a', 'pre a']);
    await settled();
    expect(t.events).toEqual(['call a', 'pre a', 'guard']);
    commit.open();
    await asked;
    expect(t.events.slice(3)).toEqual(['post a', 'result a']);
  });

  it('see the call, frozen', async () => {
    const seen: unknown[] = [];
    const t = hooked([tool('a')]);
    t.hooks.on('tool/pre-execute', (context) => void seen.push(context));
    await t.call('a', { x: 1 }, 'one');
    const context = { agent: theAgent, turn: 1, step: 1, callId: 'one', name: 'a', args: { x: 1 } };
    expect(seen).toEqual([{ ...context, signal: expect.any(AbortSignal) }]);
    expect(Object.isFrozen(seen[0])).toBe(true);
  });

  it('deny with a reason that the model reads, and the body does not run', async () => {
    const t = hooked([tool('a', { execute: () => void t.events.push('body') })]);
    t.hooks.on('tool/pre-execute', () => ({ kind: 'deny', reason: 'Not on a Sunday.' }));
    expect(await t.call('a')).toEqual({ done: true, concludesTurn: false });
    expect(t.events).toEqual(['call a', 'result a failed']);
    expect(t.text('a')).toBe('Error: Not on a Sunday.');
  });

  it('are not asked of a call that is unknown, not permitted or invalid', async () => {
    const parameters = { type: 'object', properties: { x: {} }, required: ['x'] };
    const t = hooked([tool('strict', { parameters }), tool('hidden')]);
    t.noteAll();
    t.scope.restrict({ deny: ['hidden'] });
    await t.call('missing');
    await t.call('hidden');
    await t.call('strict', '{not json');
    expect(t.events.filter((event) => !event.startsWith('call'))).toEqual([
      'post missing',
      'result missing UNKNOWN_TOOL',
      'post hidden',
      'result hidden UNKNOWN_TOOL',
      'post strict',
      'result strict INVALID_ARGS',
    ]);
  });

  it('cannot permit what a guard refuses, wherever in the chain they stand', async () => {
    const t = hooked([tool('a', { execute: () => void t.events.push('body') })]);
    t.scope.guard(() => 'No.');
    t.hooks.on('tool/pre-execute', () => ({ kind: 'allow' }), { prepend: true });
    await t.call('a');
    expect(t.events).toEqual(['call a', 'result a failed']);
  });

  it('cannot permit a tool that is withdrawn or replaced while they are asked', async () => {
    const open = gate();
    const t = hooked([]);
    t.hooks.on('tool/pre-execute', () => open.wait().then(() => undefined));
    for (const name of ['gone', 'other']) {
      const withdraw = t.scope.register(tool(name, { execute: () => void t.events.push('body') }));
      const asked = t.call(name);
      withdraw();
      if (name === 'other') t.scope.register(tool(name));
      open.open();
      await asked;
    }
    expect(t.events).toEqual([
      'call gone',
      'result gone UNKNOWN_TOOL',
      'call other',
      'result other UNKNOWN_TOOL',
    ]);
  });

  it('fail the call with what they throw, and nobody is asked about that result', async () => {
    const t = hooked([tool('a'), tool('b'), tool('c')]);
    t.hooks.on('tool/pre-execute', ({ name }) => {
      if (name === 'a') throw new SubagentError('CAPACITY', 'Full.');
      if (name === 'b') throw Object.assign(new Error('Broken.'), { code: 'EPIPE' });
      return { kind: 'perhaps' } as never;
    });
    t.hooks.on('tool/post-execute', ({ name }) => void t.events.push(`post ${name}`));
    await t.call('a');
    await t.call('b');
    await t.call('c');
    expect(t.events.filter((event) => event.startsWith('post'))).toEqual([]);
    expect(t.results.get('a')?.error).toEqual({ name: 'SubagentError', code: 'CAPACITY' });
    expect([t.text('b'), t.results.get('b')?.error]).toEqual(['Error: Broken.', undefined]);
    expect(t.results.get('c')?.error?.code).toBe('INVALID_ARGUMENT');
  });
});

describe('hooks after a call', () => {
  it('see what it came to, frozen, also when it failed', async () => {
    const seen: unknown[] = [];
    const t = hooked([
      tool('good', { execute: () => ({ n: 1 }) }),
      tool('bad', { execute: () => Promise.reject(new SubagentError('CAPACITY', 'Full.')) }),
    ]);
    t.hooks.on('tool/post-execute', ({ args, result }) => void seen.push([args, result]));
    await t.call('good', { x: 1 });
    await t.call('bad');
    await t.call('good', '{not json');
    expect(seen).toEqual([
      [{ x: 1 }, { content: words('{"n":1}'), isError: false, value: { n: 1 } }],
      [
        {},
        {
          content: words('Error: Full.'),
          isError: true,
          error: { name: 'SubagentError', code: 'CAPACITY' },
        },
      ],
      ['{not json', expect.objectContaining({ isError: true })],
    ]);
    const [, view] = seen[0] as [unknown, { content: unknown; value: unknown }];
    expect([view, view.content, view.value].every(Object.isFrozen)).toBe(true);
  });

  it('are asked about a denial as well, and cannot make it a success', async () => {
    const t = hooked([tool('a')]);
    t.hooks.on('tool/pre-execute', () => ({ kind: 'deny', reason: 'No.' }));
    t.hooks.on('tool/post-execute', () => ({ kind: 'accept', content: words('Fine.') }));
    await t.call('a');
    expect([t.text('a'), t.results.get('a')?.isError]).toEqual(['Fine.', true]);
  });

  it('replace what the model sees and nothing else', async () => {
    const t = hooked([
      tool('a', {
        execute(_, { concludeTurn }) {
          concludeTurn();
          return { secret: 1 };
        },
      }),
    ]);
    t.hooks.on('tool/post-execute', () => ({ kind: 'accept', content: words('[cut]') }));
    expect(await t.call('a')).toEqual({ done: true, concludesTurn: true });
    expect(t.results.get('a')).toMatchObject({
      content: words('[cut]'),
      isError: false,
      value: { secret: 1 },
    });
  });

  it('add messages behind those of the body', async () => {
    const more = { ...note, id: MessageId('more') };
    const t = hooked([tool('a', { execute: (_, { deferContext }) => deferContext(note) })]);
    t.hooks.on('tool/post-execute', () => ({ kind: 'accept', contexts: [more] }));
    await t.call('a');
    expect(t.results.get('a')?.contexts).toEqual([note, more]);
  });

  it('block with feedback, and then nothing that the body asked for happens', async () => {
    const t = hooked([
      tool('a', {
        execute(_, { concludeTurn, deferContext }) {
          concludeTurn();
          deferContext(note);
        },
      }),
    ]);
    t.hooks.on('tool/post-execute', () => ({ kind: 'block', reason: 'Say please.' }));
    expect(await t.call('a')).toEqual({ done: true, concludesTurn: false });
    expect(t.results.get('a')).toEqual({
      content: words('Error: Say please.'),
      isError: true,
      contexts: [],
      concludesTurn: false,
    });
  });

  it.each<[string, object, string]>([
    ['content that is no list', { content: 'text' }, 'INVALID_TOOL_OUTPUT'],
    ['content that is no block', { content: [{ text: 'x' }] }, 'INVALID_TOOL_OUTPUT'],
    ['a text block without text', { content: [{ type: 'text' }] }, 'INVALID_TOOL_OUTPUT'],
    [
      'content that is no JSON',
      { content: [{ type: 'x', at: new Date() }] },
      'INVALID_TOOL_OUTPUT',
    ],
    ['contexts that are no list', { contexts: note }, 'INVALID_TOOL_OUTPUT'],
    ['a context that is no message', { contexts: [{ id: 'x' }] }, 'INVALID_TOOL_OUTPUT'],
    [
      'a context of another role',
      { contexts: [{ ...note, role: 'assistant' }] },
      'INVALID_TOOL_OUTPUT',
    ],
    ['no source', { contexts: [{ ...note, source: undefined }] }, 'INVALID_TOOL_OUTPUT'],
    ['a block without a reason', { kind: 'block' }, 'INVALID_ARGUMENT'],
    ['a decision of no kind', { kind: 'maybe' }, 'INVALID_ARGUMENT'],
  ])('fail the call with %s', async (_, decision, code) => {
    const t = hooked([tool('a')]);
    t.hooks.on('tool/post-execute', () => ({ kind: 'accept', ...decision }) as never);
    await t.call('a');
    expect(t.events).toEqual(['call a', `result a ${code}`]);
  });

  it('fail the call with what they throw', async () => {
    const t = hooked([tool('a')]);
    t.hooks.on('tool/post-execute', () => Promise.reject(new TypeError('Broken.')));
    await t.call('a');
    expect([t.text('a'), t.results.get('a')?.error]).toEqual(['Error: Broken.', undefined]);
  });

  it('have the last word when they are outermost, however late they came', async () => {
    const t = hooked([tool('a')]);
    t.hooks.on('tool/post-execute', () => ({ kind: 'accept', content: words('inner') }));
    const seen: unknown[] = [];
    const outer = async (_: unknown, next: () => Promise<unknown>) => {
      seen.push(await next());
      return { kind: 'block', reason: 'outer' } as const;
    };
    t.hooks.on('tool/post-execute', outer, { prepend: true });
    await t.call('a');
    expect(seen).toEqual([{ kind: 'accept', content: words('inner') }]);
    expect(t.text('a')).toBe('Error: outer');
  });

  it('are asked about what a module did, and its thread is answered when that is settled', async () => {
    const open = gate();
    const t = hooked([], { modules: [module] });
    t.hooks.on('tool/post-execute', async ({ result }) => {
      t.events.push(`post ${JSON.stringify(result.value)}`);
      await open.wait();
      return { kind: 'block', reason: 'No.' };
    });
    await t.call('inside');
    const outcome = { ok: true, value: 1, content: words('one'), concludesTurn: true } as const;
    const finished = t.desk.finish(CallId('inside'), outcome);
    await expect(t.desk.finish(CallId('inside'), outcome)).rejects.toMatchObject({
      code: 'PROTOCOL_VIOLATION',
    });
    await settled();
    expect(t.events).toEqual(['call inside', 'post 1']);
    open.open();
    expect(await finished).toEqual({ done: true, concludesTurn: false });
    expect(t.events.slice(2)).toEqual(['result inside failed']);
  });
});

describe('the order in which hooks are asked', () => {
  it('is that of the calls also where a classifier throws, or a time is up', async () => {
    const unsure = tool('unsure', {
      isConcurrencySafe() {
        throw new Error('cannot tell');
      },
    });
    const slow = tool('slow', {
      ...overlapping,
      timeoutMs: 100,
      execute: (_, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve('late'))),
    });
    const t = hooked([slow, unsure, tool('quick', overlapping)]);
    t.noteAll();
    const all = [t.call('slow'), t.call('quick'), t.call('unsure')];
    await settled();
    expect(t.events).toEqual(['call slow', 'pre slow', 'call quick', 'pre quick']);
    await t.clock.advance(100);
    await Promise.all(all);
    expect(t.events.slice(4)).toEqual([
      'post slow',
      'result slow TOOL_TIMEOUT',
      'post quick',
      'result quick',
      'call unsure',
      'pre unsure',
      'post unsure',
      'result unsure',
    ]);
  });

  it('is that of the calls, one after another, while bodies overlap', async () => {
    const [slow, quick] = [heldTool('slow', overlapping), heldTool('quick', overlapping)];
    const gates = { 'pre slow': gate(), 'pre quick': gate(), 'post slow': gate() };
    const t = hooked([slow, quick]);
    const ask = (kind: string) => async (context: { readonly name: string }) => {
      t.events.push(`${kind} ${context.name}`);
      await gates[`${kind} ${context.name}` as keyof typeof gates]?.wait();
      return undefined;
    };
    t.hooks.on('tool/pre-execute', ask('pre'));
    t.hooks.on('tool/post-execute', ask('post'));
    const both = [t.call('slow'), t.call('quick')];
    await settled();
    expect(t.events).toEqual(['call slow', 'pre slow']);
    gates['pre slow'].open();
    await settled();
    expect(t.events.slice(2)).toEqual(['call quick', 'pre quick']);
    // The body of the first one ends while the second one is asked about.
    slow.gate.open();
    await settled();
    expect(t.events).toHaveLength(4);
    gates['pre quick'].open();
    quick.gate.open();
    await settled();
    expect(t.events.slice(4)).toEqual(['post slow']);
    gates['post slow'].open();
    await Promise.all(both);
    expect(t.events.slice(5)).toEqual(['result slow', 'post quick', 'result quick']);
  });

  it('waits with the next call until the result of an exclusive one is told', async () => {
    const open = gate();
    const t = hooked([tool('alone'), tool('next', overlapping)]);
    t.noteAll();
    t.hooks.on('tool/post-execute', ({ name }) =>
      name === 'alone' ? open.wait().then(() => undefined) : undefined,
    );
    const both = [t.call('alone'), t.call('next')];
    await settled();
    expect(t.events).toEqual(['call alone', 'pre alone', 'post alone']);
    open.open();
    await Promise.all(both);
    expect(t.events.slice(3)).toEqual([
      'result alone',
      'call next',
      'pre next',
      'post next',
      'result next',
    ]);
  });

  it('waits for that result also where nobody is asked before a body', async () => {
    const open = gate();
    const t = hooked([tool('alone'), tool('next', overlapping)]);
    t.hooks.on('tool/post-execute', () => open.wait().then(() => undefined));
    const both = [t.call('alone'), t.call('next')];
    await settled();
    expect(t.events).toEqual(['call alone']);
    open.open();
    await Promise.all(both);
    expect(t.events).toEqual(['call alone', 'result alone', 'call next', 'result next']);
  });

  it('gives the place of a body that is over to the next, whatever hooks then do', async () => {
    const open = gate();
    const held = heldTool('third', overlapping);
    const t = hooked([tool('first', overlapping), tool('second', overlapping), held], {
      concurrency: 1,
    });
    t.hooks.on('tool/post-execute', () => open.wait().then(() => undefined));
    const all = ['first', 'second', 'third'].map((name) => t.call(name));
    await settled();
    expect(t.events).toEqual(['call first', 'call second', 'call third']);
    open.open();
    held.gate.open();
    await Promise.all(all);
    expect(t.events.slice(3)).toEqual(['result first', 'result second', 'result third']);
  });

  it('is of no matter to hooks of another agent, which are not asked', async () => {
    const t = hooked([tool('a')]);
    t.hooks.on('tool/pre-execute', () => ({ kind: 'deny', reason: 'No.' }), { agent: {} });
    await t.call('a');
    expect(t.events).toEqual(['call a', 'result a']);
  });
});
