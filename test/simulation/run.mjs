/**
 * Many seeds, in as many processes as there are cores: `npm run test:simulation`. `SEEDS` says how
 * many, `FROM` which is the first; `SEED=17` runs that one alone and shows what happened in it.
 */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { bundle } from './bundle.mjs';

const {
  SEED,
  SEEDS = '100000',
  FROM = '0',
  PROCESSES = String(availableParallelism()),
} = process.env;
/** Seeds of one process: it is replaced before it has grown. */
const PART = 2_500;
const MOST_FAILURES = 5;

const place = fileURLToPath(new URL('../../.artifacts/simulation/', import.meta.url));
mkdirSync(place, { recursive: true });
const file = `${place}run-${process.pid}.mjs`;
await bundle(file);

const sum = { seeds: 0, steps: 0, acts: 0, faults: 0, restarts: 0, failures: 0 };
let next = Number(SEED ?? FROM);
const end = next + (SEED === undefined ? Number(SEEDS) : 1);
const since = performance.now();

/** Every line of what is wrong is shown; the last line of a process is its sum. */
function part(from, count) {
  return new Promise((resolve) => {
    const args = [file, from, count, MOST_FAILURES].map(String);
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let isSummed = false;
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.startsWith('{"seeds"')) return console.log(line);
      isSummed = true;
      const told = JSON.parse(line);
      for (const key of Object.keys(sum)) sum[key] += told[key];
    });
    child.on('close', (code, signal) => {
      if (!isSummed) {
        sum.failures++;
        console.log(`The seeds from ${from} to ${from + count - 1} ended with ${signal ?? code}.`);
      }
      resolve();
    });
  });
}

async function worker() {
  while (next < end && sum.failures < MOST_FAILURES) {
    const from = next;
    const count = Math.min(PART, end - from);
    next += count;
    await part(from, count);
  }
}

await Promise.all(Array.from({ length: SEED === undefined ? Number(PROCESSES) : 1 }, worker));
const seconds = (performance.now() - since) / 1_000;
const rate = Math.round(sum.seeds / seconds);
console.log(
  `${sum.seeds} seeds in ${seconds.toFixed(1)} s, ${rate} a second: ${sum.steps} actions, ` +
    `${sum.acts} of them a user's, ${sum.faults} faults, ${sum.restarts} of them the end of main; ` +
    `${sum.failures} failed.`,
);
process.exitCode = sum.failures === 0 ? 0 : 1;
