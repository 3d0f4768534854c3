/**
 * What floods cost main: for each kind of flood, from 1 and from 32 children in real threads, how
 * late main's loop is and by how much the process grows, beside children that go on working.
 * `npm run flow`; `KINDS=acks,stdout` or `CHILDREN=1,8` for some; `SECONDS_EACH=3`.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';

const { createHarness } = await import('../dist/src/index.js');
const { scriptedModel } = await import('../dist/src/testing.js');

const TARGET = { p99: 20, max: 250, mib: 64 };
const ALL =
  'nothing|acks|calls|large calls|garbage|objects|events beyond credit|own port|own port, large|stdout|small events|large events|long texts';
const kinds = (process.env.KINDS ?? ALL).split('|');
const counts = (process.env.CHILDREN ?? '1,32').split(',').map(Number);
const SECONDS = Number(process.env.SECONDS_EACH ?? 3);
const WORKING = 2;
const MIB = 1024 * 1024;
const fixture = (name) => new URL(`../test/threads/fixtures/${name}`, import.meta.url);
const cell = () => new Int32Array(new SharedArrayBuffer(4));
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

async function measure(kind, children) {
  const [there, go, sent] = [cell(), cell(), cell()];
  process.env.FLOOD = kind;
  let isOver = false;
  let steps = 0;
  const working = scriptedModel(async () => {
    steps++;
    await delay(5);
    return isOver ? 'done' : { toolCalls: [{ name: 'echo', arguments: { text: 'x' } }] };
  });
  const cells = { there: there.buffer, go: go.buffer, sent: sent.buffer };
  // Printing is cut in the thread, by what the product's own entry sets up there.
  const isPrinting = kind === 'stdout';
  const flooding = isPrinting
    ? { module: fixture('printing-model.mjs'), options: cells }
    : { module: fixture('model.mjs') };
  const harness = await createHarness({
    logger: quiet,
    models: { working, flooding },
    defaultModel: { provider: 'working', model: 'test' },
    tools: [{ module: fixture('tools.mjs'), options: cells }],
    workers: {
      warm: 0,
      env: ['FLOOD'],
      ...(isPrinting ? {} : { entry: fixture('flood-entry.mjs') }),
    },
    limits: { memoryMb: 'unlimited', stopGraceMs: 500, interruptGraceMs: 500 },
  });
  const { agent: parent } = await harness.agents.createHost();
  const start = (provider) =>
    harness.subagents.start('spawn', {
      parent,
      prompt: [{ type: 'text', text: 'Work.' }],
      signal: new AbortController().signal,
      agentOptions: { provider, model: 'test' },
    });
  const workers = await Promise.all(Array.from({ length: WORKING }, () => start('working')));
  const flooders = await Promise.all(Array.from({ length: children }, () => start('flooding')));
  while (there[0] < children) await delay(5);
  await delay(200);
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  const stepsBefore = steps;
  let most = before;
  const watch = monitorEventLoopDelay({ resolution: 1 });
  let last = performance.now();
  let latest = 0;
  let beats = 0;
  const beat = setInterval(() => {
    const now = performance.now();
    latest = Math.max(latest, now - last - 2);
    last = now;
    if (beats++ % 25 === 0) most = Math.max(most, process.memoryUsage.rss());
  }, 2);
  watch.enable();
  Atomics.store(go, 0, 1);
  Atomics.notify(go, 0);
  const ends = {};
  const settled = flooders.map(async (run) => {
    const { stopReason, diagnostic } = await run.result;
    const code = /^([A-Z_]+)/.exec(diagnostic ?? '')?.[1] ?? stopReason;
    ends[code] = (ends[code] ?? 0) + 1;
  });
  await Promise.race([Promise.all(settled), delay(SECONDS * 1_000)]);
  await delay(300);
  watch.disable();
  clearInterval(beat);
  isOver = true;
  const row = {
    flood: kind,
    children,
    'p99 ms': +(watch.percentile(99) / 1e6).toFixed(1),
    'max ms': +Math.max(latest, watch.max / 1e6).toFixed(0),
    '+MiB': +((most - before) / MIB).toFixed(0),
    posts: sent[0],
    'steps beside': steps - stepsBefore,
    ended: Object.entries(ends)
      .map(([code, count]) => `${count} ${code}`)
      .join(', '),
  };
  const disposed = performance.now();
  await harness.dispose();
  row['dispose ms'] = Math.round(performance.now() - disposed);
  await Promise.all([...settled, ...workers.map((run) => run.result)]);
  const misses = [
    row['p99 ms'] > TARGET.p99 && 'p99',
    row['max ms'] > TARGET.max && 'max',
    row['+MiB'] > TARGET.mib && 'memory',
  ].filter(Boolean);
  return { ...row, misses: misses.join() };
}

const rows = [];
for (const kind of kinds) {
  for (const children of counts) {
    const row = await measure(kind, children);
    rows.push(row);
    console.log(JSON.stringify(row));
  }
}
console.table(rows);
process.exit(0);
