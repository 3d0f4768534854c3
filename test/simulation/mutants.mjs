/**
 * Whether the simulation finds what is wrong when something is: `npm run test:simulation:mutants`.
 * First the known kinds of faults (`planted.mjs`), then a sample of all small changes of the files
 * below, which a seed chooses (`MUTANTS`, `SEED`); each has `SEEDS` runs to be found in. A mutant
 * that hangs, or does not even start, is found too. `ONLY=planted` leaves the sample out.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { bundle } from './bundle.mjs';
import { mutant, mutations } from './mutator.mjs';
import { plant, PLANTED } from './planted.mjs';

const { MUTANTS = '200', SEED = '1', SEEDS = '1500', ONLY } = process.env;
const root = fileURLToPath(new URL('../../', import.meta.url));
const place = `${root}.artifacts/simulation/`;
/** A run of all seeds takes less, also where little is left of the machine; more does not end. */
const TIMEOUT_MS = 60_000 + 100 * Number(SEEDS);

const FILES = [
  'src/worker-host/*.ts',
  'src/agent/{inbox,intake,makings,agents}.ts',
  'src/subagents/{activations,activation,admission,drain,followup,notices,settlement}.ts',
  'src/subagents/{missed-notices,one-shot,continuable}.ts',
  'src/session/{commit-queue,kept-session,sessions}.ts',
];

/** Bundle one changed source and run seeds of it until one fails. */
async function tryOut(name, { change, assertApplied }, count = Number(SEEDS)) {
  const file = `${place}${name}-${process.pid}.mjs`;
  await bundle(file, change);
  assertApplied();
  const found = await new Promise((resolve) => {
    const args = ['--max-old-space-size=512', file, '0', String(count), '1'];
    const options = { env: { ...process.env, LAST: '0' }, timeout: TIMEOUT_MS, maxBuffer: 1 << 26 };
    execFile(process.execPath, args, options, (error, stdout) => {
      const [, seed, why] = /^seed (\d+): (.*)$/m.exec(stdout) ?? [];
      resolve({ isFound: error !== null, seed, why: why ?? error?.signal ?? 'it ends' });
    });
  });
  rmSync(file);
  return found;
}

async function each(items, run) {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await run(item);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
}

/** Numbers below `below`, in an order that the seed decides. */
function shuffled(below) {
  let state = Number(SEED) >>> 0;
  const next = () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const order = Array.from({ length: below }, (_, at) => at);
  for (let at = below - 1; at > 0; at--) {
    const other = Math.floor(next() * (at + 1));
    [order[at], order[other]] = [order[other], order[at]];
  }
  return order;
}

mkdirSync(place, { recursive: true });
let missed = 0;
await each([...PLANTED.entries()], async ([number, planted]) => {
  const { isFound, seed, why } = await tryOut(`planted-${number}`, plant(planted));
  if (!isFound) missed++;
  console.log(
    isFound ? `found by seed ${seed}: ${planted.name}\n    ${why}` : `NOT FOUND: ${planted.name}`,
  );
});
if (ONLY !== 'planted') {
  const paths = FILES.flatMap((pattern) => expand(pattern)).sort();
  const all = paths.flatMap((path) => mutations(path, readFileSync(`${root}${path}`, 'utf8')));
  const chosen = shuffled(all.length)
    .slice(0, Number(MUTANTS))
    .map((at) => all[at]);
  const survivors = [];
  let tried = 0;
  await each(chosen, async (one) => {
    const number = tried++;
    const { isFound, seed, why } = await tryOut(`mutant-${number}`, mutant(one));
    const what = `${one.path}:${one.line} ${one.what} ${one.was.replace(/\s+/g, ' ').slice(0, 100)}`;
    if (!isFound) survivors.push(what);
    console.log(
      `${isFound ? `killed by seed ${seed ?? '-'} (${why.slice(0, 90)})` : 'SURVIVED'}: ${what}`,
    );
  });
  const killed = chosen.length - survivors.length;
  const share = ((100 * killed) / chosen.length).toFixed(1);
  console.log(
    `\n${killed} of ${chosen.length} mutants were killed (${share} %), of ${all.length} that there are.`,
  );
  for (const survivor of survivors.sort()) console.log(`  survived: ${survivor}`);
}
process.exitCode = missed === 0 ? 0 : 1;

/** \`{a,b}\` and one \`*\`: Node 20 has no glob of its own. */
function expand(pattern) {
  const [, before, names, after] = /^(.*)\{(.*)\}(.*)$/.exec(pattern) ?? [];
  if (names !== undefined) return names.split(',').map((name) => `${before}${name}${after}`);
  const folder = pattern.slice(0, pattern.lastIndexOf('/'));
  return readdirSync(`${root}${folder}`)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`);
}
