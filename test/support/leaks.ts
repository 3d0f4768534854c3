/**
 * After every test: nothing that the test opened is still open. Looks at the whole process, not
 * only at what keeps main's loop alive: threads, descriptors and child processes as the kernel
 * counts them, timers and ports whether or not they are unref'd, and the library's own census.
 *
 * Loaded by vitest before each test file; tests import only `trackLeak`.
 */
import { createHook } from 'node:async_hooks';
import { readFileSync, readdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeEach } from 'vitest';
import { census } from '../../src/base/census.ts';

/** One reading of the process. */
export interface Snapshot {
  /** Threads, descriptors, child processes, what main's loop waits for, the census. */
  readonly counts: ReadonlyMap<string, number>;
  /** Everything made up to here is numbered below this. */
  readonly mark: number;
}

interface Made {
  readonly number: number;
  readonly type: string;
  readonly at: string;
  readonly resource: WeakRef<object>;
}

/** Turns of the event loop that closing things get to finish. No time is waited for. */
const TURNS = 1_000;
const WATCHED: ReadonlySet<string> = new Set(['Timeout', 'MESSAGEPORT', 'WORKER']);
/** Timers of Node's own that one process has once, for as long as it lives: no test's leak. */
const ONCE_PER_PROCESS =
  /\brefreshTimeout \(node:internal\/deps\/undici|\bcache \(node:internal\/http:/;
const RUNNER = /[\\/]node_modules[\\/](?:vitest|@vitest|vite|tinypool|birpc)[\\/]/;

let made: Made[] = [];
let madeSoFar = 0;
const checks = new Set<() => string | undefined>();

/**
 * Ask `check` after every test from now on whether something of its own is still open; it
 * answers with words for it. Returns the function that stops asking.
 */
export function trackLeak(check: () => string | undefined): () => void {
  checks.add(check);
  return () => void checks.delete(check);
}

// Handles that are unref'd are in no list of Node's; the hook sees them being made.
createHook({
  init(_id, type, _trigger, resource) {
    if (!WATCHED.has(type)) return;
    const at = makerOf();
    if (at === undefined || RUNNER.test(at)) return;
    made.push({ number: madeSoFar++, type, at, resource: new WeakRef(resource) });
  },
}).enable();

// The pool of libuv starts all its threads with its first request.
await stat('/');

/** The first line of the stack that is neither Node's nor ours; none: Node made it for itself. */
function makerOf(): string | undefined {
  const holder: { stack?: string } = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 24;
  Error.captureStackTrace(holder, makerOf);
  Error.stackTraceLimit = limit;
  const frames = String(holder.stack).split('\n').slice(2);
  if (frames.some((line) => ONCE_PER_PROCESS.test(line))) return undefined;
  const frame = frames.find((line) => !/\bnode:|AsyncHook|support[\\/]leaks\.ts/.test(line));
  return frame?.trim() ?? 'an unknown place';
}

/** A timer that will still fire, or a port that is not closed; unref'd ones too. */
function isAlive({ type, resource }: Made): boolean {
  const value = resource.deref();
  if (value === undefined) return false;
  if (type === 'Timeout') return (value as { _destroyed?: boolean })._destroyed === false;
  if (type !== 'MESSAGEPORT') return false;
  const shown = (value as Record<symbol, unknown>)[inspect.custom];
  if (typeof shown !== 'function') return false;
  return (shown.call(value) as { active?: boolean }).active === true;
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    // No /proc on this system: the other sources have to do.
    return [];
  }
}

function childProcesses(): number {
  let count = 0;
  for (const thread of entriesOf('/proc/self/task')) {
    try {
      const pids = readFileSync(`/proc/self/task/${thread}/children`, 'utf8').trim();
      if (pids !== '') count += pids.split(' ').length;
    } catch {
      // The thread ended in between, or this kernel does not tell.
    }
  }
  return count;
}

export function takeSnapshot(): Snapshot {
  const counts = new Map<string, number>([
    ['threads', entriesOf('/proc/self/task').length],
    ['descriptors', entriesOf('/proc/self/fd').length],
    ['child processes', childProcesses()],
  ]);
  for (const kind of process.getActiveResourcesInfo()) {
    // Timers are told apart by who made them, below; immediates are this check's own.
    if (kind === 'Timeout' || kind === 'Immediate') continue;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  for (const [kind, open] of Object.entries(census.open())) counts.set(`open ${kind}`, open);
  return { counts, mark: madeSoFar };
}

/** What is open now and was not at `before`. */
function leaksNow(before: Snapshot): string[] {
  const leaks: string[] = [];
  for (const [kind, count] of takeSnapshot().counts) {
    const beyond = count - (before.counts.get(kind) ?? 0);
    if (beyond > 0) leaks.push(`${beyond} × ${kind}`);
  }
  for (const item of made) {
    if (item.number < before.mark || !isAlive(item)) continue;
    leaks.push(`${item.type === 'Timeout' ? 'timer' : 'port'} made ${item.at}`);
  }
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
    const workers = made.filter(({ number, type }) => type === 'WORKER' && number >= before.mark);
    leaks.push(...workers.map(({ at }) => `(a thread was made ${at})`));
  }
  return leaks;
}

async function assertNothingSince(before: Snapshot, what: string): Promise<void> {
  const leaks = await leaksSince(before);
  made = made.filter((item) => item.type !== 'WORKER' && isAlive(item));
  if (leaks.length > 0) throw new Error(`${what} left open: ${leaks.join('; ')}.`);
}

const beforeFile = takeSnapshot();
let beforeTest = beforeFile;
beforeEach(() => {
  beforeTest = takeSnapshot();
});
afterEach(() => assertNothingSince(beforeTest, 'The test'));
afterAll(() => assertNothingSince(beforeFile, 'The file'));
