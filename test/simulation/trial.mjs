/**
 * What seeds tell of one changed source: an oracle says what is wrong (`killed`), nobody does
 * (`survived`), a seed comes to no end (`hangs`), or main does not start in any (`does not start`).
 *
 * That something does not end is found by waiting, which alone proves nothing. The source as it is
 * runs the same seeds first, in the same memory: whoever waits here waits for many times what the
 * slowest of them took, and then once more, for that one seed alone. A process that ends without
 * a word of how its seed went is treated alike.
 */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { bundle } from './bundle.mjs';

const MEMORY_MB = 512;
/** Times the slowest seed of the source as it is, and at least so long. */
const PATIENCE = 20;
const LEAST_MS = 30_000;

export class Trials {
  #place;
  #seeds;
  /** What one seed may take. */
  #patienceMs = LEAST_MS;

  constructor(place, seeds) {
    this.#place = place;
    this.#seeds = seeds;
  }

  /** The source as it is: nothing is wrong with it, and it ends. @throws {Error} if not */
  async calibrate() {
    const file = `${this.#place}unchanged-${process.pid}.mjs`;
    await bundle(file);
    this.#patienceMs = Infinity;
    const ran = await this.#watch(file, 0, this.#seeds);
    rmSync(file);
    if (ran.how !== 'survived') {
      throw new Error(`Seed ${ran.seed} of the source as it is: ${ran.how}, ${ran.why}.`);
    }
    this.#patienceMs = Math.max(LEAST_MS, PATIENCE * ran.slowestMs);
  }

  async run(name, { change, assertApplied }, from = 0) {
    const file = `${this.#place}${name}-${process.pid}.mjs`;
    try {
      await bundle(file, change);
    } catch {
      return { how: 'does not start', why: 'it is no program' };
    }
    assertApplied();
    let ran = { how: 'hangs', seed: from };
    while (ran.how === 'hangs') {
      const { seed } = ran;
      ran = await this.#watch(file, seed, from + this.#seeds - seed);
      // One that ends alone is not shown to be the mutant's doing: on from there.
      if (ran.how === 'hangs' && (await this.#watch(file, ran.seed, 1)).how === 'hangs') break;
      if (ran.how === 'hangs' && ran.seed === seed) ran.seed++;
    }
    rmSync(file);
    return ran;
  }

  /** Run seeds until one says something, or none does for too long. */
  #watch(file, from, count) {
    const args = [`--max-old-space-size=${MEMORY_MB}`, file, from, count, 1].map(String);
    const env = { ...process.env, LAST: '0', HASHES: '1' };
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'] });
    let seed = from;
    let since = performance.now();
    let slowestMs = 0;
    let said;
    let isWaitedOut = false;
    let timer;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(
        () => {
          isWaitedOut = true;
          child.kill('SIGKILL');
        },
        Math.min(this.#patienceMs, 2 ** 31 - 1),
      );
    };
    wait();
    createInterface({ input: child.stdout }).on('line', (line) => {
      wait();
      const [, failed, why] = /^seed (\d+): (.*)$/.exec(line) ?? [];
      if (failed !== undefined) said = { seed: Number(failed), why };
      if (!/^\d+ /.test(line)) return;
      const now = performance.now();
      slowestMs = Math.max(slowestMs, now - since);
      since = now;
      seed++;
    });
    return new Promise((resolve) => {
      child.on('close', (code, signal) => {
        clearTimeout(timer);
        const isUnborn = said?.seed === 0 && UNBORN.test(said.why);
        if (said !== undefined) resolve({ how: isUnborn ? 'does not start' : 'killed', ...said });
        else if (code === 0) resolve({ how: 'survived', slowestMs });
        else if (isWaitedOut) resolve({ how: 'hangs', seed, why: 'it does not end' });
        else if (code === 1 && seed === from) {
          resolve({ how: 'does not start', why: 'no seed of it begins' });
        } else resolve({ how: 'hangs', seed, why: `its process ends with ${signal ?? code}` });
      });
    });
  }
}

/** See `simulate`. */
const UNBORN = /^(main does not start|the start of main does not)/;
