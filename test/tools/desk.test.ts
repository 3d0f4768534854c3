import { describe, expect, it } from 'vitest';
import type { ToolContext } from '../../protocol/tool.ts';
import { gate } from '../support/gate.ts';
import { deskFixture, heldTool, overlapping, settled, tool } from './desk-fixture.ts';

describe('the order of calls', () => {
  it('lets an exclusive call run alone between those that overlap', async () => {
    const first = heldTool('first', overlapping);
    const second = heldTool('second', overlapping);
    const alone = heldTool('alone');
    const last = heldTool('last', overlapping);
    const t = deskFixture([first, second, alone, last]);
    const all = ['first', 'second', 'alone', 'last'].map((name) => t.call(name));
    expect(t.events).toEqual(['call first', 'call second']);
    first.gate.open();
    await settled();
    expect(t.events).toEqual(['call first', 'call second', 'result first']);
    second.gate.open();
    await settled();
    expect(t.events.slice(3)).toEqual(['result second', 'call alone']);
    alone.gate.open();
    await settled();
    expect(t.events.slice(5)).toEqual(['result alone', 'call last']);
    last.gate.open();
    expect(await Promise.all(all)).toEqual(all.map(() => ({ done: true, concludesTurn: false })));
    expect(t.desk.pending).toBe(0);
  });

  it('tells results in the order of the calls, however their bodies end', async () => {
    const slow = heldTool('slow', overlapping);
    const t = deskFixture([slow, tool('quick', overlapping), tool('quicker', overlapping)]);
    const asked = t.call('slow');
    await Promise.all([t.call('quick'), t.call('quicker')]);
    expect(t.events).toEqual(['call slow', 'call quick', 'call quicker']);
    expect(t.desk.pending).toBe(3);
    slow.gate.open();
    await asked;
    expect(t.events.slice(3)).toEqual(['result slow', 'result quick', 'result quicker']);
  });

  it('keeps no more bodies running than its cap, and refills as each ends', async () => {
    const a = heldTool('a', overlapping);
    const b = heldTool('b', overlapping);
    const c = heldTool('c', overlapping);
    const t = deskFixture([a, b, c], { concurrency: 2 });
    const all = [t.call('a'), t.call('b'), t.call('c')];
    await settled();
    expect(t.events).toEqual(['call a', 'call b']);
    b.gate.open();
    await all[1];
    expect(t.events).toEqual(['call a', 'call b', 'call c']);
    a.gate.open();
    c.gate.open();
    await Promise.all(all);
    expect(t.events.slice(3)).toEqual(['result a', 'result b', 'result c']);
  });

  it('overlaps ten calls when it is told no cap', async () => {
    const tools = Array.from({ length: 11 }, (_, index) => heldTool(`t${index}`, overlapping));
    const t = deskFixture(tools);
    const all = tools.map(({ name }) => t.call(name));
    expect(t.events).toHaveLength(10);
    for (const each of tools) each.gate.open();
    await Promise.all(all);
  });

  it('takes a call whose classifier throws for an exclusive one', async () => {
    const unsure = heldTool('unsure', {
      isConcurrencySafe() {
        throw new Error('cannot tell');
      },
    });
    const t = deskFixture([tool('safe', overlapping), unsure]);
    const asked = t.call('unsure');
    const next = t.call('safe');
    expect(t.events).toEqual(['call unsure']);
    unsure.gate.open();
    await Promise.all([asked, next]);
    expect(t.events).toEqual(['call unsure', 'result unsure', 'call safe', 'result safe']);
  });

  it('asks a classifier again just before its call starts', async () => {
    let isSafe = false;
    const held = heldTool('held', overlapping);
    const changing = heldTool('changing', { isConcurrencySafe: () => isSafe });
    const t = deskFixture([held, tool('quick', overlapping), changing]);
    const all = [t.call('held'), t.call('quick'), t.call('changing')];
    expect(t.events).toEqual(['call held', 'call quick']);
    isSafe = true;
    await all[1];
    expect(t.events).toEqual(['call held', 'call quick', 'call changing']);
    held.gate.open();
    changing.gate.open();
    await Promise.all(all);
  });

  it('refuses a call while another of its id is pending', async () => {
    const held = heldTool('held');
    const t = deskFixture([held]);
    const asked = t.call('held', {}, 'same');
    await expect(t.call('held', {}, 'same')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    held.gate.open();
    await asked;
    await t.call('held', {}, 'same');
    expect(t.events).toEqual(['call same', 'result same', 'call same', 'result same']);
  });
});

describe('the record of a call', () => {
  it('runs no body before its record is committed', async () => {
    const commit = gate();
    const t = deskFixture([tool('a', { execute: () => void t.events.push('body a') })], {
      committed: () => commit.wait(),
    });
    const asked = t.call('a');
    await settled();
    expect(t.events).toEqual(['call a']);
    commit.open();
    await asked;
    expect(t.events).toEqual(['call a', 'body a', 'result a']);
  });

  it('drops a call that could not be committed, and all that wait, without a result', async () => {
    const lost = new Error('disk full');
    const commit = gate();
    const t = deskFixture([tool('a'), tool('b')], {
      committed: ({ callId }) =>
        callId === 'a' ? commit.wait().then(() => Promise.reject(lost)) : Promise.resolve(),
    });
    const both = Promise.allSettled([t.call('a'), t.call('b')]);
    commit.open();
    expect(await both).toEqual([
      { status: 'rejected', reason: lost },
      { status: 'rejected', reason: lost },
    ]);
    expect(t.events).toEqual(['call a']);
    await t.call('b');
    expect(t.events.slice(1)).toEqual(['call b', 'result b']);
  });

  it('lets what runs settle when a later call could not be committed', async () => {
    const held = heldTool('held', overlapping);
    const t = deskFixture([held, tool('lost', overlapping), tool('after', overlapping)], {
      committed: ({ callId }) =>
        callId === 'lost' ? Promise.reject(new Error('disk full')) : Promise.resolve(),
    });
    const all = [t.call('held'), t.call('lost'), t.call('after')];
    await expect(all[1]).rejects.toThrow('disk full');
    held.gate.open();
    await Promise.all([all[0], all[2]]);
    expect(t.events.slice(3)).toEqual(['result held', 'result after']);
  });

  it('tells a result that waited for a call which then could not be committed', async () => {
    const commit = gate();
    const t = deskFixture([tool('lost', overlapping), tool('done', overlapping)], {
      committed: ({ callId }) =>
        callId === 'lost'
          ? commit.wait().then(() => Promise.reject(new Error('disk full')))
          : Promise.resolve(),
    });
    const lost = t.call('lost');
    await t.call('done');
    expect(t.events).toEqual(['call lost', 'call done']);
    commit.open();
    await expect(lost).rejects.toThrow('disk full');
    expect(t.events.slice(2)).toEqual(['result done']);
  });

  it('rejects a call that the log refuses, and goes on with the next', async () => {
    const t = deskFixture([tool('a'), tool('b')], {
      ports: {
        started(call) {
          if (call.name === 'a') throw new Error('no step is open');
          return Promise.resolve();
        },
      },
    });
    await expect(t.call('a')).rejects.toThrow('no step is open');
    await t.call('b');
    expect(t.events).toEqual(['result b']);
  });

  it('rejects a call whose result the log refuses', async () => {
    const t = deskFixture([tool('a')], {
      ports: {
        settled() {
          throw new Error('no step is open');
        },
      },
    });
    await expect(t.call('a')).rejects.toThrow('no step is open');
    expect(t.desk.pending).toBe(0);
  });
});

describe('the end of a turn', () => {
  it('logs a call and its refusal when the turn had ended before', async () => {
    const t = deskFixture([tool('a'), tool('b')]);
    t.turn.abort();
    await Promise.all([t.call('a'), t.call('b')]);
    expect(t.events).toEqual([
      'call a',
      'result a ABORTED_BEFORE_DISPATCH',
      'call b',
      'result b ABORTED_BEFORE_DISPATCH',
    ]);
  });

  it('asks nothing else of a call when the turn had ended before', async () => {
    const t = deskFixture([tool('a', { execute: () => void t.events.push('body') })]);
    t.scope.guard(() => 'denied');
    t.turn.abort();
    await Promise.all([t.call('missing'), t.call('a', '{not json')]);
    expect(t.events.filter((event) => event.startsWith('result'))).toEqual([
      'result missing ABORTED_BEFORE_DISPATCH',
      'result a ABORTED_BEFORE_DISPATCH',
    ]);
  });

  it('runs no body when the turn ends while its record is committed', async () => {
    const commit = gate();
    const t = deskFixture([tool('a', { execute: () => void t.events.push('body') })], {
      committed: () => commit.wait(),
    });
    const asked = t.call('a');
    t.turn.abort();
    commit.open();
    await asked;
    expect(t.events).toEqual(['call a', 'result a ABORTED_BEFORE_DISPATCH']);
  });

  it('waits for what runs, and starts nothing of what waits', async () => {
    const held = heldTool('held');
    const t = deskFixture([held, tool('next')]);
    const both = [t.call('held'), t.call('next')];
    await settled();
    t.turn.abort();
    await settled();
    expect(t.events).toEqual(['call held']);
    held.gate.open();
    await Promise.all(both);
    expect(t.events.slice(1)).toEqual([
      'result held ABORTED',
      'call next',
      'result next ABORTED_BEFORE_DISPATCH',
    ]);
  });

  it('keeps the failure of a body that was told to stop', async () => {
    const held = gate();
    const t = deskFixture([
      tool('a', { execute: () => held.wait().then(() => Promise.reject(new Error('half done'))) }),
    ]);
    const asked = t.call('a');
    await settled();
    t.turn.abort();
    held.open();
    await asked;
    expect(t.text('a')).toBe('Error: half done');
  });

  it('gives a body the reason of the turn, and takes its rethrow for ABORTED', async () => {
    const started = gate();
    const t = deskFixture([
      tool('a', {
        execute: (_, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason));
            started.open();
          }),
      }),
    ]);
    const asked = t.call('a');
    await started.wait();
    t.turn.abort({ kind: 'user' });
    await asked;
    expect(t.events).toEqual(['call a', 'result a ABORTED']);
  });

  it('does not touch a call that had its result', async () => {
    const t = deskFixture([tool('a')]);
    await t.call('a');
    t.turn.abort();
    await settled();
    expect(t.events).toEqual(['call a', 'result a']);
  });

  it('gives up a body that ignores its signal, and drops what it still does', async () => {
    const held = heldTool('held');
    const t = deskFixture([held, tool('next')], { abandonAfterMs: 500 });
    const asked = t.call('held');
    await settled();
    t.turn.abort();
    await t.clock.advance(499);
    expect(t.events).toEqual(['call held']);
    await t.clock.advance(1);
    await asked;
    expect(t.events).toEqual(['call held', 'result held TOOL_ABANDONED']);
    expect(t.warnings).toEqual(['A tool ignored that it was to stop.']);
    held.gate.open();
    await settled();
    expect(t.events).toHaveLength(2);
    expect(t.clock.pending).toBe(0);
  });
});

describe('the end of a thread', () => {
  it('drops what has no result, and tells what runs to stop', async () => {
    const stopped = gate();
    const safe = {
      isConcurrencySafe: () => true,
      execute: (_: unknown, { signal }: ToolContext<unknown>) =>
        new Promise<string>((resolve) =>
          signal.addEventListener('abort', () => {
            stopped.open();
            resolve('late');
          }),
        ),
    };
    const t = deskFixture([tool('running', safe), tool('waiting')]);
    const lost = [t.call('running'), t.call('waiting')];
    const outcomes = Promise.allSettled(lost);
    await settled();
    t.desk.abandon(new Error('the thread died'));
    await stopped.wait();
    await settled();
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(t.events).toEqual(['call running']);
    expect(t.desk.pending).toBe(0);
    expect(t.clock.pending).toBe(0);
  });

  it('tells a result that waited for an earlier call which is dropped', async () => {
    const held = heldTool('held', overlapping);
    const t = deskFixture([held, tool('done', overlapping)]);
    const lost = t.call('held');
    await t.call('done');
    t.desk.abandon();
    await expect(lost).rejects.toMatchObject({ code: 'WORKER_EXITED' });
    expect(t.events).toEqual(['call held', 'call done', 'result done']);
    held.gate.open();
    await settled();
    expect(t.events).toHaveLength(3);
  });

  it('runs no body whose record is committed too late', async () => {
    const commit = gate();
    const t = deskFixture([tool('a', { execute: () => void t.events.push('body') })], {
      committed: () => commit.wait(),
    });
    const lost = t.call('a');
    t.desk.abandon();
    commit.open();
    await expect(lost).rejects.toThrow('The thread of the call is gone.');
    await settled();
    expect(t.events).toEqual(['call a']);
  });

  it('serves a new thread afterwards', async () => {
    const held = heldTool('held');
    const t = deskFixture([held, tool('a')]);
    const lost = t.call('held');
    t.desk.abandon();
    await expect(lost).rejects.toThrow('The thread of the call is gone.');
    expect(await t.call('a')).toEqual({ done: true, concludesTurn: false });
  });
});

describe('watchers of calls', () => {
  it('hear each result after it is in the log, and cannot disturb it', async () => {
    const t = deskFixture([tool('a'), tool('b')]);
    const heard: unknown[] = [];
    t.scope.watch(() => {
      throw new Error('a bad watcher');
    });
    const stop = t.scope.watch(({ request, result, args }) => {
      heard.push([t.events.at(-1), request.callId, result?.value, args]);
    });
    await t.call('a', { x: 1 });
    stop();
    await t.call('b');
    expect(heard).toEqual([['result a', 'a', 'a', { x: 1 }]]);
    expect(t.warnings).toHaveLength(2);
  });
});
