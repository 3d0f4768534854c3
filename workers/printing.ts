/**
 * What this thread prints, cut where main would drop it. A message of it costs main time for each
 * piece, and whoever prints faster than main takes it would keep it all meanwhile: so from there
 * on it is counted here, and sent nowhere.
 */
import type { Writable } from 'node:stream';
import { KEPT_PRINT_BYTES } from '../protocol/printed.ts';
import type { PrintedCell } from '../protocol/printed.ts';

type Piece = Uint8Array | string;
type Done = (error?: Error | null) => void;
type Write = (piece: Piece, encoding: BufferEncoding, done?: Done) => boolean;

export interface PrintingOptions {
  readonly streams: readonly Writable[];
  readonly printed: PrintedCell;
  /** Runs it in a later turn of the loop: it may be never. */
  defer(run: () => void): void;
}

export function cutPrinting({ streams, printed, defer }: PrintingOptions): void {
  let room = KEPT_PRINT_BYTES;
  for (const stream of streams) {
    const write = stream.write.bind(stream) as Write;
    const end = stream.end.bind(stream);
    const waiting = new Waiting(defer);
    let hasRefused = false;
    const take = (piece: Piece, given?: BufferEncoding | Done, last?: Done): boolean => {
      const encoding = typeof given === 'string' ? given : 'utf8';
      const done = typeof given === 'function' ? given : last;
      // What is no text and no bytes is for the stream to refuse.
      if (typeof piece !== 'string' && !ArrayBuffer.isView(piece)) {
        return write(piece, encoding, done);
      }
      if (stream.writableEnded || stream.destroyed) {
        // The first is for the stream to refuse; it keeps an error of each.
        if (!hasRefused) {
          hasRefused = true;
          return waiting.send(done, (told) => write(piece, encoding, told));
        }
        waiting.dropped(done);
        return false;
      }
      const bytes =
        typeof piece === 'string' ? Buffer.byteLength(piece, encoding) : piece.byteLength;
      const sent = Math.min(bytes, room);
      if (sent < bytes) printed.drop(bytes - sent);
      if (sent === 0) {
        waiting.dropped(done);
        return true;
      }
      room -= sent;
      const kept = sent < bytes ? firstOf(piece, encoding, sent) : piece;
      return waiting.send(done, (told) => write(kept, encoding, told));
    };
    stream.write = take as Writable['write'];
    // Its last piece would go past `write`.
    const takeLast = (piece?: unknown, given?: BufferEncoding | Done, last?: Done): Writable => {
      if (typeof piece === 'function') return end(piece as Done);
      if (piece !== undefined && piece !== null) {
        stream.write(piece, typeof given === 'string' ? given : 'utf8');
      }
      return end(typeof given === 'function' ? given : last);
    };
    stream.end = takeLast as Writable['end'];
    joinPieces(stream);
  }
}

/** More than that of them wait in one stretch in which the loop does not turn only by mistake. */
const MOST_WAITING = 1_000;

/** One who is told so many times. */
interface Told {
  readonly done: Done;
  times: number;
}

/**
 * Who is to be told that a piece is done with: in the order of the pieces, each once, in a later
 * turn of the loop. That may never come, so little is kept of them: one who is told of many
 * pieces in a row, as those of a console are, is kept once, and of too many others the oldest is
 * told at once. A stream of Node keeps them all.
 */
class Waiting {
  readonly #defer: (run: () => void) => void;
  #told: Told[] = [];
  /** Of the last that the stream was done with: it refuses all that come later. */
  #error: Error | null = null;
  /** Pieces that the stream itself is not done with. */
  #sent = 0;
  #isDue = false;
  #hasThrown = false;
  #last: { readonly done: Done | undefined; readonly told: Done } | undefined;

  constructor(defer: (run: () => void) => void) {
    this.#defer = defer;
  }

  /** `write` gives a piece to the stream, which goes before those that are dropped. */
  send(done: Done | undefined, write: (told: Done) => boolean): boolean {
    if (this.#last === undefined || this.#last.done !== done) {
      const told: Done = (error) => {
        this.#sent -= 1;
        this.#error = error ?? null;
        this.#tellSoon();
        done?.(error);
      };
      this.#last = { done, told };
    }
    this.#sent += 1;
    try {
      return write(this.#last.told);
    } catch (error) {
      // Not taken: nobody is told of it.
      this.#sent -= 1;
      throw error;
    }
  }

  dropped(done: Done | undefined): void {
    if (done === undefined) return;
    const last = this.#told.at(-1);
    if (last?.done === done) last.times += 1;
    else this.#told.push({ done, times: 1 });
    this.#tellSoon();
    if (this.#told.length > MOST_WAITING) this.#tellOldest();
  }

  #tellSoon(): void {
    if (this.#isDue || this.#sent > 0 || this.#told.length === 0) return;
    this.#isDue = true;
    this.#defer(() => {
      this.#isDue = false;
      // Something was sent meanwhile: its end comes back here.
      if (this.#sent > 0) return;
      const told = this.#told;
      this.#told = [];
      for (const { done, times } of told) {
        for (let left = times; left > 0; left--) done(this.#error);
      }
    });
  }

  #tellOldest(): void {
    const { done, times } = this.#told.shift()!;
    try {
      for (let left = times; left > 0; left--) done(this.#error);
    } catch (thrown) {
      // Not at whoever prints now. One ends the thread.
      if (this.#hasThrown) return;
      this.#hasThrown = true;
      this.#defer(() => {
        throw thrown;
      });
    }
  }
}

// Node's name for what an author of streams overrides.
/* oxlint-disable no-underscore-dangle */
/** What waits goes as one piece, however many it was written in. */
function joinPieces(stream: Writable): void {
  const writev = stream._writev?.bind(stream);
  if (writev === undefined) return;
  stream._writev = (pieces: { chunk: Piece; encoding: BufferEncoding }[], done) => {
    const bytes = pieces.map(({ chunk, encoding }) =>
      typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk,
    );
    const joined = { chunk: Buffer.concat(bytes), encoding: 'buffer' as BufferEncoding };
    writev(pieces.length === 1 ? pieces : [joined], done);
  };
}
/* oxlint-enable no-underscore-dangle */

function firstOf(piece: Piece, encoding: BufferEncoding, bytes: number): Uint8Array {
  if (typeof piece !== 'string')
    return new Uint8Array(piece.buffer, piece.byteOffset, bytes).slice();
  // In any encoding two units have a byte or more.
  return Buffer.from(piece.slice(0, 2 * bytes), encoding).subarray(0, bytes);
}
