/** The simulation as a program, which is how it is run: a set of seeds, and whether it finds faults. */
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';

const run = promisify(execFile);
const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const file = at('../../.artifacts/simulation/test.mjs');
/** What takes half a minute on a quiet machine may take longer on a busy one. */
const PATIENCE_MS = 300_000;

async function node(program: string, args: readonly string[], env: object): Promise<string> {
  const options = { env: { ...process.env, ...env }, timeout: PATIENCE_MS };
  // What it prints tells more than that it failed.
  const { stdout } = await run(process.execPath, [at(program), ...args], options).catch(
    (error: { stdout?: string }) => ({ stdout: error.stdout ?? String(error) }),
  );
  return stdout;
}

afterAll(() => rmSync(file, { force: true }));

it(
  'finds nothing wrong, whatever happens in whichever order',
  async () => {
    const said = await node('run.mjs', [], { SEEDS: '150' });
    expect(said).toMatch(/^150 seeds in .*; 0 failed\.$/m);
  },
  PATIENCE_MS,
);

it(
  'does the same for the same seed',
  async () => {
    await node('bundle.mjs', [file], {});
    const hashes = (): Promise<string> => node(file, ['5000', '20', '1'], { HASHES: '1' });
    const untimed = (said: string): string => said.replace(/"ms":\d+/, '');
    const [one, other] = await Promise.all([hashes(), hashes()]);
    expect(one.split('\n').length).toBeGreaterThan(20);
    expect(untimed(other)).toBe(untimed(one));
    // Other seeds do something else.
    expect(new Set(one.match(/^\d+ [0-9a-f]{8}/gm)?.map((line) => line.slice(-8))).size).toBe(20);
  },
  PATIENCE_MS,
);

it(
  'finds each of the known kinds of faults',
  async () => {
    const said = await node('mutants.mjs', [], { ONLY: 'planted', SEEDS: '2000' });
    expect(said.match(/^found by seed/gm)).toHaveLength(6);
    expect(said).not.toContain('NOT FOUND');
  },
  PATIENCE_MS,
);

it('refuses a planted fault whose place is not there, or there twice', async () => {
  const { plant } = (await import('./planted.mjs' as string)) as {
    plant(planted: object): {
      change(id: string, text: string): string | undefined;
      assertApplied(): void;
    };
  };
  const planted = { name: 'it', changes: [{ file: 'a.ts', from: 'one', to: 'two' }] };
  const once = plant(planted);
  expect(once.change('/src/a.ts', 'one')).toBe('two');
  expect(() => once.assertApplied()).not.toThrow();
  const twice = plant(planted);
  twice.change('/src/a.ts', 'one one');
  expect(() => twice.assertApplied()).toThrow(/there are 2/);
  expect(() => plant(planted).assertApplied()).toThrow(/there are 0/);
});
