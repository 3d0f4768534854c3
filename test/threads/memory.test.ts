/**
 * Children that take all memory, each way in a thread beside others, in one program of their own:
 * unguarded most of these abort a process, at once and without an event. Three ways stand for all
 * of them, which take minutes: `npm run test:memory`, or `SHAPES=set,wasm` for some.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { runProgram } from './real.ts';
import type { Ended } from './real.ts';

const all = [
  'numbers',
  'map',
  'set',
  'dictionary',
  'new_array',
  'json',
  'match',
  'objects',
  'buffers',
  'array_buffers',
  'strings',
  'shared_buffers',
  'wasm',
  'buffers_in_turns',
];
/** In the heap, piece by piece; in one piece that doubles; and outside of the heap. */
const few = ['numbers', 'map', 'buffers'];
const { SHAPES = few.join() } = process.env;
const shapes = SHAPES === 'all' ? all : SHAPES.split(',');

interface Told {
  readonly shape: string;
  readonly hog: { readonly stopReason: string; readonly diagnostic: string };
  readonly others: readonly { readonly stopReason: string; readonly text: string }[];
  readonly warned: readonly string[];
  readonly figures: { readonly peakMib: number };
}
let ended: Ended;
let told: ReadonlyMap<string, Told> = new Map();

describe('a child that exhausts memory', () => {
  beforeAll(async () => {
    ended = await runProgram('hoarding.mjs', { args: [shapes.join()], timeoutMs: 600_000 });
    const lines = ended.stdout.split('\n').filter((line) => line !== '');
    told = new Map(lines.map((line) => JSON.parse(line) as Told).map((one) => [one.shape, one]));
    if (process.env['SHOW'] !== undefined) console.log(ended.stdout);
  }, 600_000);

  it('leaves its process as it was, to the end', () => {
    expect(ended).toMatchObject({ code: 0, signal: null, stderr: '' });
  });

  it.each(shapes)('%s fails alone, and those beside it have their results', (shape) => {
    const { hog, others, warned, figures } = told.get(shape)!;
    expect(hog.stopReason).toBe('error');
    expect(hog.diagnostic).toMatch(/^WORKER_OUT_OF_MEMORY: .*256 MiB/);
    expect(others).toMatchObject([
      { stopReason: 'completed', text: 'churned' },
      { stopReason: 'completed', text: 'kept' },
    ]);
    expect(warned.filter((word) => word !== 'memory')).toEqual([]);
    // The engine would have ended it at 1,792 MiB, or the process.
    expect(figures.peakMib).toBeLessThan(1_700);
  });
});
