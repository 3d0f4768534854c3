import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { SubagentError } from '../../protocol/errors.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import { gate } from '../support/gate.ts';
import { until } from '../support/until.ts';
import { deskFixture, heldTool, note, overlapping, theAgent, tool } from './desk-fixture.ts';

describe('what a body is given and gives', () => {
  it('hands over frozen arguments and the calling agent', async () => {
    const seen: { args: unknown; context: ToolContext<unknown> }[] = [];
    const t = deskFixture([
      tool('a', { execute: (args, context) => void seen.push({ args, context }) }),
    ]);
    await t.call('a', { list: [1] });
    expect(seen).toMatchObject([
      { args: { list: [1] }, context: { agent: theAgent, callId: 'a' } },
    ]);
    expect(Object.isFrozen((seen[0]?.args as { list: unknown } | undefined)?.list)).toBe(true);
  });

  it.each([
    ['a text as it is', 'plain', 'plain'],
    ['other JSON as text', { a: [1, null] }, '{"a":[1,null]}'],
    ['nothing as a word that says so', undefined, '(no output)'],
  ])('shows %s', async (_, output, shown) => {
    const t = deskFixture([tool('a', { execute: () => output })]);
    await t.call('a');
    expect(t.text('a')).toBe(shown);
    expect(t.results.get('a')).toMatchObject({ isError: false, concludesTurn: false });
  });

  it('shows what the output renders, and keeps the value for observers', async () => {
    const t = deskFixture([
      tool('a', {
        execute: () => ({ count: 2 }),
        output: {
          schema: { type: 'object', properties: { count: { type: 'integer' } } },
          render: (args, value) => [{ type: 'text', text: JSON.stringify([args, value]) }],
        },
      }),
    ]);
    await t.call('a', { of: 'x' });
    expect(t.text('a')).toBe('[{"of":"x"},{"count":2}]');
    expect(t.results.get('a')?.value).toEqual({ count: 2 });
  });

  it.each([
    ['a value that is no JSON', { execute: () => new Date(0) as never }],
    ['a value that JSON would change', { execute: () => ({ a: undefined }) as never }],
    [
      'a value outside its output schema',
      { execute: () => 1, output: { schema: { type: 'string' }, render: () => [] } },
    ],
    [
      'nothing where a value is due',
      { execute: () => {}, output: { schema: {}, render: () => [] } },
    ],
    [
      'a rendering that throws',
      {
        execute: () => 1,
        output: {
          schema: {},
          render() {
            throw new Error('cannot draw');
          },
        },
      },
    ],
    [
      'a rendering that is no content',
      { execute: () => 1, output: { schema: {}, render: () => 'text' as never } },
    ],
  ])('takes %s for INVALID_TOOL_OUTPUT', async (_, more) => {
    const t = deskFixture([tool('a', more)]);
    await t.call('a');
    expect(t.events).toEqual(['call a', 'result a INVALID_TOOL_OUTPUT']);
  });

  it('tells what a body threw, with the code of a typed error', async () => {
    const t = deskFixture([
      tool('plain', {
        execute() {
          throw new Error('no such file');
        },
      }),
      tool('typed', { execute: () => Promise.reject(new SubagentError('CAPACITY', 'No thread.')) }),
      tool('odd', { execute: () => Promise.reject(Object.create(null)) }),
    ]);
    await t.call('plain');
    await t.call('typed');
    await t.call('odd');
    expect(t.text('plain')).toBe('Error: no such file');
    expect(t.results.get('plain')).not.toHaveProperty('error');
    expect(t.text('typed')).toBe('Error: No thread.');
    expect(t.results.get('typed')?.error).toEqual({ name: 'SubagentError', code: 'CAPACITY' });
    expect(t.text('odd')).toMatch(/^Error: /);
  });

  it('carries contexts and the end of the turn of a success only', async () => {
    const ask = (context: ToolContext<unknown>): void => {
      context.deferContext(note);
      context.concludeTurn();
    };
    const t = deskFixture([
      tool('good', { execute: (_, context) => ask(context) }),
      tool('bad', {
        execute(_, context) {
          ask(context);
          throw new Error('after all');
        },
      }),
    ]);
    expect(await t.call('good')).toEqual({ done: true, concludesTurn: true });
    expect(await t.call('bad')).toEqual({ done: true, concludesTurn: false });
    expect(t.results.get('good')?.contexts).toEqual([note]);
    expect(t.results.get('bad')).toMatchObject({ contexts: [], concludesTurn: false });
  });

  it('takes no notice of what a body asks for after its end', async () => {
    const late: ToolContext<unknown>[] = [];
    const t = deskFixture([tool('a', { execute: (_, context) => void late.push(context) })]);
    expect(await t.call('a')).toEqual({ done: true, concludesTurn: false });
    for (const context of late) {
      context.deferContext(note);
      context.concludeTurn();
    }
    expect(t.results.get('a')).toMatchObject({ contexts: [], concludesTurn: false });
  });

  it('does not listen to its turn any more once it is done', async () => {
    const t = deskFixture([tool('a')]);
    await t.call('a');
    expect(getEventListeners(t.turn.signal, 'abort')).toEqual([]);
  });

  it('refuses a context that is no user message', async () => {
    const t = deskFixture([
      tool('a', { execute: (_, { deferContext }) => deferContext({ text: 'hi' } as never) }),
    ]);
    await t.call('a');
    expect(t.events).toEqual(['call a', 'result a INVALID_ARGUMENT']);
  });
});

describe('the time of a tool', () => {
  it('tells a body that its time is up, and says so whatever it then does', async () => {
    const t = deskFixture([
      tool('a', {
        timeoutMs: 100,
        execute: (_, { signal }) =>
          new Promise((resolve) => signal.addEventListener('abort', () => resolve('half'))),
      }),
    ]);
    const asked = t.call('a');
    await t.clock.advance(100);
    await asked;
    expect(t.events).toEqual(['call a', 'result a TOOL_TIMEOUT']);
    expect(t.text('a')).toBe('Error: The tool `a` did not finish within 100 ms.');
  });

  it('says so of a body that then fails, and whatever its turn does meanwhile', async () => {
    const held = gate();
    const t = deskFixture([
      tool('a', {
        timeoutMs: 100,
        execute: () => held.wait().then(() => Promise.reject(new Error('half done'))),
      }),
    ]);
    const asked = t.call('a');
    await t.clock.advance(100);
    t.turn.abort();
    held.open();
    await asked;
    expect(t.events).toEqual(['call a', 'result a TOOL_TIMEOUT']);
  });

  it('gives up a body that ignores that its time is up', async () => {
    const held = heldTool('held', { timeoutMs: 100 });
    const t = deskFixture([held], { abandonAfterMs: 50 });
    const asked = t.call('held');
    await t.clock.advance(150);
    await asked;
    expect(t.events).toEqual(['call held', 'result held TOOL_ABANDONED']);
  });

  it('is one of any number that listen to the signal of one turn', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const held = heldTool('held', overlapping);
    const t = deskFixture([held], { concurrency: 12 });
    const asked = Array.from({ length: 12 }, (_, index) => t.call('held', {}, `call-${index}`));
    await until(() => getEventListeners(t.turn.signal, 'abort').length > 11);
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
    held.gate.open();
    await Promise.all(asked);
    expect(getEventListeners(t.turn.signal, 'abort')).toEqual([]);
  });

  it('keeps no timer of a body that is done', async () => {
    const t = deskFixture([tool('a', { timeoutMs: 100 })]);
    await t.call('a');
    expect(t.clock.pending).toBe(0);
  });
});
