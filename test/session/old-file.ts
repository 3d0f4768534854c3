import { copyFileSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { StoredSession } from '../../src/session/store.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));

/** What `version-1.db` holds, in the order of its listing. */
export const oldSessions = JSON.parse(
  readFileSync(fixture('version-1.json'), 'utf8'),
) as readonly StoredSession[];

/** When the lease of its session `held` was taken. */
export const OLD_NOW = 1_700_000_000_000;

/** A copy of the file that version 1 wrote: see `fixtures/make-version-1.mjs`. */
export function copyOldFile(path: string): void {
  copyFileSync(fixture('version-1.db'), path);
}
