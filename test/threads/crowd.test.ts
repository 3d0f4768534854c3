/** More agents than the machine bears, in a program of their own. `npm run test:crowd`: thousands. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { fixture } from './real.ts';

/** Descriptors that the program may have; `THREADS`: as many as this process, and so many threads. */
const DESCRIPTORS = 200;
const { THREADS, CHAINS = THREADS === undefined ? '3' : '50' } = process.env;
const MINUTES = THREADS === undefined ? 1 : 30;

it(
  'are refused with what there is too little of, and those that are there go on',
  async () => {
    const limit = THREADS === undefined ? `ulimit -n ${DESCRIPTORS}; ` : '';
    const program = [
      process.execPath,
      fileURLToPath(fixture('crowd.mjs')),
      CHAINS,
      THREADS ?? '5000',
    ];
    const { stdout, stderr } = await promisify(execFile)(
      'sh',
      ['-c', `${limit}exec "$@"`, 'sh', ...program],
      { timeout: MINUTES * 60_000, killSignal: 'SIGKILL' },
    );
    if (process.env['SHOW'] !== undefined) console.log(stdout);
    expect(stderr).toBe('');
    const { live, most, refusals, ends, ...rest } = JSON.parse(stdout);
    expect(live).toBe(most);
    expect(refusals.length).toBeGreaterThan(0);
    for (const words of refusals) expect(words).toMatch(/bears no further one, for want of /);
    expect(rest).toEqual({ before: 'completed', after: 'completed', later: 'completed here' });
    // A thousand threads that end at once keep main from its timers, and so from clean ends.
    if (THREADS !== undefined) return;
    expect(ends).toEqual(['completed unwound']);
    for (const words of refusals) expect(words).toMatch(/for want of descriptors/);
    // Some are the program's own, and each thread may take five.
    expect(live).toBeGreaterThan(10);
    expect(live).toBeLessThanOrEqual(DESCRIPTORS / 5);
  },
  MINUTES * 60_000,
);
