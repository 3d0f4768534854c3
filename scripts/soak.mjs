/**
 * A harness that works for a while: agents that live and stream, one that comes each second, a few
 * whose threads do what no thread should, and an HTTP server beside them that another process
 * asks all the time. Succeeds when nothing grew and nothing was late.
 *
 * `npm run soak`: `SOAK_MINUTES=20`; `SOAK_AGENTS=50`; `SOAK_RATE=1` starts in a second;
 * `SOAK_SAMPLE_MS=5000`; `SEED`; `SOAK_UNTIMED` judges nothing that takes time, for a short one. The samples and the verdict go to `.artifacts/soak.json`.
 */
import { fork } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, get, Agent as HttpAgent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const MIB = 1024 * 1024;
if (process.send !== undefined && process.argv[2] !== undefined) await observe(process.argv[2]);
else await soak();

/** Another process: 50 requests in a second, each with its own time, none waited for. */
async function observe(url) {
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 64 });
  const latencies = [];
  let failed = 0;
  const timer = setInterval(() => {
    const since = performance.now();
    const request = get(url, { agent, timeout: 10_000 }, (response) => {
      response.resume();
      response.on('end', () => void latencies.push(performance.now() - since));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => void failed++);
  }, 20);
  process.on('message', () => {
    clearInterval(timer);
    agent.destroy();
    latencies.sort((one, other) => one - other);
    const at = (part) => +(latencies[Math.floor(latencies.length * part)] ?? 0).toFixed(1);
    const answer = {
      asked: latencies.length,
      failed,
      p50: at(0.5),
      p99: at(0.99),
      max: at(1 - 1e-9),
    };
    process.send(answer, () => process.disconnect());
  });
}

async function soak() {
  const { createHarness } = await import('../dist/src/index.js');
  const { scriptedModel } = await import('../dist/src/testing.js');
  const MINUTES = Number(process.env.SOAK_MINUTES ?? 20);
  const AGENTS = Number(process.env.SOAK_AGENTS ?? 50);
  const RATE = Number(process.env.SOAK_RATE ?? 1);
  const SAMPLE_MS = Number(process.env.SOAK_SAMPLE_MS ?? 5_000);
  const FAULTS = 0.02;
  const DELTA_MS = 100;
  const tools = new URL('../test/threads/fixtures/tools.mjs', import.meta.url);
  const faults = [
    ['throw_late', {}],
    ['exit', { code: 3 }],
    ['spin', {}],
    ['exhaust_heap', {}],
    ['post_on_thread_port', {}],
    ['print', { bytes: 8 * MIB }],
    ['wait', {}],
  ];
  let seed = Number(process.env.SEED ?? 1) >>> 0;
  const random = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };

  const endings = { settled: 0, drained: 0, faults: 0, failed: 0 };
  const refusals = {};
  let deltas = 0;
  // Ten parts in a second, until it is told to end or has said enough.
  const streaming = {
    async *stream(request, { signal }) {
      const last = JSON.stringify(request.messages.at(-1));
      const fault = /fault (\d+)/.exec(last);
      if (fault !== null) {
        const [name, args] = faults[Number(fault[1])];
        const call = { index: 0, id: `c${deltas}`, name, argumentsDelta: JSON.stringify(args) };
        yield { type: 'tool-call-delta', ...call };
        return yield { type: 'finish', reason: { kind: 'tool-calls' } };
      }
      const parts = 50 + Math.floor(random() * 800);
      for (let part = 0; part < parts && !signal.aborted; part++) {
        deltas++;
        yield { type: 'text-delta', index: 0, text: `part ${part} ` };
        await delay(DELTA_MS, undefined, { signal }).catch(() => {});
      }
      yield { type: 'finish', reason: { kind: 'stop' } };
    },
  };
  const before = census();
  const folder = mkdtempSync(join(tmpdir(), 'soak-'));
  const harness = await createHarness({
    store: join(folder, 'agents.db'),
    models: { streaming, quick: scriptedModel(() => 'Noted.') },
    defaultModel: { provider: 'streaming', model: 'test' },
    tools: [{ module: tools }],
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    limits: {
      maxThreads: AGENTS + 14,
      turnMs: 120_000,
      toolMs: 3_000,
      interruptGraceMs: 500,
      stopGraceMs: 1_000,
    },
  });
  // It is a host: what it is told it has, and its log is not what grows here.
  const hosts = [];
  const newHost = async () => {
    const handle = await harness.agents.createHost({ onMessage() {} });
    hosts.push(handle);
    return handle.agent;
  };
  let host = await newHost();
  const live = new Map();
  harness.on('agent/disposed', ({ agent }) => void (live.delete(agent.id) && endings.settled++));

  const server = createServer((_, response) => response.end(JSON.stringify({ live: live.size })));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const observer = fork(fileURLToPath(import.meta.url), [
    `http://127.0.0.1:${server.address().port}/`,
  ]);
  const observed = new Promise((resolve) => observer.once('message', resolve));

  let starting = 0;
  const start = async () => {
    const isFault = random() < FAULTS;
    if (isFault) endings.faults++;
    const text = isFault ? `fault ${Math.floor(random() * faults.length)}` : 'Work.';
    starting++;
    try {
      const { childId } = await harness.subagents.startContinuable({
        provider: 'spawn',
        label: 'worker',
        signal: new AbortController().signal,
        request: { parent: host, prompt: [{ type: 'text', text }] },
      });
      live.set(childId, host);
    } catch (error) {
      endings.failed++;
      refusals[error.code] = (refusals[error.code] ?? 0) + 1;
    } finally {
      starting--;
    }
  };
  const tick = async () => {
    // Those that are done by themselves are made up for, so that there are always as many.
    const missing = AGENTS - live.size - starting;
    for (let count = 0; count < Math.max(RATE, missing); count++) {
      // As many as there should be, and one new one for an old one.
      while (live.size > 0 && live.size + starting >= AGENTS) {
        const [[id, parent]] = live;
        live.delete(id);
        endings.drained++;
        void harness.subagents.drainContinuableChildren(parent, [id]).catch(() => {});
      }
      void start();
    }
  };

  for (let count = 0; count < AGENTS; count++) await start();
  const loop = monitorEventLoopDelay({ resolution: 1 });
  loop.enable();
  const whole = monitorEventLoopDelay({ resolution: 1 });
  const samples = [];
  const began = performance.now();
  const endAt = began + MINUTES * 60_000;
  const warmUp = began + Math.min(120_000, MINUTES * 60_000 * 0.25);
  const ticking = setInterval(() => void tick(), 1_000);
  for (let next = began + SAMPLE_MS; performance.now() < endAt; next += SAMPLE_MS) {
    await delay(Math.max(0, next - performance.now()));
    if (performance.now() > warmUp) whole.enable();
    globalThis.gc?.();
    const sample = { atSec: Math.round((performance.now() - began) / 1_000), ...census() };
    sample.liveAgents = live.size + starting;
    sample.p99Ms = +(loop.percentile(99) / 1e6).toFixed(1);
    sample.maxMs = +(loop.max / 1e6).toFixed(0);
    sample.isWarm = performance.now() > warmUp;
    samples.push(sample);
    loop.reset();
    console.log(JSON.stringify(sample));
    // The log of a host holds a notice for each child: another one begins anew.
    if (samples.length % 24 === 0) {
      const [old] = hosts;
      host = await newHost();
      const leave = hosts.shift() ?? old;
      for (const [id, parent] of live) if (parent === leave.agent) live.delete(id);
      await leave.dispose();
    }
  }
  clearInterval(ticking);
  whole.disable();
  loop.disable();
  observer.send('stop');
  const http = await observed;
  const disposing = performance.now();
  await harness.dispose();
  const disposeMs = Math.round(performance.now() - disposing);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await new Promise((resolve) =>
    observer.exitCode === null ? observer.once('exit', resolve) : resolve(),
  );
  await delay(200);
  const left = census();

  const warm = samples.filter(({ isWarm }) => isWarm);
  const perHour = slope(warm.map(({ atSec, rssMiB }) => [atSec / 3_600, rssMiB]));
  // From the first quarter to the last: what comes and goes with each agent is in both.
  const quarter = Math.ceil(warm.length / 4);
  const drift = (key) => {
    const middle = (some) =>
      some.map((sample) => sample[key]).toSorted((one, other) => one - other)[some.length >> 1] ??
      0;
    return middle(warm.slice(-quarter)) - middle(warm.slice(0, quarter));
  };
  const figures = {
    minutes: MINUTES,
    rssMiBPerHour: +perHour.toFixed(1),
    rssMiB: warm.at(-1)?.rssMiB,
    p99Ms: +(whole.percentile(99) / 1e6).toFixed(1),
    maxMs: +(whole.max / 1e6).toFixed(0),
    zombies: Math.max(0, ...samples.map((sample) => sample.zombies)),
    drift: { threads: drift('threads'), fds: drift('fds'), handles: drift('handles') },
    disposeMs,
    deltas,
    http,
    endings,
    refusals,
    before,
    left,
  };
  const verdicts = [
    ['RSS grows by at most 60 MiB/h', perHour <= 60, figures.rssMiBPerHour],
    ['p99 of the loop is at most 50 ms late', figures.p99Ms <= 50, figures.p99Ms],
    ['it is never later than 500 ms', figures.maxMs <= 500, figures.maxMs],
    ['no zombie', figures.zombies === 0, figures.zombies],
    ['every request was answered', http.failed === 0, http.failed],
    ...['threads', 'fds', 'handles'].map((key) => [
      `${key} drift by at most 5`,
      Math.abs(figures.drift[key]) <= 5,
      figures.drift[key],
    ]),
    // The pool of libuv, which no one ends, is 4 of them.
    [
      '5 threads are left at most',
      left.threads - before.threads <= 5,
      left.threads - before.threads,
    ],
    ['5 descriptors are left at most', left.fds - before.fds <= 5, left.fds - before.fds],
    ['disposed within 5 s', disposeMs <= 5_000, disposeMs],
  ];
  console.table(
    verdicts.map(([what, isSo, value]) => ({ what, value, verdict: isSo ? 'pass' : 'FAIL' })),
  );
  console.log(JSON.stringify(figures, null, 2));
  mkdirSync('.artifacts', { recursive: true });
  writeFileSync('.artifacts/soak.json', JSON.stringify({ figures, samples }, null, 2));
  rmSync(folder, { recursive: true });
  // A short one on a busy machine says nothing of what takes time.
  const isTimed = process.env.SOAK_UNTIMED === undefined;
  const isFine = verdicts.every(
    ([what, isSo]) => isSo || (!isTimed && /RSS|late|drift|disposed/.test(what)),
  );
  process.exit(isFine ? 0 : 1);
}

/** What the process holds, as the system and Node see it. */
function census() {
  const count = (path) => {
    try {
      return readdirSync(path).length;
    } catch {
      return 0;
    }
  };
  const kinds = process.getActiveResourcesInfo();
  return {
    rssMiB: Math.round(process.memoryUsage.rss() / MIB),
    threads: count('/proc/self/task'),
    fds: count('/proc/self/fd'),
    handles: kinds.length,
    zombies: zombies(),
  };
}

function zombies() {
  let found = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const [, state, parent] =
        /\) (\S) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      if (state === 'Z' && Number(parent) === process.pid) found++;
    } catch {
      // It ended while it was looked at.
    }
  }
  return found;
}

/** Of the line through these points that is nearest to all of them. */
function slope(points) {
  if (points.length < 2) return 0;
  const mean = (at) => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const over = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0);
  return over / points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
}
