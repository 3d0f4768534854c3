/**
 * The simulation with the product in it as one file that Node runs: the product's own source, with
 * threads, timers and ids of the simulation in the place of Node's.
 */
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const msgpackr = fileURLToPath(new URL('./pack.js', import.meta.resolve('msgpackr')));

const STAND_INS = {
  'node:worker_threads': at('stand-ins/worker-threads.ts'),
  'node:timers/promises': at('stand-ins/timers-promises.ts'),
  uuidv7: at('stand-ins/uuidv7.ts'),
  piscina: at('stand-ins/nothing.ts'),
  '@photostructure/sqlite': at('stand-ins/nothing.ts'),
  'msgpackr/index-no-eval': msgpackr,
};

/**
 * Before everything else: when something is collected is nothing that a seed decides, and what a
 * thread would take with it at its end must not be held by the next run.
 */
const BANNER = 'globalThis.FinalizationRegistry = class { register() {} unregister() {} };';

/** @param change takes the path of a file below the repository and its text, and gives its text */
export async function bundle(file, change) {
  const made = await rolldown({
    input: at('main.ts'),
    platform: 'node',
    logLevel: 'warn',
    resolve: { alias: STAND_INS },
    plugins:
      change === undefined ? [] : [{ name: 'change', transform: (text, id) => change(id, text) }],
  });
  await made.write({ file, format: 'esm', codeSplitting: false, banner: BANNER });
  await made.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle(process.argv[2]);
