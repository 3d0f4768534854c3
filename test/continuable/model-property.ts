/** What holds of every list of commands, on whatever ground it is played. */
import * as fc from 'fast-check';
import type { Ground } from './model-ground.ts';
import { commands } from './model-commands.ts';
import { Real } from './model-real.ts';
import { Model } from './model.ts';

const { SEED, RUN_PATH, REPLAY } = process.env;

/**
 * `runs` lists of up to `most` commands, each with a harness of its own.
 * @throws the shortest list that was found to go otherwise than in the model, with its seed
 */
export async function agreesWithModel(
  ground: () => Ground,
  { runs, most }: { readonly runs: number; readonly most: number },
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(commands(most, REPLAY), async (list) => {
      const model = new Model();
      const real = await Real.open(ground());
      try {
        await fc.asyncModelRun(() => ({ model, real }), list);
        await real.dispose();
        model.restart();
        await real.agrees(model, true);
      } catch (error) {
        const did = real.did.join(', ');
        throw new Error(`${(error as Error).message}\nafter ${did}`, { cause: error });
      } finally {
        await real.close();
      }
    }),
    {
      numRuns: runs,
      includeErrorInReport: true,
      endOnFailure: false,
      ...(SEED === undefined ? {} : { seed: Number(SEED) }),
      ...(RUN_PATH === undefined ? {} : { path: RUN_PATH }),
    },
  );
}
