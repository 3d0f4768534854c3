/**
 * Whether the simulation finds what is wrong when something is: `npm run test:simulation:mutants`.
 * First the known kinds of faults (`planted.mjs`), then a sample of all small changes of the files
 * below, which a seed chooses (`MUTANTS`, `SEED`); each has `SEEDS` runs to be found in.
 * `ONLY=planted` leaves the sample out; `ONLY=src/worker-host/link.ts:104` is all changes of a line.
 *
 * A mutant is killed when an oracle says of a seed what is wrong. One that comes to no end is a
 * class of its own, and only if a seed shows that it is the mutant's doing (`trial.mjs`). One that
 * does not even start tells nothing of the simulation: another is drawn in its place.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { mutant, mutations } from './mutator.mjs';
import { plant, PLANTED } from './planted.mjs';
import { Trials } from './trial.mjs';

const { MUTANTS = '200', SEED = '1', SEEDS = '1500', ONLY } = process.env;
const root = fileURLToPath(new URL('../../', import.meta.url));
const place = `${root}.artifacts/simulation/`;

const FILES = [
  'src/worker-host/*.ts',
  'src/agent/{inbox,intake,makings,agents}.ts',
  'src/subagents/{activations,activation,admission,drain,followup,notices,settlement}.ts',
  'src/subagents/{missed-notices,one-shot,continuable}.ts',
  'src/session/{commit-queue,kept-session,sessions}.ts',
];

/** Runs as many at once as there are cores; `next` is asked for one whenever there is room. */
async function each(next, run) {
  const worker = async () => {
    for (let item = next(); item !== undefined; item = next()) await run(item);
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
const trials = new Trials(place, Number(SEEDS));
// What is planted is to be found by an oracle; that it hangs would be nothing.
if (ONLY !== 'planted') await trials.calibrate();
const isOfPlaces = ONLY?.startsWith('src/') === true;
const missed = isOfPlaces ? 0 : await tryPlanted();
if (ONLY !== 'planted') await trySample();
process.exitCode = missed === 0 ? 0 : 1;

/** @returns how many were not found */
async function tryPlanted() {
  let missed = 0;
  const left = [...PLANTED.entries()];
  await each(
    () => left.shift(),
    async ([number, planted]) => {
      const { how, seed, why } = await trials.run(
        `planted-${number}`,
        plant(planted),
        planted.from,
      );
      if (how !== 'killed') missed++;
      const found = `found by seed ${seed}: ${planted.name}\n    ${why}`;
      console.log(how === 'killed' ? found : `NOT FOUND (${how}): ${planted.name}`);
    },
  );
  return missed;
}

async function trySample() {
  const paths = FILES.flatMap((pattern) => expand(pattern)).sort();
  const all = paths.flatMap((path) => mutations(path, readFileSync(`${root}${path}`, 'utf8')));
  const some = isOfPlaces ? all.filter(({ path, line }) => `${path}:${line}` === ONLY) : all;
  if (some.length === 0) throw new Error(`Nothing can be changed at ${ONLY}.`);
  const order = shuffled(some.length);
  const most = Math.min(isOfPlaces ? Infinity : Number(MUTANTS), some.length);
  const fates = { killed: [], hangs: [], survived: [], 'does not start': [] };
  let drawn = 0;
  // Whatever takes how long, those that count are the first of the order that start.
  const isEnough = () => drawn - fates['does not start'].length >= most;
  await each(
    () => (isEnough() ? undefined : order[drawn++]),
    async (at) => {
      const one = some[at];
      const { how, seed, why } = await trials.run(`mutant-${at}`, mutant(one));
      const was = one.was.replace(/\s+/g, ' ').slice(0, 100);
      const what = `${one.path}:${one.line} ${one.what} ${was}`;
      fates[how].push(what);
      const by = seed === undefined ? '' : ` by seed ${seed}`;
      console.log(`${how}${by}${why === undefined ? '' : ` (${why.slice(0, 160)})`}: ${what}`);
    },
  );
  const { killed, hangs, survived, 'does not start': unborn } = fates;
  const counted = killed.length + hangs.length + survived.length;
  const share = ({ length }) => `${length} (${((100 * length) / counted).toFixed(1)} %)`;
  console.log(
    `\nOf ${counted} mutants, of ${all.length} that there are: ${share(killed)} killed by an ` +
      `oracle, ${share(hangs)} come to no end, ${share(survived)} survived. Beside them ` +
      `${unborn.length} did not start.`,
  );
  for (const [how, list] of Object.entries(fates)) {
    if (how !== 'killed') for (const what of list.sort()) console.log(`  ${how}: ${what}`);
  }
}

/** \`{a,b}\` and one \`*\`: Node 20 has no glob of its own. */
function expand(pattern) {
  const [, before, names, after] = /^(.*)\{(.*)\}(.*)$/.exec(pattern) ?? [];
  if (names !== undefined) return names.split(',').map((name) => `${before}${name}${after}`);
  const folder = pattern.slice(0, pattern.lastIndexOf('/'));
  return readdirSync(`${root}${folder}`)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`);
}
