/**
 * Continuable children against a model of them. `npm run test:model` plays `RUNS` lists of
 * commands; a failure prints its seed and path, which `SEED`, `RUN_PATH` and `REPLAY` play again.
 */
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { commands } from './model-commands.ts';
import { Real } from './model-real.ts';
import { Model } from './model.ts';

const { SEED, RUN_PATH, REPLAY } = process.env;
const RUNS = Number(process.env['RUNS'] ?? 300);
const COMMANDS = Number(process.env['COMMANDS'] ?? 30);

it(
  'does with every list of commands what the model of it says',
  { timeout: 60_000 + RUNS * 500 },
  async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(commands(COMMANDS, REPLAY), async (list) => {
        const model = new Model();
        const real = await Real.open();
        run++;
        try {
          await fc.asyncModelRun(() => ({ model, real }), list);
          await real.close();
          model.restart();
          await real.compare(model, true);
        } catch (error) {
          await real.close().catch(() => {});
          const did = real.did.join(', ');
          throw new Error(`${(error as Error).message}\nafter ${did}`, { cause: error });
        }
      }),
      {
        numRuns: RUNS,
        includeErrorInReport: true,
        endOnFailure: false,
        ...(SEED === undefined ? {} : { seed: Number(SEED) }),
        ...(RUN_PATH === undefined ? {} : { path: RUN_PATH }),
      },
    );
    expect(run).toBeGreaterThan(0);
  },
);
