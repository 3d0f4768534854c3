/**
 * Frames as a hostile thread may make them, against the decoder. A few seconds of it by default;
 * `npm run fuzz` goes on for `FUZZ` frames, or `FUZZ_SECONDS`, and tells what the worst cost.
 * `SEED` plays again. Frames are messages and never arrive in pieces, so none is split.
 */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mostHeapBytes, pack, unpack } from '../../protocol/codec.ts';
import { ProtocolError } from '../../protocol/errors.ts';
import { lookAtPacked } from '../../protocol/packed-json.ts';
import { checkCall, decodeFrame } from '../../protocol/validate.ts';
import { Mutator, rareFrames, recordedFrames } from './mutations.ts';

const FUZZ = Number(process.env['FUZZ'] ?? 30_000);
const SECONDS = Number(process.env['FUZZ_SECONDS'] ?? Infinity);
const SEED = Number(process.env['SEED'] ?? 1);
const IS_TOLD = process.env['FUZZ'] !== undefined || process.env['FUZZ_SECONDS'] !== undefined;
/** So often is looked at what a frame really takes, which costs a collection. */
const WEIGHED = 1_000;

const prototypes = (): string =>
  [Object.prototype, Array.prototype, Function.prototype]
    .map((one) => Reflect.ownKeys(one).map(String).join())
    .join(';');

/** Containers, items, keys and texts, by what they take at least. */
function heapOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  const parts = Object.entries(value);
  const own = Array.isArray(value) ? 16 + 8 * value.length : 24 + 16 * parts.length;
  return parts.reduce((sum, [, part]) => sum + heapOf(part), own);
}

describe('the decoder of frames', () => {
  it('gives back what was packed, for frames of every type', () => {
    for (const packed of rareFrames()) {
      const { frame, bytes } = decodeFrame(packed);
      expect(bytes).toBe(packed.length);
      expect(unpack(pack(frame))).toEqual(frame);
      expect(decodeFrame(pack(frame)).frame).toEqual(frame);
    }
  });

  it('gives back any JSON that an outcome of a tool can hold', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), (value) => {
        const outcome = { ok: true, value, content: [] };
        const argumentList = ['c', outcome].map((one) => ({ type: 'RAW', value: one }));
        const message = { id: 'i', type: 'APPLY', path: ['finishTool'], argumentList };
        const { frame } = decodeFrame(pack({ type: 'call', message }));
        const call = checkCall((frame as { message: unknown }).message);
        const taken = (call.argumentList[1]!.value as { value: unknown }).value;
        expect(JSON.stringify(taken)).toBe(JSON.stringify(unpack(pack(value))));
        expect(Object.getPrototypeOf(call)).toBeNull();
      }),
    );
  });

  it(
    'does nothing but take them or refuse them, whatever is done to frames of a session',
    { timeout: 60_000 + (Number.isFinite(SECONDS) ? SECONDS * 1_000 : FUZZ) },
    async () => {
      const frames = await recordedFrames();
      expect(frames.length).toBeGreaterThan(20);
      const before = prototypes();
      const mutator = new Mutator(frames, SEED);
      const worst = { microseconds: 0, multiple: 0, beyondBound: 0 };
      const seen = { frames: 0, taken: 0 };
      const since = performance.now();
      const isDue = (): boolean =>
        seen.frames < (Number.isFinite(SECONDS) ? Infinity : FUZZ) &&
        performance.now() - since < SECONDS * 1_000;
      while (isDue()) {
        const frame = mutator.next();
        const kept = Uint8Array.from(frame);
        const started = performance.now();
        try {
          const decoded = decodeFrame(frame).frame;
          if (decoded.type === 'call') checkCall(decoded.message);
          seen.taken++;
        } catch (error) {
          if (!(error instanceof ProtocolError)) {
            const bytes = Buffer.from(frame).toString('base64').slice(0, 2_000);
            throw new Error(`SEED=${SEED}, frame ${seen.frames}: ${bytes}`, { cause: error });
          }
        }
        const took = (performance.now() - started) * 1_000;
        worst.microseconds = Math.max(worst.microseconds, took);
        if (seen.frames++ % WEIGHED !== 0) continue;
        // What is built is within the bound that goes by the bytes, and the bytes are as they were.
        const bounds = { depth: 64, nodes: 200_000, heapBytes: mostHeapBytes(frame.length) };
        const { problem, heapBytes } = lookAtPacked(frame, bounds);
        expect(frame).toEqual(kept);
        if (problem !== undefined) continue;
        expect(heapOf(unpack(frame))).toBeLessThanOrEqual(heapBytes);
        worst.multiple = Math.max(worst.multiple, heapBytes / frame.length);
        expect(prototypes()).toBe(before);
      }
      expect(prototypes()).toBe(before);
      // Both happen, or nothing is tried.
      expect(seen.taken).toBeGreaterThan(seen.frames / 1_000);
      expect(seen.taken).toBeLessThan(seen.frames);
      if (!IS_TOLD) return;
      const seconds = (performance.now() - since) / 1_000;
      console.log(
        `SEED=${SEED}: ${seen.frames} frames in ${seconds.toFixed(1)} s, ` +
          `${Math.round(seen.frames / seconds)} frames/s, ${seen.taken} taken; the worst took ` +
          `${Math.round(worst.microseconds)} µs, and ${worst.multiple.toFixed(1)} times its bytes`,
      );
    },
  );

  it.each([
    ['rows', () => Array.from({ length: 9_000 }, (_, id) => ({ id, name: 'x', at: 1.5 }))],
    ['texts', () => Array.from({ length: 100_000 }, () => 'texts')],
    ['numbers', () => Array.from({ length: 110_000 }, () => 1.1)],
    ['small numbers', () => Array.from({ length: 190_000 }, () => 1)],
    ['numbers for keys', () => Array.from({ length: 9_000 }, () => ({ 1000: 1, 2000: 2 }))],
    ['keys', () => Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`k${at}`, 1]))],
    ['lists', () => Array.from({ length: 20_000 }, () => [])],
    ['one text', () => `${'x'.repeat(900_000)}語`],
  ])('makes of %s no more than it says, by the heap', (_, make) => {
    const packed = pack(make());
    const { heapBytes } = lookAtPacked(packed, { depth: 64, nodes: 2e5, heapBytes: Infinity });
    expect(heapBytes).toBeLessThanOrEqual(mostHeapBytes(packed.length));
    const kept: unknown[] = [unpack(packed)];
    globalThis.gc?.();
    const used = process.memoryUsage().heapUsed;
    for (let copy = 0; copy < 8; copy++) kept.push(unpack(packed));
    // Without a collection it is what was made on the way as well.
    globalThis.gc?.();
    const each = (process.memoryUsage().heapUsed - used) / 8;
    expect(kept).toHaveLength(9);
    expect(each).toBeLessThanOrEqual(3 * heapBytes + 1_000_000);
  });
});
