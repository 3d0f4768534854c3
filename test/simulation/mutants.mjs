/** Whether the simulation finds what is wrong when something is. */
import { execFile } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundle } from './bundle.mjs';
import { plant, PLANTED } from './planted.mjs';

const place = fileURLToPath(new URL('../../.artifacts/simulation/', import.meta.url));
const SEEDS = Number(process.env.SEEDS ?? 2_000);

/** Runs seeds of one bundle until one fails. */
export function seedsOf(file, { from = 0, count = SEEDS, most = 1, timeout = 600_000 } = {}) {
  return new Promise((resolve) => {
    const args = ['--max-old-space-size=1024', file, String(from), String(count), String(most)];
    const env = { ...process.env, LAST: '0' };
    execFile(process.execPath, args, { env, timeout, maxBuffer: 1 << 26 }, (error, stdout) => {
      const [, seed, why] = /^seed (\d+): (.*)$/m.exec(stdout) ?? [];
      resolve({
        isFound: error !== null,
        seed,
        why:
          why ?? (error === null ? undefined : String(error.signal ?? error.message).slice(0, 200)),
      });
    });
  });
}

export async function runPlanted() {
  mkdirSync(place, { recursive: true });
  const results = [];
  for (const [number, planted] of PLANTED.entries()) {
    const file = `${place}planted-${number}.mjs`;
    const { change, assertApplied } = plant(planted);
    await bundle(file, change);
    assertApplied();
    const found = await seedsOf(file);
    results.push({ name: planted.name, ...found });
    rmSync(file);
  }
  return results;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { name, isFound, seed, why } of await runPlanted()) {
    console.log(
      `${isFound ? `found by seed ${seed}` : `NOT FOUND in ${SEEDS} seeds`}: ${name}\n    ${why ?? ''}`,
    );
  }
}
