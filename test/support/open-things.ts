/**
 * What is open in this process, read from the whole of it and not only from what keeps main's loop
 * alive: threads, descriptors and child processes as the kernel counts them, timers and ports
 * whether or not they are unref'd, and the library's own census. It watches from its import on.
 */
import { createHook } from 'node:async_hooks';
import { readFileSync, readdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { inspect } from 'node:util';
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

const WATCHED: ReadonlySet<string> = new Set(['Timeout', 'MESSAGEPORT', 'WORKER']);
/** Timers of Node's own that one process has once, for as long as it lives: no test's leak. */
const ONCE_PER_PROCESS =
  /\brefreshTimeout \(node:internal\/deps\/undici|\bcache \(node:internal\/http:/;
/** Whoever asked these is the one who made it. */
const PASSED_ON = /\bnode:|AsyncHook|support[\\/]open-things\.[jt]s|base[\\/]clock\.[jt]s/;
const RUNNER = /[\\/]node_modules[\\/](?:vitest|@vitest|vite|tinypool|birpc)[\\/]/;

let made: Made[] = [];
let madeSoFar = 0;

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
  const frame = frames.find((line) => !PASSED_ON.test(line));
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

/** Timers and ports that are open now, counted by the line that made them. */
export function openItems(): ReadonlyMap<string, number> {
  const items = new Map<string, number>();
  for (const item of made.filter(isAlive)) {
    const what = `${item.type === 'Timeout' ? 'timer' : 'port'} made ${item.at}`;
    items.set(what, (items.get(what) ?? 0) + 1);
  }
  return items;
}

/** What is open now and was not at `before`. */
export function openSince(before: Snapshot): readonly string[] {
  const leaks: string[] = [];
  for (const [kind, count] of takeSnapshot().counts) {
    const beyond = count - (before.counts.get(kind) ?? 0);
    if (beyond > 0) leaks.push(`${beyond} × ${kind}`);
  }
  for (const item of made) {
    if (item.number < before.mark || !isAlive(item)) continue;
    leaks.push(`${item.type === 'Timeout' ? 'timer' : 'port'} made ${item.at}`);
  }
  return leaks;
}

/** Where the threads were made that were made since. */
export function threadsMadeSince(before: Snapshot): readonly string[] {
  return made
    .filter(({ number, type }) => type === 'WORKER' && number >= before.mark)
    .map(({ at }) => at);
}

/** Nothing of what is closed by now, and no thread, is looked at again. */
export function forgetClosed(): void {
  made = made.filter((item) => item.type !== 'WORKER' && isAlive(item));
}
