import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { CallId } from '../../protocol/ids.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import { gate } from '../support/gate.ts';
import { anyObject, heldTool, hooked, overlapping, settled, tool } from './desk-fixture.ts';

const module = { name: 'inside', description: '', parameters: anyObject };
const body = (events: string[]) => ({ execute: () => void events.push('body') });

describe('a turn that ends while hooks are asked', () => {
  it('does not wait for a hook before a body, and runs no body whatever it decides', async () => {
    const open = gate();
    const events: string[] = [];
    const t = hooked([tool('a', body(events)), tool('b', body(events))]);
    t.hooks.on('tool/pre-execute', () => open.wait().then(() => ({ kind: 'allow' })));
    const both = [t.call('a'), t.call('b')];
    await settled();
    t.turn.abort();
    await Promise.all(both);
    expect(t.events).toEqual([
      'call a',
      'result a ABORTED_BEFORE_DISPATCH',
      'call b',
      'result b ABORTED_BEFORE_DISPATCH',
    ]);
    open.open();
    await settled();
    expect([t.events.length, events]).toEqual([4, []]);
  });

  it.each<[string, (signal: AbortSignal) => Promise<never>, string]>([
    ['throws', (signal) => Promise.reject(signal.reason), 'ABORTED_BEFORE_DISPATCH'],
    ['allows', () => Promise.resolve({ kind: 'allow' } as never), 'ABORTED_BEFORE_DISPATCH'],
    ['denies', () => Promise.resolve({ kind: 'deny', reason: 'No.' } as never), 'failed'],
  ])('counts only a denial: a hook that %s when it is told', async (_, answer, code) => {
    const events: string[] = [];
    const t = hooked([tool('a', body(events))]);
    t.hooks.on('tool/pre-execute', ({ signal }) => {
      return new Promise((resolve) =>
        signal.addEventListener('abort', () => resolve(answer(signal))),
      );
    });
    const asked = t.call('a');
    await settled();
    t.turn.abort();
    await asked;
    expect([t.events, events]).toEqual([['call a', `result a ${code}`], []]);
  });

  it('asks no guard about what a hook allows then', async () => {
    const t = hooked([tool('a')]);
    t.scope.guard(() => 'No.');
    t.hooks.on('tool/pre-execute', () => {
      t.turn.abort();
      return { kind: 'allow' };
    });
    await t.call('a');
    expect(t.events).toEqual(['call a', 'result a ABORTED_BEFORE_DISPATCH']);
  });

  it('keeps a denial that was made before, and has not come out of the chain yet', async () => {
    const denied = gate();
    const t = hooked([tool('a')]);
    t.hooks.on('tool/pre-execute', async (_, next) => next());
    t.hooks.on('tool/pre-execute', async () => {
      await denied.wait();
      return { kind: 'deny', reason: 'No.' };
    });
    const asked = t.call('a');
    await settled();
    denied.open();
    t.turn.abort();
    await asked;
    expect(t.text('a')).toBe('Error: No.');
  });

  it('asks no hook further down the chain, and none about the result', async () => {
    const open = gate();
    const t = hooked([tool('a')]);
    t.hooks.on('tool/pre-execute', (_, next) => open.wait().then(next));
    t.noteAll();
    const asked = t.call('a');
    t.turn.abort();
    open.open();
    await asked;
    await settled();
    expect(t.events).toEqual(['call a', 'result a ABORTED_BEFORE_DISPATCH']);
  });

  it('takes a success away, and leaves a failure, when hooks are asked about it', async () => {
    const open = gate();
    const t = hooked([
      tool('good', overlapping),
      tool('bad', { ...overlapping, execute: () => Promise.reject(new Error('Broken.')) }),
    ]);
    t.hooks.on('tool/post-execute', () => open.wait().then(() => ({ kind: 'accept' })));
    const both = [t.call('good'), t.call('bad')];
    await settled();
    t.turn.abort();
    await Promise.all(both);
    expect(t.events.slice(2)).toEqual(['result good ABORTED', 'result bad failed']);
    expect(t.text('bad')).toBe('Error: Broken.');
    open.open();
    await settled();
    expect(t.events).toHaveLength(4);
  });

  it.each([{ kind: 'accept' }, { kind: 'block', reason: 'No.' }] as const)(
    'hears no hook that ends the turn itself: %j',
    async (decision) => {
      const t = hooked([tool('a')]);
      t.hooks.on('tool/post-execute', () => {
        t.turn.abort();
        return decision;
      });
      await t.call('a');
      expect(t.events).toEqual(['call a', 'result a ABORTED']);
    },
  );

  it('takes a success away that waits to be asked about, behind a body that goes on', async () => {
    const held = heldTool('held', overlapping);
    const t = hooked([held, tool('done', overlapping)]);
    t.noteAll();
    const both = [t.call('held'), t.call('done')];
    await settled();
    t.turn.abort();
    held.gate.open();
    await Promise.all(both);
    expect(t.events.filter((event) => /post|result/.test(event))).toEqual([
      'result held ABORTED',
      'result done ABORTED',
    ]);
  });

  it('waits for a body that runs', async () => {
    const held = heldTool('held');
    const t = hooked([held]);
    t.noteAll();
    const asked = t.call('held');
    await settled();
    t.turn.abort();
    await settled();
    expect(t.events).toEqual(['call held', 'pre held']);
    held.gate.open();
    await asked;
    expect(t.events.slice(2)).toEqual(['result held ABORTED']);
  });

  it('takes the success of a module away', async () => {
    const open = gate();
    const t = hooked([], { modules: [module] });
    t.hooks.on('tool/post-execute', () => open.wait().then(() => undefined));
    await t.call('inside');
    const outcome = { ok: true, value: 1, content: [], concludesTurn: true } as const;
    const finished = t.desk.finish(CallId('inside'), outcome);
    await settled();
    t.turn.abort();
    expect(await finished).toEqual({ done: true, concludesTurn: false });
    expect(t.events).toEqual(['call inside', 'result inside ABORTED']);
    open.open();
  });

  it('is not listened to any more once hooks have decided', async () => {
    const t = hooked([tool('a')]);
    t.noteAll();
    await t.call('a');
    expect(getEventListeners(t.turn.signal, 'abort')).toEqual([]);
  });
});

describe('a thread that ends while hooks are asked', () => {
  it('leaves nothing of a call whose body has not begun', async () => {
    const open = gate();
    const events: string[] = [];
    const t = hooked([tool('a', body(events)), tool('b')]);
    t.hooks.on('tool/pre-execute', (_, next) => open.wait().then(next));
    t.noteAll();
    const lost = Promise.allSettled([t.call('a'), t.call('b')]);
    await settled();
    t.desk.abandon();
    open.open();
    expect((await lost).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await settled();
    expect([t.events, events, t.desk.pending]).toEqual([['call a'], [], 0]);
  });

  it('leaves nothing of a result that hooks have not let pass, and tells hooks to give up', async () => {
    const open = gate();
    const told: unknown[] = [];
    const ended: unknown[] = [];
    const t = hooked([tool('a')]);
    t.scope.watch(({ request, result }) => void ended.push([request.callId, result]));
    t.hooks.on('tool/post-execute', async ({ signal }, next) => {
      signal.addEventListener('abort', () => told.push(signal.reason));
      await open.wait();
      return next();
    });
    t.noteAll();
    const lost = t.call('a');
    await settled();
    const reason = new Error('the thread died');
    t.desk.abandon(reason);
    await expect(lost).rejects.toBe(reason);
    open.open();
    await settled();
    expect([t.events, told, ended]).toEqual([['call a', 'pre a'], [reason], [['a', undefined]]]);
  });

  it('answers a module nothing but that, and lets the next thread begin', async () => {
    const open = gate();
    const t = hooked([tool('next')], { modules: [module] });
    t.hooks.on('tool/post-execute', ({ name }) =>
      name === 'inside' ? open.wait().then(() => undefined) : undefined,
    );
    await t.call('inside');
    const lost = t.desk.finish(CallId('inside'), { ok: true, value: 1, content: [] });
    t.desk.abandon();
    await expect(lost).rejects.toMatchObject({ code: 'WORKER_EXITED' });
    await t.call('next');
    open.open();
    await settled();
    expect(t.events).toEqual(['call inside', 'call next', 'result next']);
  });

  it.each(['pre', 'post'] as const)(
    'does not let a %s-hook of the old thread end the asking of the new one',
    async (kind) => {
      const gates = [gate(), gate()];
      const t = hooked([tool('a', overlapping), tool('b', overlapping)]);
      let asks = 0;
      t.hooks.on(`tool/${kind}-execute`, ({ callId }) => {
        t.events.push(`asked ${callId}`);
        return gates[asks++]?.wait().then(() => undefined);
      });
      const lost = Promise.allSettled([t.call('a')]);
      await settled();
      t.desk.abandon();
      const first = t.call('b', {}, 'b1');
      gates[0]?.open();
      await lost;
      await settled();
      const both = [first, t.call('b', {}, 'b2')];
      await settled();
      const asked = (): string[] => t.events.filter((event) => event.startsWith('asked'));
      expect(asked()).toEqual(['asked a', 'asked b1']);
      gates[1]?.open();
      await Promise.all(both);
      expect(asked()).toEqual(['asked a', 'asked b1', 'asked b2']);
    },
  );
});

describe('a record that cannot be kept while hooks are asked', () => {
  it('ends the call without a result once hooks have decided', async () => {
    const open = gate();
    const t = hooked([tool('a'), tool('b')], {
      committed: () => Promise.reject(new Error('disk full')),
    });
    t.hooks.on('tool/pre-execute', () => open.wait().then(() => undefined));
    const both = Promise.allSettled([t.call('a'), t.call('b')]);
    await settled();
    open.open();
    expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(t.events).toEqual(['call a']);
  });

  it('does not matter to a call that hooks deny', async () => {
    const t = hooked([tool('a')], { committed: () => Promise.reject(new Error('disk full')) });
    t.hooks.on('tool/pre-execute', () => ({ kind: 'deny', reason: 'No.' }));
    await t.call('a');
    expect(t.text('a')).toBe('Error: No.');
  });
});

describe('the context of a body', () => {
  it('names its execution to whoever watches, whatever the id of the call', async () => {
    const given: ToolContext<unknown>[] = [];
    const ended: unknown[] = [];
    const t = hooked([tool('a', { execute: (_, context) => void given.push(context) })]);
    t.scope.watch(({ context }) => void ended.push(context));
    await t.call('a', {}, 'same');
    await t.call('a', {}, 'same');
    await t.call('missing', {}, 'same');
    expect(ended[0]).toBe(given[0]);
    expect(ended[1]).toBe(given[1]);
    expect(ended[2]).toBeUndefined();
  });
});
