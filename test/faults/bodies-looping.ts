/** Bodies that take their thread's time and never give it back, or that say nothing. */
import type { Body } from './inside.ts';
import { never, startBelow } from './inside.ts';

const MIB = 1024 * 1024;
const microtasks = async (): Promise<void> => {
  for (;;) await undefined;
};
const nextTicks = (): void => process.nextTick(nextTicks);
const immediates = (): void => void setImmediate(immediates);
const deeper = (depth: number): number => deeper(depth + 1) + 1;

export const loopingBodies: Readonly<Record<string, Body>> = {
  loop: () => {
    for (;;);
  },
  'loop-microtasks': microtasks,
  'loop-next-tick': () => {
    nextTicks();
    return never();
  },
  'loop-immediates': () => {
    for (let i = 0; i < 50; i++) immediates();
    return never();
  },
  'atomics-wait': () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  redos: () => /^(a+)+$/.test(`${'a'.repeat(48)}b`),
  sort: () => {
    for (;;) Float64Array.from({ length: 200_000 }, Math.random).sort();
  },
  'stack-getter-loops': () => {
    const error = new Error('Its stack is never there.');
    Object.defineProperty(error, 'stack', {
      get() {
        for (;;);
      },
    });
    throw error;
  },
  recursion: () => deeper(0),
  silent: () => never(),
  'slow-tool': () => never(),
  'slow-run': () => never(),
  busy: () => {
    immediates();
    return never();
  },
  'busy-blocked': () => {
    for (;;);
  },
  'steps-without-end': () => 'again',
  'output-without-end': () => 'x'.repeat(200_000),
  'nested-worker-loops': () => {
    startBelow('for (;;);');
    return never();
  },
  'stdout-lines': () => {
    for (let i = 0; i < 2_000; i++) process.stdout.write(`${'line '.repeat(100)}${i}\n`);
    return 'survived';
  },
  'stdout-flood': () => {
    const line = 'x'.repeat(64 * 1024);
    const more = (): void => {
      for (let i = 0; i < 16; i++) process.stdout.write(line);
      setImmediate(more);
    };
    more();
    return never();
  },
  'stdout-flood-sync': () => {
    const line = 'x'.repeat(64 * 1024);
    for (;;) process.stdout.write(line);
  },
  // Each of them waits to be told that its piece is done with. Nothing may be kept for that.
  'stdout-flood-lines': () => {
    process.stdout.write('x'.repeat(256 * 1024));
    const before = process.memoryUsage().heapUsed;
    for (let i = 1; i % 10_000 > 0 || process.memoryUsage().heapUsed < before + 48 * MIB; i++) {
      process.stdout.write('line\n', () => {});
      if (i % 10 === 0) console.log('line');
      if (i % 10 === 0) console.error('line');
    }
    return 'kept';
  },
};
