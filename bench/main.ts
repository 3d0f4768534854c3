/** All benches, one after another. `--json`: one JSON line per row. */
import { mainLagBench } from './main-lag.bench.ts';
import { spawnBench } from './spawn.bench.ts';
import { report } from './support.ts';

report(await spawnBench());
report(await mainLagBench());
