/** A check beside those who use the file: what it reads, and what it leaves. */
import { copyFileSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { checkStore } from '../../src/session/doctor.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { tempStore } from '../support/temp-store.ts';
import type { TempStore } from '../support/temp-store.ts';
import { appendTurn, aSession, header, inStep } from './log-parts.ts';
import { a } from './watched-store.ts';

const b = SessionId('b');
const c = SessionId('c');

function oneTurn(): readonly SessionEvent[] {
  const session = aSession();
  appendTurn(session, 'said');
  return session.events;
}

const entry = (events: readonly SessionEvent[], id = a) => ({
  id,
  epoch: FIRST_EPOCH,
  header: header(id),
  events,
});

const said = async (path: string): Promise<readonly string[]> =>
  (await checkStore(path)).map(
    ({ severity, kind, session, text }) => `${severity} ${kind} ${session ?? '-'}: ${text}`,
  );

/** A file with `a`; nobody has it open. */
async function closedFile(): Promise<TempStore> {
  const files = tempStore();
  await files.store.append([entry(oneTurn())]);
  await files.store.close();
  return files;
}

describe('a check of a file that is used', () => {
  it('is one reading of a file that is written meanwhile', async () => {
    await using files = tempStore();
    const [event] = oneTurn() as [SessionEvent];
    await files.store.append([entry(oneTurn()), entry([event], b)]);
    const checked = said(files.path);
    // What is said of `b` was read by now, and its events were not.
    const next = oneTurn()[1] as SessionEvent;
    await files.store.append([{ id: b, epoch: FIRST_EPOCH, events: [next] }]);
    expect((await checked).filter((text) => !text.startsWith('note'))).toEqual([]);
  });

  it('reads what is beside the file, and not beside a link to it', async () => {
    await using files = tempStore();
    await files.store.append([entry(oneTurn())]);
    const link = join(files.folder, 'link.db');
    symlinkSync(files.path, link);
    expect(await said(link)).toEqual([expect.stringMatching(/^note held a/)]);
    await files.store.close();
    expect(await said(link)).toEqual([]);
  });

  it.each(['holds a session', 'holds nothing'])(
    'leaves no file when a user who %s leaves meanwhile',
    async (what) => {
      await using files = tempStore();
      await files.store.append([entry(oneTurn()), entry(oneTurn(), b)]);
      if (what === 'holds nothing') await files.store.release([a, b]);
      const checked = said(files.path);
      await files.store.close();
      expect(readdirSync(files.folder)).toContain('sessions.db-wal');
      await checked;
      expect(readdirSync(files.folder)).toEqual(['sessions.db']);
      expect(await said(files.path)).toEqual([]);
    },
  );

  it('leaves no file when it is ended by its signal after a user has left', async () => {
    await using files = tempStore();
    await files.store.append([entry(oneTurn()), entry(oneTurn(), b)]);
    const stop = new AbortController();
    const checked = checkStore(files.path, stop.signal);
    await files.store.close();
    stop.abort('enough');
    await expect(checked).rejects.toBe('enough');
    expect(readdirSync(files.folder)).toEqual(['sessions.db']);
  });

  it('leaves what the end of a process left', async () => {
    await using files = await closedFile();
    const copy = join(files.folder, 'copy.db');
    const store = openSqliteStore({ path: files.path });
    await store.append([entry(inStep().events, c)]);
    for (const end of ['', '-wal', '-shm']) copyFileSync(files.path + end, copy + end);
    await store.close();
    const before = ['', '-wal'].map((end) => readFileSync(copy + end));
    expect(await said(copy)).toEqual([expect.stringMatching(/^note held c|note open-turn c/)]);
    expect(['', '-wal'].map((end) => readFileSync(copy + end))).toEqual(before);
    expect(readdirSync(files.folder)).toContain('copy.db-shm');
  });

  it('reads what it can where no copy can be made, and says so', async () => {
    await using files = await closedFile();
    const copy = join(files.folder, 'copy.db');
    const store = openSqliteStore({ path: files.path });
    await store.append([entry(inStep().events, c)]);
    copyFileSync(files.path, copy);
    copyFileSync(`${files.path}-wal`, `${copy}-wal`);
    await store.close();
    vi.stubEnv('TMPDIR', join(files.folder, 'none'));
    try {
      expect(await said(copy)).toEqual([
        `warning unread-part -: What was written last is in ${copy}-wal, and cannot be read as no copy of both can be made in the folder for temporary files.`,
      ]);
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
