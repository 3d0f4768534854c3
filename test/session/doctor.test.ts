import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { checkStore } from '../../src/session/doctor.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { newOwner } from '../../src/session/store-owner.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import type { TempStore } from '../support/temp-store.ts';
import { damage } from './damage.ts';
import { appendTurn, aSession, header, inStep, userMessage } from './log-parts.ts';
import { copyOldFile } from './old-file.ts';
import { a, codeOf } from './watched-store.ts';

const b = SessionId('b');

function turns(count: number): readonly SessionEvent[] {
  const session = aSession();
  for (let turn = 0; turn < count; turn++) appendTurn(session, 'said');
  return session.events;
}

const entry = (events: readonly SessionEvent[], id = a, more: Partial<SessionHeader> = {}) => ({
  id,
  epoch: FIRST_EPOCH,
  header: header(id, more),
  events,
});

const said = async (store: Parameters<typeof checkStore>[0]): Promise<readonly string[]> =>
  (await checkStore(store)).map(
    ({ severity, kind, session, text }) =>
      `${severity} ${kind}${session === undefined ? '' : ` ${session}`}: ${text}`,
  );

/** A file with `a`, whose two turns have 12 events, and `b` below it; nobody has it open. */
async function closedFile(): Promise<TempStore> {
  const files = tempStore();
  const checkpoint = { seq: 5, rows: { some: { ver: 1, val: 1 } } };
  await files.store.append([
    { ...entry(turns(2)), checkpoint },
    entry(turns(1), b, { parentSession: a }),
  ]);
  await files.store.close();
  return files;
}

describe('a check of a file', () => {
  it('finds nothing in a good one, and changes nothing', async () => {
    await using files = await closedFile();
    const before = [readdirSync(files.folder), readFileSync(files.path)];
    expect(await said(files.path)).toEqual([]);
    expect(readFileSync(files.path)).toEqual(before[1]);
    expect(readdirSync(files.folder)).toEqual(before[0]);
  });

  const key = "(SELECT key FROM session WHERE id = 'a')";
  it.each<[string, string, readonly RegExp[]]>([
    [
      'an event that is gone',
      `DELETE FROM event WHERE session = ${key} AND seq = 4`,
      [/^error missing-events a: .* at event 4\.$/],
    ],
    [
      'a beginning that is gone',
      `DELETE FROM event WHERE session = ${key} AND seq < 2`,
      [/^error missing-events a: .* at events 0 to 1\.$/],
    ],
    [
      'an end that is gone',
      `DELETE FROM event WHERE session = ${key} AND seq > 9`,
      [/^error wrong-length a: .* to have 12 events, and has 10\.$/],
    ],
    [
      'a row too many',
      `INSERT INTO event SELECT session, 12, body FROM event WHERE seq = 0 AND session = ${key}`,
      [
        /^error broken-log a: Event 12 does not fit.*the next turn is 3/,
        /^error wrong-length a: .* to have 12 events, and has 13/,
      ],
    ],
    [
      'an event that is no event',
      `UPDATE event SET body = x'7b' WHERE session = ${key} AND seq = 3`,
      [/^error unreadable-event a: Event 3 cannot be read: Stored event 3 cannot be read\.$/],
    ],
    [
      'an event of a later version',
      `UPDATE event SET body = CAST('{"type":"x","time":0,"data":{}}' AS BLOB) WHERE session = ${key} AND seq = 3`,
      [/^error unreadable-event a: .*unknown type `x`.*\. A newer version may read it\.$/],
    ],
    [
      'a turn that ends twice',
      `UPDATE event SET body = (SELECT body FROM event WHERE session = ${key} AND seq = 5) WHERE session = ${key} AND seq = 6`,
      [/^error broken-log a: Event 6 does not fit.*turn 1/],
    ],
    [
      'a header that is none',
      `UPDATE session SET header = x'7b' WHERE id = 'a'`,
      [/^error unreadable-header a: Its header cannot be read: [^.]*\.$/],
    ],
    [
      'the header of another',
      `UPDATE session SET header = (SELECT header FROM session WHERE id = 'b') WHERE id = 'a'`,
      [/^error wrong-row a/],
    ],
    [
      'a parent that is not the one of its header',
      `UPDATE session SET parent = 'b' WHERE id = 'a'`,
      [/^error wrong-place a: Its row says that its parent is `b`, and its header none\.$/],
    ],
    [
      'an origin that is not the one of its header',
      `UPDATE session SET origin = 'subagent' WHERE id = 'a'`,
      [/^error wrong-place a: .* how it was made/],
    ],
    [
      'a session whose rows stayed behind',
      "DELETE FROM session WHERE id = 'a'",
      [
        /^warning orphan-rows: 1 row of `checkpoint` belongs to no session\.$/,
        /^error orphan-rows: 12 rows of `event` belong to no session\.$/,
        /^note parent-missing b: Its parent `a` is not in the store/,
      ],
    ],
    [
      'a checkpoint that knows more than the log',
      'UPDATE checkpoint SET seq = 12',
      [/^warning leading-checkpoint a: .* event 12, and the log has 12 events\. It is ignored/],
    ],
    [
      'a checkpoint that cannot be read',
      "UPDATE checkpoint SET body = '{'",
      [/^note unreadable-checkpoint a/],
    ],
    [
      'a lease of the dead',
      `UPDATE session SET owner = '${JSON.stringify({ ...newOwner(), startedAt: 'x' })}', lease_until = 9e15 WHERE id = 'a'`,
      [/^note held-by-the-dead a: .*taken over/],
    ],
    [
      'a lease of whoever writes otherwise',
      `UPDATE session SET owner = '?', lease_until = ${2 ** 52} WHERE id = 'a'`,
      [/^note held a: .*held by another version/],
    ],
  ])('finds %s', async (_, sql, expected) => {
    await using files = await closedFile();
    damage(files.path, sql);
    const found = await said(files.path);
    expect(found).toEqual(expected.map((text) => expect.stringMatching(text) as string));
  });

  it('finds pages that are damaged', async () => {
    await using files = await closedFile();
    const bytes = readFileSync(files.path);
    bytes.fill(0xff, 4_096 * 2, 4_096 * 6);
    writeFileSync(files.path, bytes);
    const found = await checkStore(files.path);
    expect(found.filter(({ kind }) => kind === 'damaged-file').length).toBeGreaterThan(0);
    expect(found.some(({ severity }) => severity === 'error')).toBe(true);
  });

  it('reads one that is in use, and knows what its user does about it', async () => {
    await using files = tempStore();
    const open = inStep().events;
    await files.store.append([entry(open), entry(open, b)]);
    await files.store.release([b]);
    expect(await said(files.path)).toEqual([
      expect.stringMatching(/^note held a: Session `a` is held by process \d+ on /),
      'note open-turn b: Turn 1 was cut off; it is closed when the session is resumed.',
    ]);
    await files.store.append([{ id: a, epoch: FIRST_EPOCH, events: [] }]);
  });

  it('counts the messages that wait, without those of a seed', async () => {
    await using files = tempStore();
    const session = aSession();
    const put = (start: number, removedCount: number, count: number): unknown =>
      session.append('agent/inbox/spliced', {
        target: 'next-turn',
        start,
        removedCount,
        inserted: Array.from({ length: count }, () => userMessage('wait')),
      });
    put(0, 0, 2);
    put(0, 1, 1);
    put(2, 0, 1);
    await files.store.append([entry(session.events), entry(session.events, b, { seedLength: 3 })]);
    await files.store.release([a, b]);
    const waits = (await said(files.path)).filter((text) => text.includes('waiting'));
    expect(waits).toEqual(['note waiting-messages a: 3 messages wait to be read.']);
  });

  it('reads the format of an earlier version, and leaves it as it is', async () => {
    await using files = tempStore();
    const path = join(files.folder, 'old.db');
    copyOldFile(path);
    const before = readFileSync(path);
    const found = await checkStore(path);
    expect(found[0]).toMatchObject({ severity: 'note', kind: 'old-format' });
    expect(found.filter(({ severity }) => severity === 'error')).toEqual([]);
    expect(readFileSync(path)).toEqual(before);
  });

  it.each([
    [
      "parent = 'c'",
      "Its row says that its parent is `c`, and its header `a`: it is missing from its parent's listing.",
    ],
    [
      'parent = NULL',
      "Its row says that its parent is none, and its header `a`: it is missing from its parent's listing.",
    ],
    [
      "origin = 'subagent'",
      'Its row and its header differ in how it was made: listings show it otherwise than it is.',
    ],
    [
      'seed_length = 7',
      'Its row and its header differ in how it inherited 0 events: listings show it otherwise than it is.',
    ],
  ])('finds a row with %s, which an export and an import make right', async (sql, text) => {
    await using files = await closedFile();
    damage(files.path, `UPDATE session SET ${sql} WHERE id = 'b'`);
    expect(await said(files.path)).toEqual([`error wrong-place b: ${text}`]);
    const store = files.open();
    const options = { clock: new ManualClock(), logger: silentLogger };
    const sessions = new Sessions({ store, ...options });
    const lines: string[] = [];
    for await (const line of sessions.exportLines({ below: b })) lines.push(line);
    await sessions.remove(b);
    await sessions.importLines(lines);
    await sessions.close();
    expect(await said(files.path)).toEqual([]);
  });

  it('goes on from the beginning when somebody opens the file meanwhile', async () => {
    await using files = await closedFile();
    const checked = said(files.path);
    const store = openSqliteStore({ path: files.path });
    await store.append([entry(inStep().events, SessionId('c'))]);
    expect(await checked).toEqual([expect.stringMatching(/^note held c/)]);
    await store.close();
  });

  it('goes on from the beginning when somebody changed the file meanwhile, and has left', async () => {
    await using files = await closedFile();
    const checked = said(files.path);
    damage(files.path, "UPDATE checkpoint SET body = '{'");
    expect(await checked).toEqual([expect.stringMatching(/^note unreadable-checkpoint a/)]);
  });

  it('reads what a crash left of a file without making one beside it', async () => {
    await using files = await closedFile();
    const folder = join(files.folder, 'left');
    mkdirSync(folder);
    const copy = join(folder, 'copy.db');
    const store = openSqliteStore({ path: files.path });
    await store.append([entry(inStep().events, SessionId('c'))]);
    copyFileSync(files.path, copy);
    copyFileSync(`${files.path}-wal`, `${copy}-wal`);
    const own = join(files.folder, 'temporary');
    mkdirSync(own);
    vi.stubEnv('TMPDIR', own);
    const bytes = readFileSync(`${copy}-wal`);
    // What was written last is read, too.
    expect(await said(copy)).toEqual([expect.stringMatching(/^note held c/)]);
    expect(readdirSync(folder).toSorted()).toEqual(['copy.db', 'copy.db-wal']);
    expect(readFileSync(`${copy}-wal`)).toEqual(bytes);
    expect(readdirSync(own)).toEqual([]);
    vi.unstubAllEnvs();
    await store.close();
  });

  it('reads what it can where it cannot make a file beside it, and says so', async () => {
    await using files = await closedFile();
    const copy = join(files.folder, 'copy.db');
    const store = openSqliteStore({ path: files.path });
    await store.append([entry(inStep().events, SessionId('c'))]);
    copyFileSync(files.path, copy);
    copyFileSync(`${files.path}-wal`, `${copy}-wal`);
    await store.close();
    // In the place of the file that SQLite would make.
    symlinkSync(join(files.folder, 'none', 'shm'), `${copy}-shm`);
    expect(await said(copy)).toEqual([
      `warning unread-part: What was written last is in ${copy}-wal, and cannot be read where nothing can be written.`,
    ]);
    await using young = tempStore();
    await young.store.append([entry(inStep().events)]);
    copyFileSync(young.path, copy);
    copyFileSync(`${young.path}-wal`, `${copy}-wal`);
    expect(await codeOf(checkStore(copy))).toBe('STORE_READ_ONLY');
  });

  it('is refused for what is no store', async () => {
    await using files = await closedFile();
    const path = (name: string): string => join(files.folder, name);
    writeFileSync(path('empty'), '');
    writeFileSync(path('text'), 'no database, '.repeat(100));
    damage(path('other'), 'CREATE TABLE t (x)');
    copyFileSync(files.path, path('newer'));
    damage(path('newer'), 'PRAGMA user_version = 99');
    symlinkSync(path('none'), path('to-nothing'));
    symlinkSync(path('circle'), path('circle'));
    const names = ['none', 'empty', 'text', 'other', 'newer', '.', 'to-nothing', 'circle', '\0'];
    const codes = names.map((name) => codeOf(checkStore(path(name))));
    expect(await Promise.all(codes)).toEqual([
      'STORE_IO',
      'STORE_FORMAT_UNSUPPORTED',
      'STORE_CORRUPT',
      'STORE_FORMAT_UNSUPPORTED',
      'STORE_FORMAT_UNSUPPORTED',
      'STORE_IO',
      'STORE_IO',
      'STORE_IO',
      'STORE_IO',
    ]);
    await expect(checkStore(path('none'))).rejects.toThrow(/the file does not exist\.$/);
    for (const wrong of [{}, ':memory:', '']) {
      await expect(checkStore(wrong as never)).rejects.toThrow(ArgumentError);
    }
    await expect(checkStore(files.path, {} as never)).rejects.toThrow(ArgumentError);
  });

  it('ends with the reason of its signal', async () => {
    await using files = await closedFile();
    const reason = new Error('Enough.');
    await expect(checkStore(files.path, AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});

describe('a check of any store', () => {
  it('finds what its methods tell', async () => {
    const store = new MemoryStore();
    const events = inStep().events;
    await store.append([
      entry(events),
      entry(events.slice(0, 1), b, { parentSession: SessionId('c') }),
    ]);
    expect(await said(store)).toEqual([
      'note open-turn a: Turn 1 was cut off; it is closed when the session is resumed.',
      'note parent-missing b: Its parent `c` is not in the store.',
      'note open-turn b: Turn 1 was cut off; it is closed when the session is resumed.',
    ]);
  });

  it('finds sessions that cannot be read, and goes on', async () => {
    await using files = tempStore();
    await files.store.append([
      entry(turns(1)),
      entry(turns(1), b),
      entry(inStep().events, SessionId('c')),
    ]);
    damage(files.path, "UPDATE session SET header = x'7b' WHERE id = 'a'");
    damage(files.path, 'DELETE FROM event WHERE seq = 3 AND session = 2');
    expect(await said(files.store)).toEqual([
      expect.stringMatching(/^error unreadable-header a/),
      expect.stringMatching(
        /^error unreadable-event b: Event 0 cannot be read: Event 3 of session/,
      ),
      expect.stringMatching(/^note open-turn c/),
    ]);
  });
});
