/**
 * `npm run test:faults`: so many faults as `FAULTS` says, on grounds, judged one by one; and those
 * that a thread does not contain, each in a process that is given up to it.
 */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { KINDS, kindOf } from './kinds.ts';
import { MOMENTS } from './moments.ts';
import { planOf } from './plan.ts';
import { failureText, Report } from './report.ts';
import { play } from './run.ts';
import { sacrifice, sacrificesTable } from './sacrifice.ts';

const { env } = process;
const number = (name: string): number | undefined =>
  env[name] === undefined || env[name] === '' ? undefined : Number(env[name]);
const seed = number('SEED') ?? Date.now() % 100_000;
const faults = number('FAULTS') ?? 2_000;
const atOnce = number('AT_ONCE') ?? 2;
const kind = env['KIND'] === '' ? undefined : env['KIND'];
if (kind !== undefined && !KINDS.some(({ name }) => name === kind)) {
  console.error(`KIND names one kind, or none is given for all: there is no "${kind}". There are:`);
  console.error(KINDS.map(({ name }) => name).join(' '));
  process.exit(2);
}
if (env['MOMENT'] !== undefined && !(MOMENTS as readonly string[]).includes(env['MOMENT'])) {
  console.error(`There is no MOMENT "${env['MOMENT']}". There are: ${MOMENTS.join(' ')}`);
  process.exit(2);
}
const SHOWN_EVERY = 100;

const artifacts = fileURLToPath(new URL('../../../.artifacts/', import.meta.url));
mkdirSync(artifacts, { recursive: true });
const path = `${artifacts}faults-${seed}.jsonl`;
writeFileSync(path, '');

const began = performance.now();
const seconds = (): number => Math.round((performance.now() - began) / 1_000);
const report = new Report();
const isEscape = kind !== undefined && kindOf(kind).fault === 'not contained';
if (!isEscape) {
  const cells = planOf({
    faults,
    seed,
    kind,
    moment: env['MOMENT'],
    mode: env['MODE'],
    depth: number('DEPTH'),
    siblings: number('SIBLINGS'),
  });
  console.log(`SEED=${seed}: ${cells.length} faults, ${atOnce} grounds at a time.`);
  await play(cells, {
    atOnce,
    perGround: number('PER_GROUND') ?? 40,
    onOutcome(outcome) {
      report.add(outcome);
      appendFileSync(path, `${JSON.stringify(outcome)}\n`);
      if (outcome.wrong.length > 0) console.log(failureText(outcome, seed));
      if (outcome.number % SHOWN_EVERY === 0) console.log(`${outcome.number} after ${seconds()} s`);
    },
    onGroundEnd: (end) => report.addEnd(end),
  });
}

const escapes = KINDS.filter(
  ({ name, fault }) => fault === 'not contained' && (kind === undefined || name === kind),
);
const sacrifices = [];
for (const { name } of env['MOMENT'] === undefined ? escapes : []) {
  const sacrificed = await sacrifice(name);
  sacrifices.push(sacrificed);
  appendFileSync(path, `${JSON.stringify(sacrificed)}\n`);
}

console.log(`\n${report.table()}\n`);
if (sacrifices.length > 0) console.log(`${sacrificesTable(sacrifices)}\n`);
for (const [what, figure] of Object.entries(report.figures())) console.log(`${what}: ${figure}`);
console.log(`${seconds()} s; each fault is a line of ${path}`);
const unknown = sacrifices.filter(({ isKnown }) => !isKnown);
if (report.isClean && unknown.length === 0) process.exitCode = 0;
else {
  const wrong = report.failures.length + unknown.length;
  console.log(`\nSEED=${seed}: ${wrong} faults did not end as they have to.`);
  for (const outcome of report.failures) console.log(failureText(outcome, seed));
  process.exitCode = 1;
}
