/** Bodies that take memory: on the heap in the shapes that V8 ends a process for, and off it. */
import type { Body } from './inside.ts';

const MIB = 1024 * 1024;
const FULL = 16_000_000;
/** Kept from the collector for as long as the thread lives. */
const kept: unknown[] = [];
const keepOn = (make: (n: number) => unknown): never => {
  for (let n = 0; ; n++) kept.push(make(n));
};
const touch = (bytes: Uint8Array): Uint8Array => {
  for (let at = 0; at < bytes.length; at += 4096) bytes[at] = 1;
  return bytes;
};

export const hungryBodies: Readonly<Record<string, Body>> = {
  'oom-objects': () => keepOn((at) => ({ at, text: `number ${at}` })),
  'oom-strings': () => keepOn(() => Buffer.alloc(10_000, 'x').toString('latin1')),
  'oom-numbers': () => {
    const numbers: number[] = [];
    for (let i = 0; ; i++) numbers.push(i);
  },
  // Either is full at 2^24 entries; the shape is its growth, so there is another after it.
  'oom-map': () => {
    for (let map = new Map<number, number>(), i = 0; ; i++) {
      if (i % FULL === 0) kept.push((map = new Map()));
      map.set(i, i);
    }
  },
  'oom-set': () => {
    for (let set = new Set<number>(), i = 0; ; i++) {
      if (i % FULL === 0) kept.push((set = new Set()));
      set.add(i);
    }
  },
  'oom-dictionary': () => {
    const dictionary: Record<string, number> = {};
    for (let i = 0; ; i++) dictionary[`key ${i}`] = i;
  },
  'oom-array': () => {
    const array = Array<number>(1e8);
    for (let i = 0; i < 1e8; i++) array[i] = i;
    keepOn(() => array.slice());
  },
  // One call that no request to end interrupts: it grows on, to the end of the process.
  'array-fill': () => keepOn(() => Array<number>(1e8).fill(0)),
  'oom-json': () => keepOn(() => JSON.parse(`[${'1,'.repeat(20_000_000)}1]`)),
  'oom-match': () => keepOn(() => 'ab'.repeat(2e7).match(/a/g)),
  'off-heap-buffer': () => keepOn(() => Buffer.alloc(MIB, 1)),
  'off-heap-array-buffer': () => keepOn(() => touch(new Uint8Array(new ArrayBuffer(16 * MIB)))),
  'off-heap-shared': () => keepOn(() => touch(new Uint8Array(new SharedArrayBuffer(16 * MIB)))),
  'off-heap-wasm': () => {
    const { WebAssembly: wasm } = globalThis as unknown as {
      WebAssembly: { Memory: new (size: { initial: number }) => { buffer: ArrayBuffer } };
    };
    keepOn(() => touch(new Uint8Array(new wasm.Memory({ initial: 256 }).buffer)));
  },
  'off-heap-strings': () => keepOn(() => Buffer.alloc(4 * MIB, 'x').toString('latin1')),
};
