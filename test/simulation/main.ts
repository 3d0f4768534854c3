/** Seeds one after the other, as a program of its own: `main FROM COUNT [MOST FAILURES]`. */
import { realNow, takeTime } from './node-time.ts';
import { here } from './life.ts';
import { simulate } from './simulate.ts';

const [from = 0, count = 100, most = 5] = process.argv.slice(2).map(Number);
// Where an error was made is told by nobody here, and finding it out takes a third of the time.
Error.stackTraceLimit = process.env['STACKS'] === '1' ? 20 : 0;
const giveBack = takeTime();
const since = realNow();
let failures = 0;
const sum = { seeds: 0, steps: 0, acts: 0, faults: 0, restarts: 0 };
for (let seed = from; seed < from + count && failures < most; seed++) {
  const verdict = await simulate(seed).catch((error: unknown) => ({
    violations: [`the simulation itself failed: ${String((error as Error).stack)}`],
    last: here.lastTrace?.() ?? [],
    steps: 0,
    acts: 0,
    faults: 0,
    restarts: 0,
    hash: '',
    seed,
    plan: undefined,
  }));
  sum.seeds++;
  for (const key of ['steps', 'acts', 'faults', 'restarts'] as const) sum[key] += verdict[key];
  if (process.env['SHOW'] === '1') console.log(seed, verdict.hash, verdict.steps);
  if (verdict.violations.length === 0) continue;
  failures++;
  console.log(`seed ${seed}: ${verdict.violations.join('; ')}`);
  if (process.env['LAST'] !== '0') {
    const { weights: _weights, ...plan } = verdict.plan ?? {};
    console.log(JSON.stringify(plan));
    console.log(verdict.last.map((line) => `    ${line}`).join('\n'));
  }
}
giveBack();
const ms = realNow() - since;
console.log(
  JSON.stringify({ ...sum, failures, ms, perSecond: Math.round((sum.seeds / ms) * 1000) }),
);
process.exit(failures === 0 ? 0 : 1);
