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
  return joinLogs([bodies]).logs[0] as PackedLog;
}

/** Many logs in the same two pieces: handing over a piece costs more than what a small log holds. */
export function joinLogs(all: readonly (readonly Uint8Array[])[]): {
  readonly logs: readonly PackedLog[];
  readonly pieces: readonly ArrayBuffer[];
} {
  let size = 0;
  let count = 0;
  for (const bodies of all) {
    count += bodies.length;
    for (const body of bodies) size += body.length;
  }
  const bytes = new Uint8Array(size);
  const ends = new Float64Array(count);
  let next = 0;
  let place = 0;
  const logs = all.map((bodies): PackedLog => {
    const [first, start] = [next, place];
    for (const body of bodies) {
      bytes.set(body, place);
      place += body.length;
      ends[next++] = place - start;
    }
    return { bytes: bytes.subarray(start, place), ends: ends.subarray(first, next) };
  });
  return { logs, pieces: [bytes.buffer, ends.buffer] };
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
