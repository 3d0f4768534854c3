/**
 * Continuable children against a model of them. `npm run test:model` plays `RUNS` lists of
 * commands; a failure prints its seed and path, which `SEED`, `RUN_PATH` and `REPLAY` play again.
 */
import { expect, it } from 'vitest';
import { inProcess } from './model-ground.ts';
import type { Ground } from './model-ground.ts';
import { agreesWithModel } from './model-property.ts';

const RUNS = Number(process.env['RUNS'] ?? 300);
const COMMANDS = Number(process.env['COMMANDS'] ?? 30);

it(
  'does with every list of commands what the model of it says',
  { timeout: 60_000 + RUNS * 500 },
  async () => {
    let run = 0;
    const ground = (): Ground => {
      run++;
      return inProcess();
    };
    await agreesWithModel(ground, { runs: RUNS, most: COMMANDS });
    expect(run).toBeGreaterThan(0);
  },
);
