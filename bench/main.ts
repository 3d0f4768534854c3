/** All benches, one after another. `--json`: one JSON line per row. */
import { cancelBench } from './cancel.bench.ts';
import { mainLagBench } from './main-lag.bench.ts';
import { spawnBench } from './spawn.bench.ts';
import { storeBench } from './store.bench.ts';
import { report } from './support.ts';

report(await spawnBench());
report(await mainLagBench());
report(await cancelBench());
for (const table of await storeBench()) report(table);
