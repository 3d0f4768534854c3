/** The soak itself, for some seconds, so that it can be relied on when it is run for long. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../../scripts/soak.mjs', import.meta.url));
const SHORT = {
  SOAK_UNTIMED: '1',
  SOAK_MINUTES: String(10 / 60),
  SOAK_AGENTS: '6',
  SOAK_SAMPLE_MS: '2000',
};

interface Soaked {
  readonly figures: {
    readonly deltas: number;
    readonly zombies: number;
    readonly http: { readonly asked: number; readonly failed: number };
  };
  readonly samples: readonly { readonly liveAgents: number; readonly rssMiB: number }[];
}

it('runs agents beside a server that is asked, and leaves nothing', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'soaked-'));
  try {
    const code = await new Promise((resolve) => {
      const options = { cwd, env: { ...process.env, ...SHORT }, timeout: 55_000 };
      execFile(process.execPath, ['--expose-gc', SCRIPT], options, (error, stdout) =>
        resolve(error === null ? 0 : stdout),
      );
    });
    expect(code).toBe(0);
    const text = readFileSync(join(cwd, '.artifacts', 'soak.json'), 'utf8');
    const { figures, samples } = JSON.parse(text) as Soaked;
    expect(figures.http.asked).toBeGreaterThan(0);
    expect(figures).toMatchObject({ zombies: 0, http: { failed: 0 } });
    expect(figures.deltas).toBeGreaterThan(0);
    expect(Math.max(...samples.map(({ liveAgents }) => liveAgents))).toBeGreaterThan(3);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});
