import { expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { systemClock } from '../../src/base/clock.ts';
import { SqliteFile } from '../../src/session/sqlite-file.ts';
import { PAGE, pagesOf, seek } from '../../src/session/sqlite-log.ts';
import { firstEpoch } from '../../src/session/store.ts';
import { tempStore } from '../support/temp-store.ts';
import { damage } from './damage.ts';
import { aSession, header, userMessage } from './log-parts.ts';
import { a, codeOf } from './watched-store.ts';

/** More than one page. */
function log(): readonly SessionEvent[] {
  const session = aSession();
  for (let count = 0; count < PAGE + 1; count++) session.append('user/message', userMessage('a'));
  return session.events;
}

it.each([
  ['is not there when it was removed meanwhile', 'removed', 'SESSION_NOT_FOUND'],
  ['is not damaged when it was removed and made again meanwhile', 'again', 'SESSION_NOT_FOUND'],
  ['is damaged when the rest of it is missing', 'cut', 'STORE_CORRUPT'],
])('a log that is read page by page %s', async (_, what, code) => {
  await using files = tempStore();
  const events = log();
  const entry = { id: a, header: header('a'), events };
  await files.store.append([{ ...entry, epoch: firstEpoch() }]);
  const file = new SqliteFile(files.path, 'full', systemClock);
  try {
    const range = { from: 0, end: events.length, signal: undefined };
    const pages = pagesOf(file, a, await seek(file, a), range);
    expect((await pages.next()).value).toHaveLength(PAGE);
    if (what === 'cut') damage(files.path, `DELETE FROM event WHERE seq = ${PAGE}`);
    else await files.store.delete([a]);
    if (what === 'again') await files.store.append([{ ...entry, epoch: firstEpoch() }]);
    expect(await codeOf(pages.next())).toBe(code);
  } finally {
    await file.close(() => false);
  }
});
