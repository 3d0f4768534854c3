/**
 * What a listing of ten thousand children costs the main thread, and how late its loop is
 * meanwhile: in one level and in a chain, again and again in one process; and the first one of a
 * new process, with checkpoints and without.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { DatabaseSync } from '@photostructure/sqlite';
import { SessionId as sessionId } from '../protocol/ids.ts';
import type { SessionEvent } from '../protocol/session-events.ts';
import type { Harness } from '../src/index.ts';
import { createHarness } from '../src/index.ts';
import { Sql } from '../src/session/sql.ts';
import { openSqliteStore } from '../src/session/sqlite-store.ts';
import { rounds } from './support.ts';
import type { Row } from './support.ts';

const CHILDREN = 10_000;
const WARMUP = 3;
const ROOT = sessionId('root');
const ONCE = fileURLToPath(new URL('./fixtures/list-once.js', import.meta.url));

/** All in ms. */
interface Cost {
  readonly wall: number;
  /** Of the main thread alone, where the system tells; otherwise of the process. */
  readonly cpu: number;
  readonly lateP99: number;
  readonly lateMost: number;
}

const UNITS: readonly (readonly [unit: string, of: keyof Cost])[] = [
  ['ms', 'wall'],
  ['ms of CPU, main thread', 'cpu'],
  ['ms late, p99', 'lateP99'],
  ['ms late, at most', 'lateMost'],
];

interface Family {
  readonly name: string;
  readonly isChain?: boolean;
  /** Events of each child; only of one is there a checkpoint. */
  readonly events: number;
  readonly isFresh: boolean;
}

const FAMILIES: readonly Family[] = [
  { name: 'in one level, warm', events: 1, isFresh: false },
  { name: 'in a chain, warm', isChain: true, events: 1, isFresh: false },
  { name: 'in one level, a new process', events: 1, isFresh: true },
  { name: 'no checkpoints, 20 events each, a new process', events: 20, isFresh: true },
];

/** One table for each unit of each family. */
export async function listingBench(count: number): Promise<Row[][]> {
  const tables: Row[][] = [];
  for (const family of FAMILIES) {
    const times = family.events === 1 ? count : Math.max(1, Math.round(count / 7));
    tables.push(...(await benchOf(family, times)));
  }
  return tables;
}

/** The first listing of a process. */
export async function listOnce(path: string): Promise<Cost> {
  await using harness = await createHarness({ store: path, workers: { warm: 0 } });
  return await costOf(() => list(harness));
}

async function benchOf(family: Family, count: number): Promise<Row[][]> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-listing-'));
  try {
    const path = join(folder, 'children.db');
    await makeChildren(path, family);
    await using harness = await createHarness({ store: path, workers: { warm: 0 } });
    const database = new DatabaseSync(path, { readOnly: true });
    const sql = new Sql(database);
    const query = async (): Promise<void> =>
      void sql.run('SELECT give(id, created_at, header) FROM session WHERE parent IS NOT NULL');
    const costs = {
      query: () => costOf(query),
      list: () => (family.isFresh ? costInNewProcess(path) : costOf(() => list(harness))),
    };
    try {
      for (let turn = 0; turn < WARMUP && !family.isFresh; turn++) await list(harness);
      return await tablesOf(`listing of ${CHILDREN} children, ${family.name}`, count, costs);
    } finally {
      database.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Measured once; each unit is one reading of what was measured. */
async function tablesOf(
  name: string,
  count: number,
  costs: { readonly query: () => Promise<Cost>; readonly list: () => Promise<Cost> },
): Promise<Row[][]> {
  const measured: Cost[] = [];
  const tables: Row[][] = [];
  for (const [unit, of] of UNITS) {
    const isFirst = measured.length === 0;
    const replayed = [...measured];
    const contender = (title: string, cost: () => Promise<Cost>) => ({
      name: title,
      async measure(): Promise<number> {
        const next = isFirst ? await cost() : (replayed.shift() as Cost);
        if (isFirst) measured.push(next);
        return next[of];
      },
    });
    const contenders = [
      contender('one query for their headers', costs.query),
      contender('`listDescendants`', costs.list),
    ];
    tables.push(await rounds({ name, unit, rounds: count, warmup: 0, contenders }));
  }
  return tables;
}

async function list({ subagents }: Harness): Promise<void> {
  const rows = await subagents.listDescendants(ROOT);
  if (rows.length !== CHILDREN) throw new Error(`It lists ${rows.length} children.`);
}

async function costInNewProcess(path: string): Promise<Cost> {
  const { stdout } = await promisify(execFile)(process.execPath, [ONCE, path]);
  return JSON.parse(stdout) as Cost;
}

async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  // What is held from the first step on is seen at the next.
  await new Promise((resume) => setTimeout(resume, 2));
  delay.reset();
  const [cpu, start] = [mainCpu(), performance.now()];
  await work();
  const [wall, spent] = [performance.now() - start, mainCpu() - cpu];
  await new Promise((resume) => setTimeout(resume, 2));
  delay.disable();
  return {
    wall,
    cpu: spent,
    lateP99: delay.percentile(99) / 1e6,
    lateMost: delay.max / 1e6,
  };
}

function mainCpu(): number {
  try {
    // Linux numbers the first thread as the process.
    const stat = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8');
    return Number(stat.split(' ')[0]) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e3;
  }
}

async function makeChildren(path: string, { isChain = false, events }: Family): Promise<void> {
  const store = openSqliteStore({ path, durability: 'process' });
  const header = { version: 0, id: ROOT, createdAt: 1_700_000_000_000 } as const;
  await store.append([{ id: ROOT, epoch: 1, header, events: [] }]);
  const ids = Array.from({ length: CHILDREN }, (_, index) =>
    sessionId(`0193c0de-0000-7000-8000-${String(index).padStart(12, '0')}`),
  );
  const val = { mode: 'continuable', label: 'bench', seq: 0 };
  const checkpoint = { seq: 0, rows: { subagent: { ver: 2, val } } };
  for (let from = 0; from < CHILDREN; from += 500) {
    const batch = ids.slice(from, from + 500).map((id, index) => {
      const parentSession = (isChain ? ids[from + index - 1] : undefined) ?? ROOT;
      const own = { ...header, id, parentSession, origin: 'subagent', delegationDepth: 1 } as const;
      const log = Array.from({ length: events }, (__, seq) => descriptor(seq));
      const kept = events === 1 ? { checkpoint } : {};
      return { id, epoch: 1, header: own, events: log, ...kept };
    });
    await store.append(batch);
  }
  await store.close();
}

const descriptor = (seq: number): SessionEvent => ({
  type: 'subagent/descriptor',
  seq,
  time: 1,
  data: {
    version: 1,
    mode: 'continuable',
    provider: 'spawn',
    label: 'bench',
    persona: `You are number ${seq}. ${'x'.repeat(300)}`,
  },
});
