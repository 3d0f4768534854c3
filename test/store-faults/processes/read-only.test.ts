/** Files and folders that this user may not write, as a user who is not `root` meets them. */
import { chmodSync, chownSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openSqliteStore } from '../../../src/session/sqlite-store.ts';
import { copyOldFile, oldSessions } from '../../session/old-file.ts';
import { tempStore } from '../../support/temp-store.ts';
import { storeProcess } from './child.ts';

/** Nobody: `root` is refused nothing. */
const uid = process.getuid?.() === 0 ? 65_534 : undefined;

it.each([
  ['a file', 0o400, 0o700],
  ['a folder', 0o600, 0o500],
  ['both', 0o400, 0o500],
])('%s that may not be written: the store is refused, and what is there left as it is', async (_, file, folder) => {
  await using t = tempStore();
  await t.store.close();
  const path = join(t.folder, 'old.db');
  copyOldFile(path);
  const before = readFileSync(path);
  if (uid !== undefined) for (const one of [path, t.folder]) chownSync(one, uid, uid);
  chmodSync(path, file);
  chmodSync(t.folder, folder);
  {
    await using one = await storeProcess(path, {}, uid === undefined ? {} : { uid });
    expect(await one.reply('open')).toMatchObject({ error: { name: 'StoreError', code: 'STORE_READ_ONLY' } });
  }
  chmodSync(t.folder, 0o700);
  chmodSync(path, 0o600);
  expect(readFileSync(path).equals(before)).toBe(true);
  await using store = openSqliteStore({ path });
  expect(await store.list()).toHaveLength(oldSessions.length);
}); // prettier-ignore
