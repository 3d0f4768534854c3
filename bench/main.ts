/** All benches, one after another. `--json`: one JSON line per row. */
import { mainLagBench } from './main-lag.bench.ts';
import { spawnBench } from './spawn.bench.ts';
import { storeBench } from './store.bench.ts';
import { report } from './support.ts';

report(await spawnBench());
report(await mainLagBench());
for (const table of await storeBench()) report(table);
