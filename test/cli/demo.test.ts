import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { exportedNamesByCompiler } from '../support/exported-names.ts';
import { REPOSITORY, start, tableIn, type TableRow } from './command-line.ts';

it('prints a true table of this repository, and names the three that misbehave', async () => {
  const { code, stdout, stderr } = await start(['scripts/demo.mjs']).finished;
  const { total, ...rows } = tableIn(stdout);
  const counted = countAll();
  expect(rows).toEqual(counted);
  expect(total?.lines).toBe(sum(counted, 'lines'));
  expect(stdout.slice(stdout.indexOf('delegations failed'))).toMatch(
    /^delegations failed:\n- throw_late: WORKER_CRASHED: .*\n- exhaust_heap: WORKER_OUT_OF_MEMORY: .*\n- spin_forever: LIMIT_EXCEEDED: .*\n$/u,
  );
  const [first] = stderr.replace('Building first …\n', '').split('\n');
  expect(first).toMatch(/using the embedded scripted model/u);
  expect(code).toBe(0);
}, 240_000);

/** An own count, by other means: the compiler for exports, a plain pattern for headings. */
function countAll(): Readonly<Record<string, TableRow>> {
  const names = ['.', '.github', 'docs', 'bench', 'protocol', 'src', 'workers'].flatMap((folder) =>
    filesIn(folder, folder !== '.'),
  );
  return Object.fromEntries(
    names
      .filter((name) => /\.(?:md|ts)$/u.test(name))
      .map((name) => {
        const text = readFileSync(join(REPOSITORY, name), 'utf8');
        const headings = text.replace(/^```[^]*?^```$/gmu, '').match(/^#{1,6} /gmu) ?? [];
        return [
          name,
          {
            headings: name.endsWith('.md') ? headings.length : 0,
            exports: name.endsWith('.ts') ? exportedNamesByCompiler(name, text).length : 0,
            lines: text.match(/[^\n]*\n|[^\n]+$/gu)?.length ?? 0,
          },
        ];
      }),
  );
}

function filesIn(folder: string, recursive: boolean): readonly string[] {
  try {
    return readdirSync(join(REPOSITORY, folder), { recursive, encoding: 'utf8' }).map((name) =>
      join(folder, name),
    );
  } catch {
    // A folder that this checkout does not have.
    return [];
  }
}

const sum = (rows: Readonly<Record<string, TableRow>>, column: keyof TableRow): number =>
  Object.values(rows).reduce((total, row) => total + row[column], 0);
