import type { SessionEvent } from '../../../protocol/session-events.ts';
import { decodeEvent } from '../event-codec.ts';

/** A log, read part by part. */
export interface LogSource {
  readonly length: number;
  /** @throws {StoreError} when one of them cannot be read */
  slice(from: number, to: number): readonly SessionEvent[];
}

/** The events of a log as they are kept, one behind the other: two pieces to hand to a thread. */
export interface PackedLog {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where each of them ends. */
  readonly ends: Float64Array<ArrayBuffer>;
}

export function joinBodies(bodies: readonly Uint8Array[]): PackedLog {
  const ends = new Float64Array(bodies.length);
  let end = 0;
  for (const [index, body] of bodies.entries()) ends[index] = end += body.length;
  const bytes = new Uint8Array(end);
  for (const [index, body] of bodies.entries()) {
    bytes.set(body, (ends[index] as number) - body.length);
  }
  return { bytes, ends };
}

export function packedSource({ bytes, ends }: PackedLog): LogSource {
  const body = (seq: number): Uint8Array => bytes.subarray(ends[seq - 1] ?? 0, ends[seq]);
  return {
    length: ends.length,
    slice(from, to) {
      const events: SessionEvent[] = [];
      for (let seq = from; seq < Math.min(to, ends.length); seq++) {
        events.push(decodeEvent(seq, body(seq)));
      }
      return events;
    },
  };
}
