/**
 * Continuable children in real threads, over a database, against the model of them. A few lists of
 * commands here; `npm run test:model:threads` plays `RUNS` (200) of them. A failure prints its seed
 * and path, which `SEED`, `RUN_PATH` and `REPLAY` play again.
 */
import { expect, it } from 'vitest';
import type { Ground } from '../continuable/model-ground.ts';
import { agreesWithModel } from '../continuable/model-property.ts';
import { realThreads } from './model-ground.ts';

const RUNS = Number(process.env['RUNS'] ?? 6);
const COMMANDS = Number(process.env['COMMANDS'] ?? 30);

it(
  'does in threads with every list of commands what the model of it says',
  { timeout: 60_000 + RUNS * 60_000 },
  async () => {
    let run = 0;
    const ground = (): Ground => {
      run++;
      return realThreads();
    };
    await agreesWithModel(ground, { runs: RUNS, most: COMMANDS });
    expect(run).toBeGreaterThan(0);
  },
);
