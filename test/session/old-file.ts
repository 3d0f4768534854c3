import { copyFileSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { SessionId } from '../../protocol/ids.ts';
import type { StoredSession } from '../../src/session/store.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));

const old = JSON.parse(readFileSync(fixture('version-1.json'), 'utf8')) as {
  readonly names: Readonly<Record<OldName, SessionId>>;
  readonly sessions: readonly StoredSession[];
};
type OldName = 'root' | 'child' | 'fork' | 'orphan' | 'odd' | 'held' | 'open';

/** What `version-1.db` holds, in the order of its listing. */
export const oldSessions = old.sessions;

/**
 * Its sessions by what they are there for: `root` with two children, `child` with the child
 * `open`, whose turn was cut off, and `fork`; `orphan` without its parent; `odd` with text that
 * is no Unicode and a second epoch. `child`, `open` and `held` are held by a process that is gone.
 */
export const oldIds = old.names;

/** When the leases in it were taken. */
export const OLD_NOW = 1_700_000_000_000;

/** A copy of the file that version 1 wrote: see `fixtures/make-version-1.mjs`. */
export function copyOldFile(path: string): void {
  copyFileSync(fixture('version-1.db'), path);
}
