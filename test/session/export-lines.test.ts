import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { damage } from './damage.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { stored } from './following.ts';
import { header, userMessage } from './log-parts.ts';
import { a, codeOf, keep, say, setup } from './watched-store.ts';
import { b, c, linesOf, tree, turnsDuring } from './lines.ts';

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
