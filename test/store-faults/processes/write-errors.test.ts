/**
 * The kernel refuses what would make a file longer than a limit, in the middle of a page or at
 * its end: a real write error at every place of every file that a life of a store writes. Here a
 * sample of the limits; each n-th of them with `STORE_FAULTS=<n>`.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { openSqliteStore } from '../../../src/session/sqlite-store.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { tempStore } from '../../support/temp-store.ts';

const program = fileURLToPath(new URL('./lives.mjs', import.meta.url));
const every = Number(process.env['STORE_FAULTS'] ?? 29);

/** A little less than 512, so that it falls on every part of a page. */
const STEP = 509;
const FRAME = 4_096 + 24;
const END = 280_000;
/** Steps on the way, and the bytes around each boundary of a page in the log and in the file. */
function limits(): number[] {
  const found = new Set<number>();
  for (let at = 1; at < END; at += STEP) found.add(at);
  for (const start of [0, 32]) {
    for (let at = start; at < END; at += start === 0 ? 4_096 : FRAME) {
      for (const bytes of [at - 1, at, at + 1, at + 24]) if (bytes > 0) found.add(bytes);
    }
  }
  const all = [...found].sort((a, b) => a - b);
  return all.filter((_, index) => index % every === 0);
}

type Line = readonly [limit: number, step: number, end: string, code?: string];

/** What a process that opens the file finds. */
async function contents(path: string): Promise<unknown> {
  await using store = openSqliteStore({ path, clock: new ManualClock(0) });
  const headers = await store.list();
  const logs = await Promise.all(headers.map(({ id }) => store.inspect(id)));
  return { logs, checkpoints: await store.checkpoints(headers.map(({ id }) => id)) };
}

it('keeps what it acknowledged and nothing that it refused, wherever a write fails, and goes on', async () => {
  await using t = tempStore();
  await t.store.close();
  const asked = [0, ...limits()];
  const { stdout } = await promisify(execFile)(process.execPath, [program, t.folder, ...asked.map(String)], {
    maxBuffer: 1 << 28,
  });
  const lines = stdout.trim().split('\n').map((line) => JSON.parse(line) as Line);
  const last = Math.max(...lines.map(([, step]) => step));
  const after: unknown[] = [];
  for (let step = 0; step <= last; step++) after.push(await contents(`${t.folder}/after-${step}.db`));
  const failedAt = new Set<number>();
  for (const limit of asked) {
    const life = lines.filter(([of]) => of === limit);
    const failed = life.filter(([, , end]) => end !== 'ok');
    for (const [, step, name, code] of failed) {
      failedAt.add(step);
      expect([limit, step, name, code]).toEqual([limit, step, 'StoreError', expect.stringMatching(/^STORE_(?:IO|FULL)$/)]);
      const path = `${t.folder}/crash-${limit}.db`;
      const before = step === 0 ? after[0] : after[step - 1];
      // The file itself may not have been made when it was not even opened.
      if (step > 0 || existsSync(path)) expect({ limit, step, found: await contents(path) }).toEqual({ limit, step, found: before });
    }
    expect(failed.length, `of ${limit}`).toBeLessThanOrEqual(1);
    expect(life.filter(([, , end]) => end === 'ok').map(([, step]) => step)).toEqual([...after.keys()]);
    expect({ limit, found: await contents(`${t.folder}/${limit}.db`) }).toEqual({ limit, found: after[last] });
  }
  // Most steps met one: what writes too little to meet any comes after what writes more.
  expect(failedAt.size).toBeGreaterThan(3);
}, every < 29 ? 1_800_000 : 120_000); // prettier-ignore
