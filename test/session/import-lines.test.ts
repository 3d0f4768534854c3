import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { stored } from './following.ts';
import { header, inStep, userMessage } from './log-parts.ts';
import { a, codeOf, full, setup } from './watched-store.ts';
import { b, c, linesOf, someLines, tree, turnsDuring } from './lines.ts';

describe('importing sessions', () => {
  it('keeps them exactly, and gives nobody a hold on them', async () => {
    await using files = tempStore();
    const { sessions, store } = setup();
    await tree(sessions);
    const log = inStep();
    log.append('user/message', userMessage('half \ud83d, whole 😀, \u0000 and \u2028'));
    await store.append([
      { id: SessionId('d'), epoch: FIRST_EPOCH, header: header('d'), events: log.events },
    ]);
    const options = { clock: new ManualClock(), logger: silentLogger };
    const there = new Sessions({ store: files.store, ...options });
    const ids = [a, b, c, SessionId('d')];
    const imported = await there.importLines(sessions.exportLines(ids));
    expect([...imported]).toEqual(ids.map((id) => [id, id]));
    const other = files.open();
    for (const id of ids) {
      expect(await files.store.inspect(id)).toEqual(await store.inspect(id));
      await other.acquire(id);
    }
    await there.close();
  });

  it('gives new ids, in headers and wherever an event says whom it is from', async () => {
    const { sessions, store } = setup();
    await tree(sessions);
    const names = await sessions.importLines(sessions.exportLines({ below: b }), { ids: 'new' });
    const [newB, newC] = [names.get(b)!, names.get(c)!];
    expect(new Set([a, b, c, newB, newC]).size).toBe(5);
    const [, copy] = [await store.inspect(b), await store.inspect(newB)];
    // What is above it is not part of the file, and stays above it.
    expect(copy.header).toMatchObject({ id: newB, parentSession: a });
    expect((await store.inspect(newC)).header.parentSession).toBe(newB);
    expect(JSON.stringify(copy.events)).not.toContain(`"senderSessionId":"${c}"`);
    expect(JSON.stringify(copy.events).split(`"senderSessionId":"${newC}"`)).toHaveLength(3);
  });

  it('leaves a parent that is damaged in the lines, or not in them, the parent', async () => {
    const { sessions, store } = setup();
    await tree(sessions);
    const lines = await linesOf(sessions.exportLines({ below: b }));
    const damaged = JSON.stringify({ damaged: { session: b, text: 'It is.' } });
    const end = lines.findIndex((line) => line.startsWith('{"end"'));
    const rest = [lines[0]!, damaged, ...lines.slice(end + 1)];
    const names = await sessions.importLines(rest, { ids: 'new' });
    expect([...names.keys()]).toEqual([c]);
    const copy = names.get(c)!;
    expect((await store.inspect(copy)).header.parentSession).toBe(b);
    const alone = { ...(JSON.parse(lines[0]!) as object), sessions: [c] };
    const missing = [JSON.stringify(alone), ...lines.slice(end + 1)];
    const other = await sessions.importLines(missing, { ids: 'new' });
    expect((await store.inspect(other.get(c)!)).header.parentSession).toBe(b);
    expect(other.get(c)).not.toBe(copy);
    expect((await sessions.store.listBelow!([b], 1)).map(({ id }) => id)).toEqual(
      expect.arrayContaining([c, copy, other.get(c)]),
    );
  });

  it.each<[string, (lines: string[]) => unknown[]]>([
    ['without line ends', (lines) => lines.map((line) => line.trimEnd())],
    [
      'with the line ends of another system',
      (lines) => lines.map((line) => `${line.trimEnd()}\r\n`),
    ],
    ['with empty lines', (lines) => ['', '\n', ...lines.flatMap((line) => [line, ' \r\n', ''])]],
    ['with a mark of its encoding', (lines) => [`\uFEFF${lines[0]}`, ...lines.slice(1)]],
  ])('takes lines %s', async (_, change) => {
    const { sessions } = setup();
    const lines = change(await someLines()) as string[];
    expect([...(await sessions.importLines(lines)).keys()]).toEqual([a, b]);
  });

  const at = (index: number, line: unknown) => (lines: string[]) =>
    lines.toSpliced(index, 1, typeof line === 'string' ? line : JSON.stringify(line));
  const cases: readonly [string, (lines: string[]) => unknown[], RegExp][] = [
    ['nothing', () => [], /empty/],
    ['what is no export', (lines) => lines.slice(1), /Line 1 .*does not begin an export/],
    [
      'no list of sessions',
      at(0, { format: 'subagent-runtime/sessions', version: 1 }),
      /Line 1 .*name the sessions/,
    ],
    ['what is no text', (lines) => [...lines.slice(0, 3), 1], /Line 4 .*no text/],
    ['what is no JSON', at(3, '{"type":'), /Line 4 .*no JSON/],
    ['two lines at once', (lines) => [lines.join('')], /Line 1 .*more than one line/],
    ['a list', at(3, []), /Line 4 .*no object/],
    ['what is nothing known', at(3, { note: 1 }), /Line 4 .*no header, no event/],
    ['a line of brackets', at(3, '['.repeat(2 ** 20)), /Line 4 .*nested too deeply/],
    ['a line of empty objects', at(3, `[${'{},'.repeat(2e6)}{}]`), /Line 4 .*2000000 values/],
    ['a line that is too long', at(3, 'x'.repeat(2 ** 26 + 1)), /Line 4 .*characters/],
    [
      'an event that is too deep',
      at(3, `{"type":"user/message","data":${'['.repeat(2_000)}${']'.repeat(2_000)}}`),
      /Line 4 .*nested/,
    ],
    ['an event twice', (lines) => lines.toSpliced(3, 0, lines[2]!), /Line 4 .*seq is 0/],
    ['an event missing', (lines) => lines.toSpliced(2, 1), /Line 3 .*seq is 1/],
    ['an unknown event', at(2, { type: 'x', seq: 0, time: 0, data: {} }), /Line 3 .*unknown/],
    [
      'an event out of order',
      at(2, {
        type: 'turn/end',
        seq: 0,
        time: 0,
        data: { turn: 1, reason: { kind: 'completed' } },
      }),
      /Line 3 .*turn 1/,
    ],
    [
      'an event without a shape',
      at(2, { type: 'user/message', seq: 0, time: 0, data: {}, surfaceOp: 'append' }),
      /Line 3 .*role/,
    ],
    [
      'an event before any header',
      (lines) => lines.toSpliced(1, 1),
      /Line 2 .*no session is begun/,
    ],
    [
      'a header of another version',
      at(1, { header: { version: 1, id: 'a', createdAt: 1 } }),
      /Line 2 .*version/,
    ],
    [
      'a header with more than is known',
      at(1, { header: { version: 0, id: 'a', createdAt: 1, more: 1 } }),
      /Line 2 .*`more`/,
    ],
    [
      'a session that was not named',
      at(1, { header: { version: 0, id: 'z', createdAt: 1 } }),
      /Line 2 .*not name/,
    ],
    ['a session twice', (lines) => [...lines.slice(0, 5), ...lines.slice(1)], /Line 6 .*before/],
    [
      'more inherited than said',
      at(1, { header: { version: 0, id: 'a', createdAt: 1, seedLength: 3 } }),
      /Line 5 .*inherited/,
    ],
    [
      'two sessions interleaved',
      (lines) => lines.toSpliced(3, 0, lines[5]!),
      /Line 4 .*`a` has no end/,
    ],
    [
      'the end of another session',
      at(4, { end: { session: 'b', events: 2 } }),
      /Line 5 .*`a` has no end/,
    ],
    [
      'an end that counts otherwise',
      at(4, { end: { session: 'a', events: 3 } }),
      /Line 5 .*counts 3/,
    ],
    ['an end without a session', (lines) => lines.toSpliced(1, 3), /Line 2 .*no session is begun/],
    [
      'a file that is cut off in a session',
      (lines) => lines.slice(0, 7),
      /ends inside of session `b`/,
    ],
    [
      'a file that is cut off in a line',
      (lines) => [...lines.slice(0, 6), lines[6]!.slice(0, 9)],
      /Line 7 .*no JSON/,
    ],
    ['a file that is cut off between two', (lines) => lines.slice(0, 5), /ends before session `b`/],
  ];
  it.each(cases)('refuses %s, and keeps nothing', async (_, change, message) => {
    const { sessions, store } = setup();
    const lines = change(await someLines());
    const refused = sessions.importLines(lines as string[]);
    await expect(refused).rejects.toThrow(ArgumentError);
    await expect(refused).rejects.toThrow(message);
    expect(await store.list()).toEqual([]);
    // Nothing is held: the same can be tried again.
    expect((await sessions.importLines(await someLines())).size).toBe(2);
  });

  it('refuses lines of a later version', async () => {
    const { sessions } = setup();
    const lines = ['{"format":"subagent-runtime/sessions","version":2,"sessions":[]}'];
    expect(await codeOf(sessions.importLines(lines))).toBe('STORE_FORMAT_UNSUPPORTED');
  });

  it('refuses an id that exists with another log, and keeps nothing', async () => {
    const { sessions, store } = setup();
    const lines = await someLines();
    const other = [{ id: b, epoch: FIRST_EPOCH, header: header('b'), events: [] }];
    await store.append(other);
    expect(await codeOf(sessions.importLines(lines))).toBe('INVALID_ARGUMENT');
    expect((await store.list()).map(({ id }) => id)).toEqual([b]);
    expect((await store.inspect(b)).events).toEqual([]);
    // One event differs, and nothing else.
    await sessions.remove(b);
    await sessions.importLines(lines);
    const changed = lines.map((line) => line.replace('from nobody', 'from somebody'));
    await expect(sessions.importLines(changed)).rejects.toThrow(/`b`: the store holds one/);
    const older = lines.map((line) => line.replace('"createdAt":', '"createdAt":1'));
    await expect(sessions.importLines(older)).rejects.toThrow(/`a`: the store holds one/);
    expect(await store.list()).toHaveLength(2);
  });

  it('leaves what is there with the very same log as it is, and imports the rest', async () => {
    const { sessions, store } = setup();
    const lines = await someLines();
    await sessions.importLines(lines);
    await sessions.remove(b);
    const written = store.batches.length;
    expect([...(await sessions.importLines(lines)).keys()]).toEqual([a, b]);
    expect(store.written.slice(written)).toEqual(['b:2']);
    // When that fails, only what this one wrote goes.
    await sessions.remove(b);
    expect(await codeOf(sessions.importLines([...lines, '{']))).toBe('INVALID_ARGUMENT');
    expect((await store.list()).map(({ id }) => id)).toEqual([a]);
  });

  it('takes all back when a later write fails, and says so when that fails too', async () => {
    const { sessions, store } = setup();
    const lines = await someLines();
    store.refuse = ([entry]) => (entry?.id === b ? full() : undefined);
    expect(await codeOf(sessions.importLines(lines))).toBe('STORE_FULL');
    expect(await store.list()).toEqual([]);
    const remove = vi.spyOn(store, 'delete').mockRejectedValue(full());
    const failed = sessions.importLines(lines);
    expect(await codeOf(failed)).toBe('STORE_IO');
    await expect(failed).rejects.toThrow(
      /these of it stay: `a`\. They could not be taken back: The disk is full\./,
    );
    remove.mockRestore();
    store.refuse = undefined;
    expect((await sessions.importLines(lines)).size).toBe(2);
  });

  it('leaves out what the export says is damaged, and tells', async () => {
    const { sessions, store } = setup();
    const lines = await someLines();
    const damaged = (session: string): string =>
      JSON.stringify({ damaged: { session, text: 'It is.' } });
    const told: unknown[] = [];
    const onDamaged = (session: unknown): unknown => told.push(session);
    // The first in the middle of its log, the second as a whole.
    const names = await sessions.importLines(
      [...lines.slice(0, 3), damaged('a'), ...lines.slice(5)],
      {
        onDamaged,
      },
    );
    expect([...names.keys()]).toEqual([b]);
    expect((await store.list()).map(({ id }) => id)).toEqual([b]);
    const both = [lines[0]!, damaged('a'), damaged('b')];
    expect((await sessions.importLines(both, { onDamaged })).size).toBe(0);
    expect(told).toEqual([a, a, b].map((id) => ({ id, text: 'It is.' })));
    for (const [wrong, message] of [
      [[...lines.slice(0, 3), damaged('b')], /`a` has no end/],
      [[lines[0]!, damaged('z')], /not name/],
      [[lines[0]!, damaged('a'), damaged('a')], /before/],
      [[lines[0]!, damaged('a'), lines[1]!], /before/],
      [[lines[0]!, '{"damaged":{"session":"a"}}'], /not say/],
    ] as const) {
      await expect(sessions.importLines(wrong)).rejects.toThrow(message);
    }
  });

  it('lets others have their turn while it reads what is all there', async () => {
    const { sessions } = setup();
    await stored(sessions, 1_000);
    const lines = await linesOf(sessions.exportLines([a]));
    expect(await turnsDuring(() => sessions.importLines(lines, { ids: 'new' }))).toBeGreaterThan(3);
  });

  it('refuses an id that is live, or that somebody loads', async () => {
    const { sessions } = setup();
    const session = sessions.prepare({ id: a });
    sessions.enter(session);
    await expect(sessions.importLines(await someLines())).rejects.toThrow(/`a` is live/);
  });

  it('holds the id of what it reads: nobody can make a session of it meanwhile', async () => {
    const { sessions } = setup();
    const [begun, held] = [gate(), gate()];
    const all = await someLines();
    async function* slowly(): AsyncGenerator<string> {
      yield* all.slice(0, 3);
      begun.open();
      await held.wait();
      yield* all.slice(3);
    }
    const importing = sessions.importLines(slowly());
    await begun.wait();
    expect(() => sessions.prepare({ id: a })).toThrow(/`a` is live or/);
    await expect(sessions.load(a)).rejects.toThrow(ArgumentError);
    held.open();
    await importing;
    await sessions.release(await sessions.load(a));
  });

  it('closes its source, and tells what a write failed with', async () => {
    const { sessions, store } = setup();
    let isClosed = false;
    const all = await someLines();
    async function* lines(): AsyncGenerator<string> {
      try {
        yield* all;
      } finally {
        isClosed = true;
      }
    }
    store.refuse = full;
    expect(await codeOf(sessions.importLines(lines()))).toBe('STORE_FULL');
    expect(isClosed).toBe(true);
    store.refuse = undefined;
    expect((await sessions.importLines(lines())).size).toBe(2);
  });

  it('ends with the reason of its signal, and is refused what it does not take', async () => {
    const { sessions } = setup();
    const reason = new Error('Enough.');
    const signal = AbortSignal.abort(reason);
    await expect(sessions.importLines(await someLines(), { signal })).rejects.toBe(reason);
    for (const [lines, options] of [
      ['one text', {}],
      [1, {}],
      [undefined, {}],
      [[], { ids: 'old' }],
      [[], { id: 'new' }],
    ]) {
      const refused = sessions.importLines(lines as never, options as never);
      await expect(refused).rejects.toThrow(ArgumentError);
    }
  });
});
