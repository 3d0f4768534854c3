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

export interface PrintingOptions {
  readonly streams: readonly Writable[];
  readonly printed: PrintedCell;
  /** Tells whoever waits that a piece is done with. In a later turn of the loop: it may be for ever. */
  defer(run: () => void): void;
}

export function cutPrinting({ streams, printed, defer }: PrintingOptions): void {
  let room = KEPT_PRINT_BYTES;
  for (const stream of streams) {
    const write = stream.write.bind(stream) as (
      piece: Piece,
      encoding: BufferEncoding,
      done?: Done,
    ) => boolean;
    const take = (piece: Piece, given?: BufferEncoding | Done, last?: Done): boolean => {
      const encoding = typeof given === 'string' ? given : 'utf8';
      const done = typeof given === 'function' ? given : last;
      // What is no text and no bytes is for the stream to refuse.
      if (typeof piece !== 'string' && !ArrayBuffer.isView(piece)) {
        return write(piece, encoding, done);
      }
      const bytes =
        typeof piece === 'string' ? Buffer.byteLength(piece, encoding) : piece.byteLength;
      const sent = Math.min(bytes, room);
      if (sent < bytes) printed.drop(bytes - sent);
      if (sent === 0) {
        if (done !== undefined) defer(() => done());
        return true;
      }
      room -= sent;
      return write(sent < bytes ? firstOf(piece, encoding, sent) : piece, encoding, done);
    };
    stream.write = take as Writable['write'];
    joinPieces(stream);
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
