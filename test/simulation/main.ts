/**
 * Seeds one after the other, as a program of its own: `main FROM COUNT MOST_FAILURES`. Each that
 * fails is told in one line, with what repeats it, and what happened last; the sum comes last.
 * `HASHES=1` tells of every seed what it did.
 */
import { here } from './life.ts';
import { realNow, takeTime } from './node-time.ts';
import type { Cut } from './plan.ts';
import { simulate } from './simulate.ts';
import type { Verdict } from './simulate.ts';

const { env } = process;
const [from = 0, count = 100, most = 5] = process.argv.slice(2).map(Number);
const CUTS = { acts: 'ACTS', faults: 'FAULTS', delegations: 'DELEGATIONS' } as const;
const KEYS = Object.keys(CUTS) as (keyof Cut)[];
const given: Cut = Object.fromEntries(
  KEYS.flatMap((key) => (env[CUTS[key]] === undefined ? [] : [[key, Number(env[CUTS[key]])]])),
);

// Where an error was made is told by nobody here, and to find it out takes its time.
Error.stackTraceLimit = env['STACKS'] === '1' ? 20 : 0;
const giveBack = takeTime();
const since = realNow();
const sum = { seeds: 0, steps: 0, acts: 0, faults: 0, restarts: 0, failures: 0 };
for (let seed = from; seed < from + count && sum.failures < most; seed++) {
  const verdict = await verdictOf(seed, given);
  sum.seeds++;
  for (const key of ['steps', 'acts', 'faults', 'restarts'] as const) sum[key] += verdict[key];
  if (env['HASHES'] === '1') console.log(`${seed} ${verdict.hash} ${verdict.steps}`);
  if (verdict.violations.length === 0) continue;
  sum.failures++;
  await tell(verdict);
}
giveBack();
console.log(JSON.stringify({ ...sum, ms: realNow() - since }));
process.exit(sum.failures === 0 ? 0 : 1);

type Told = Pick<
  Verdict,
  'seed' | 'violations' | 'last' | 'steps' | 'acts' | 'faults' | 'restarts' | 'hash'
> & { readonly plan?: Verdict['plan'] };

/** That the simulation itself fails is a failure like any other. */
async function verdictOf(seed: number, cut: Cut): Promise<Told> {
  try {
    return await simulate(seed, cut);
  } catch (error) {
    const why = `the run itself failed: ${String((error as Error | undefined)?.stack ?? error)}`;
    const nothing = { steps: 0, acts: 0, faults: 0, restarts: 0, hash: '' };
    return { ...nothing, seed, violations: [why], last: here.lastTrace?.() ?? [] };
  }
}

async function tell(verdict: Told): Promise<void> {
  console.log(`seed ${verdict.seed}: ${verdict.violations.join('; ')}`);
  if (env['LAST'] === '0') return;
  const cut = await shrunk(verdict);
  const smaller = await verdictOf(verdict.seed, cut);
  const { weights: _weights, ...plan } = smaller.plan ?? {};
  console.log(`    of ${JSON.stringify(plan)}`);
  for (const line of smaller.last) console.log(`    ${line}`);
  if (smaller.violations.length > 0) console.log(`    so: ${smaller.violations.join('; ')}`);
  const cuts = KEYS.flatMap((key) => (cut[key] === undefined ? [] : [`${CUTS[key]}=${cut[key]}`]));
  console.log(`    again: ${[`SEED=${verdict.seed}`, ...cuts].join(' ')} npm run test:simulation`);
}

/** The same seed with as little as it still fails with. */
async function shrunk({ seed, plan }: Told): Promise<Cut> {
  const cut: { -readonly [Key in keyof Cut]: Cut[Key] } = { ...given };
  if (plan === undefined) return cut;
  for (const key of KEYS) {
    for (let less = Math.min(plan[key], cut[key] ?? Infinity) - 1; less >= 0; less--) {
      const { violations } = await verdictOf(seed, { ...cut, [key]: less });
      if (violations.length === 0) break;
      cut[key] = less;
    }
  }
  return cut;
}
