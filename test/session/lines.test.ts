import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { damage } from './damage.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { stored } from './following.ts';
import { header, inStep, userMessage } from './log-parts.ts';
import { a, codeOf, full, keep, say, setup } from './watched-store.ts';

const b = SessionId('b');
const c = SessionId('c');

async function linesOf(lines: AsyncIterable<string>): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

/** `a` with `b` below it, and `c` below `b`. */
async function tree(sessions: Sessions): Promise<void> {
  await stored(sessions, 2);
  for (const [id, parentSession] of [
    [b, a],
    [c, b],
  ] as const) {
    const session = sessions.prepare({ id, meta: { parentSession, origin: 'subagent' } });
    sessions.enter(session);
    sessions.accept(session);
    const source = { kind: 'subagent-report', form: 'relay', senderSessionId: c } as const;
    session.append('user/message', { ...userMessage('from c'), source });
    session.append('agent/inbox/spliced', {
      target: 'next-turn',
      start: 0,
      inserted: [{ ...userMessage('x'), source }, userMessage('from nobody')],
    });
    await sessions.leave(session);
  }
}

/** How many turns of the event loop others had meanwhile. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

/** The lines of one export, of two sessions with two events each. */
async function someLines(): Promise<string[]> {
  const { sessions } = setup();
  await tree(sessions);
  return [...(await linesOf(sessions.exportLines([a, b])))];
}

describe('exporting sessions', () => {
  it('gives what there is of each, whole, after a line that says what follows', async () => {
    const { sessions, store } = setup();
    await tree(sessions);
    const lines = await linesOf(sessions.exportLines([b, a, b]));
    expect(lines.every((line) => line.endsWith('\n'))).toBe(true);
    const [log, root] = [await store.inspect(b), await store.inspect(a)];
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { format: 'subagent-runtime/sessions', version: 1, sessions: [b, a] },
      { header: log.header },
      ...log.events,
      { end: { session: b, events: 2 } },
      { header: root.header },
      ...root.events,
      { end: { session: a, events: 2 } },
    ]);
  });

  it('gives a session and all below it, parents first', async () => {
    const { sessions } = setup();
    await tree(sessions);
    const first = async (below: SessionId): Promise<unknown> =>
      JSON.parse((await linesOf(sessions.exportLines({ below })))[0] ?? '');
    expect(await first(a)).toMatchObject({ sessions: [a, b, c] });
    expect(await first(b)).toMatchObject({ sessions: [b, c] });
  });

  it('gives of a live session what it holds when its turn comes, an open turn too', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    session.append('turn/start', { turn: 1 });
    const lines = sessions.exportLines([a])[Symbol.asyncIterator]();
    await lines.next();
    say(session);
    await lines.next();
    const seen: string[] = [];
    for (;;) {
      const { done, value } = await lines.next();
      if (done === true) break;
      seen.push(value as string);
      say(session);
      await sessions.leave(session);
    }
    expect(seen).toHaveLength(3);
    expect(seen.at(-1)).toContain('"events":2');
  });

  it('reads page by page, as it is pulled', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 600);
    const read = vi.spyOn(store, 'readFrom');
    const lines = sessions.exportLines([a])[Symbol.asyncIterator]();
    for (let count = 0; count < 2 + 256; count++) await lines.next();
    expect(read).toHaveBeenCalledTimes(1);
    await lines.return?.();
    expect((await lines.next()).done).toBe(true);
  });

  it('is refused before its first line when a session is not there', async () => {
    const { sessions } = setup();
    await stored(sessions, 1);
    expect(await codeOf(linesOf(sessions.exportLines([a, b])))).toBe('SESSION_NOT_FOUND');
    expect(await codeOf(linesOf(sessions.exportLines({ below: b })))).toBe('SESSION_NOT_FOUND');
    for (const wrong of [a, {}, { below: 1 }, [1], undefined]) {
      expect(() => sessions.exportLines(wrong as never)).toThrow(ArgumentError);
    }
  });

  it('ends with the reason of its signal, and when a session is removed meanwhile', async () => {
    const { sessions } = setup();
    await stored(sessions, 300);
    const reason = new Error('Enough.');
    await expect(linesOf(sessions.exportLines([a], AbortSignal.abort(reason)))).rejects.toBe(
      reason,
    );
    const lines = sessions.exportLines([a])[Symbol.asyncIterator]();
    for (let count = 0; count < 2 + 256; count++) await lines.next();
    await sessions.remove(a);
    expect(await codeOf(lines.next())).toBe('SESSION_NOT_FOUND');
  });

  it('gives what can be read, names what is damaged, and tells', async () => {
    await using files = tempStore();
    const options = { clock: new ManualClock(), logger: silentLogger };
    const sessions = new Sessions({ store: files.store, ...options });
    await tree(sessions);
    const lone = sessions.prepare({ id: SessionId('d'), meta: { parentSession: a } });
    sessions.enter(lone);
    sessions.accept(lone);
    for (let count = 0; count < 3; count++) lone.append('user/message', userMessage('d'));
    await sessions.leave(lone);
    damage(files.path, "UPDATE session SET header = x'7b' WHERE id = 'b'");
    damage(files.path, "UPDATE event SET body = x'7b' WHERE seq = 1 AND session = 4");
    const told: unknown[] = [];
    const lines = await linesOf(
      sessions.exportLines({ below: a }, undefined, (one) => told.push([one.id, one.error.code])),
    );
    const kinds = lines.map((line) => Object.keys(JSON.parse(line) as object)[0]);
    expect(JSON.parse(lines[0]!)).toMatchObject({ sessions: [a, 'd', b, c] });
    expect(kinds.filter((kind) => kind !== 'type')).toEqual([
      'format',
      ...['header', 'end'],
      ...['header', 'damaged'],
      'damaged',
      ...['header', 'end'],
    ]);
    expect(told).toEqual([
      ['d', 'STORE_CORRUPT'],
      [b, 'STORE_CORRUPT'],
    ]);
    // What the lines of `d` say before they end is for a person; the import takes the rest.
    const there = setup().sessions;
    expect([...(await there.importLines(lines)).keys()]).toEqual([a, c]);
    expect(() => sessions.exportLines([a], undefined, 1 as never)).toThrow(ArgumentError);
    await sessions.close();
  });

  it('takes a log that contradicts itself for damaged: no import would take it', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 2);
    const end = {
      type: 'turn/end',
      seq: 0,
      time: 0,
      data: { turn: 1, reason: { kind: 'completed' } },
    };
    const entry = { id: b, epoch: FIRST_EPOCH, header: header('b'), events: [end as never] };
    const short = { id: c, epoch: FIRST_EPOCH, header: header('c', { seedLength: 1 }), events: [] };
    await store.append([entry, short]);
    const lines = await linesOf(sessions.exportLines([a, b, c]));
    expect(lines.filter((line) => line.startsWith('{"damaged"'))).toEqual([
      expect.stringMatching(/`b` is damaged: event 0 cannot be: .*turn 1/),
      expect.stringMatching(/`c` is damaged: it is shorter/),
    ]);
    expect((await setup().sessions.importLines(lines)).size).toBe(1);
  });

  it('gives a live session as it is, also what is not stored', async () => {
    const { sessions, store } = setup();
    const session = sessions.prepare({ id: a });
    sessions.enter(session);
    say(session);
    expect(await linesOf(sessions.exportLines([a]))).toHaveLength(4);
    expect(await store.list()).toEqual([]);
  });

  it.each([
    ['by this process', false],
    ['by another process', true],
  ])('does not go on in another log that took the place of the first %s', async (_, isOther) => {
    const { sessions, store, clock, logger } = setup();
    await stored(sessions, 600);
    const all = await linesOf(sessions.exportLines([a]));
    const lines = sessions.exportLines([a])[Symbol.asyncIterator]();
    for (let count = 0; count < 2 + 256; count++) await lines.next();
    const who = isOther ? new Sessions({ store, clock, logger }) : sessions;
    await who.remove(a);
    // This process knows that it removed it, even if the log says the same.
    const others = isOther ? all.map((line) => line.replace('"time":', '"time":1')) : all;
    await who.importLines(others);
    expect(await codeOf(lines.next())).toBe('SESSION_NOT_FOUND');
  });

  it('lets others have their turn while it gives a long live log', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    for (let count = 0; count < 1_000; count++) say(session);
    expect(await turnsDuring(() => linesOf(sessions.exportLines([a])))).toBeGreaterThan(3);
  });
});

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
      at(2, { type: 'turn/end', seq: 0, time: 0, data: { turn: 1 } }),
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
    await expect(failed).rejects.toThrow(/could not be taken back; these stay: `a`\./);
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
