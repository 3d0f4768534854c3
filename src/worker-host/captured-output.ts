import type { Readable } from 'node:stream';
import { KEPT_PRINT_BYTES, PrintedCell } from '../../protocol/printed.ts';

/** Bytes that come although the thread is to send no more than is kept. */
const FLOOD_BYTES = 16 * 1024 * 1024;

/**
 * What a thread wrote to stdout and stderr: the first bytes up to a cap. The rest stays in the
 * thread, or, if it comes, is read, so that it piles up nowhere; either way it is counted and
 * dropped. Never piped to main's own output.
 */
export class CapturedOutput {
  /** Where the thread counts what it does not send. */
  readonly cell = new PrintedCell();
  readonly #flooded: () => void;
  readonly #chunks: Buffer[] = [];
  readonly #streams: Readable[] = [];
  #kept = 0;
  #dropped = 0;

  /** @param flooded so much came that the thread must have evaded its cut */
  constructor(flooded: () => void) {
    this.#flooded = flooded;
  }

  attach(stream: Readable): void {
    stream.on('data', (chunk: Buffer | string) => {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      const room = Math.min(KEPT_PRINT_BYTES - this.#kept, bytes.length);
      if (room > 0) this.#chunks.push(Buffer.from(bytes.subarray(0, room)));
      this.#kept += room;
      this.#dropped += bytes.length - room;
      if (this.#dropped > FLOOD_BYTES) this.#flooded();
    });
    // A stream of a thread that died may report it; the thread's end is told elsewhere.
    stream.on('error', () => {});
    this.#streams.push(stream);
  }

  /**
   * Stop keeping the process alive, and go on reading. Node holds on to the port that a thread's
   * output comes by from the first read to the streams' ends, whatever `worker.unref()` says,
   * so the streams are told that they ended.
   */
  unref(): void {
    for (const stream of this.#streams.splice(0)) stream.emit('end');
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }

  get droppedBytes(): number {
    return this.#dropped + this.cell.dropped;
  }
}
