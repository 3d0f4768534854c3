/**
 * After every test: nothing that the test opened is still open. Looks at the whole process; how,
 * is in `open-things.ts`.
 *
 * Loaded by vitest before each test file; tests import only `trackLeak`.
 */
import { afterAll, afterEach, beforeEach } from 'vitest';
import { forgetClosed, openSince, takeSnapshot, threadsMadeSince } from './open-things.ts';
import type { Snapshot } from './open-things.ts';

/** Turns of the event loop that closing things get to finish. No time is waited for. */
const TURNS = 1_000;
const checks = new Set<() => string | undefined>();

/**
 * Ask `check` after every test from now on whether something of its own is still open; it
 * answers with words for it. Returns the function that stops asking.
 */
export function trackLeak(check: () => string | undefined): () => void {
  checks.add(check);
  return () => void checks.delete(check);
}

function leaksNow(before: Snapshot): string[] {
  const leaks = [...openSince(before)];
  for (const check of checks) {
    const found = check();
    if (found !== undefined) leaks.push(found);
  }
  return leaks;
}

/** What is still open since `before`, after everything that is closing had its turns to close. */
export async function leaksSince(before: Snapshot): Promise<readonly string[]> {
  let leaks = leaksNow(before);
  for (let turn = 0; leaks.length > 0 && turn < TURNS; turn++) {
    await new Promise((done) => setImmediate(done));
    leaks = leaksNow(before);
  }
  if (leaks.some((leak) => leak.endsWith('threads'))) {
    leaks.push(...threadsMadeSince(before).map((at) => `(a thread was made ${at})`));
  }
  return leaks;
}

async function assertNothingSince(before: Snapshot, what: string): Promise<void> {
  const leaks = await leaksSince(before);
  forgetClosed();
  if (leaks.length > 0) throw new Error(`${what} left open: ${leaks.join('; ')}.`);
}

const beforeFile = takeSnapshot();
let beforeTest = beforeFile;
beforeEach(() => {
  beforeTest = takeSnapshot();
});
afterEach(() => assertNothingSince(beforeTest, 'The test'));
afterAll(() => assertNothingSince(beforeFile, 'The file'));
