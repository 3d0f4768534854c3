import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { KEPT_PRINT_BYTES, PrintedCell } from '../../protocol/printed.ts';
import { cutPrinting } from '../../workers/printing.ts';

function cutStream({ hold = false } = {}) {
  const kept: Buffer[] = [];
  const held: (() => void)[] = [];
  const deferred: (() => void)[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      kept.push(chunk);
      if (hold) held.push(done);
      else done();
    },
  });
  const printed = new PrintedCell();
  cutPrinting({ streams: [stream], printed, defer: (run) => void deferred.push(run) });
  const turn = () => {
    for (const run of deferred.splice(0)) run();
  };
  /** The stream is done with all it is sent. */
  const fill = () => new Promise((resolve) => stream.write('x'.repeat(KEPT_PRINT_BYTES), resolve));
  return { stream, printed, kept, held, deferred, turn, fill };
}

describe('those who are told that a piece was printed', () => {
  it('are told of each that is dropped, in order, once, and not before the loop turns', async () => {
    const { stream, turn, fill } = cutStream();
    await fill();
    const told: string[] = [];
    const again = () => told.push('again');
    stream.write('1', () => told.push('first'));
    for (let i = 0; i < 3; i++) stream.write('2', again);
    stream.write('3', 'utf8', () => told.push('last'));
    expect(told).toEqual([]);
    turn();
    expect(told).toEqual(['first', 'again', 'again', 'again', 'last']);
    turn();
    expect(told).toHaveLength(5);
  });

  it('are told of what is dropped after what was sent before it', async () => {
    const { stream, held, turn } = cutStream({ hold: true });
    const told: string[] = [];
    stream.write('x'.repeat(KEPT_PRINT_BYTES), () => told.push('sent'));
    stream.write('y', () => told.push('dropped'));
    turn();
    expect(told).toEqual([]);
    held[0]!();
    await new Promise(setImmediate);
    expect(told).toEqual(['sent']);
    turn();
    expect(told).toEqual(['sent', 'dropped']);
  });

  it('are told although the stream refused a piece before', async () => {
    const { stream, turn, fill } = cutStream();
    expect(() => stream.write('x', 'no encoding' as BufferEncoding)).toThrow(/encoding/);
    await fill();
    let times = 0;
    stream.write('y', () => void (times += 1));
    turn();
    expect(times).toBe(1);
  });

  it('wait as one while the loop does not turn, when they are the same', async () => {
    const { stream, printed, deferred, turn, fill } = cutStream();
    await fill();
    let times = 0;
    const done = () => void (times += 1);
    for (let i = 0; i < 100_000; i++) stream.write('line', done);
    expect(printed.dropped).toBe(400_000);
    expect(times).toBe(0);
    expect(deferred).toHaveLength(1);
    turn();
    expect(times).toBe(100_000);
  });

  it('are told at once, from the oldest on, when a thousand others wait', async () => {
    const { stream, deferred, turn, fill } = cutStream();
    await fill();
    const told: number[] = [];
    for (let i = 0; i < 3_000; i++) stream.write('line', () => told.push(i));
    expect(told).toEqual(Array.from({ length: 2_000 }, (_, i) => i));
    expect(deferred).toHaveLength(1);
    turn();
    expect(told).toEqual(Array.from({ length: 3_000 }, (_, i) => i));
  });

  it('print on when they are told, in a turn of their own', async () => {
    const { stream, turn, fill } = cutStream();
    await fill();
    let times = 0;
    const more = () => {
      times += 1;
      stream.write('more', more);
    };
    more();
    turn();
    turn();
    expect(times).toBe(3);
  });

  it('do not throw at whoever prints meanwhile, but where nobody catches', async () => {
    const { stream, turn, fill } = cutStream();
    await fill();
    const fails = (i: number) => () => {
      if (i < 2) throw new Error(`No ${i}.`);
    };
    for (let i = 0; i < 2_000; i++) stream.write('line', fails(i));
    expect(turn).toThrow('No 0.');
  });
});

describe('a stream that was ended', () => {
  it('keeps of its last piece what there is room for', async () => {
    const { stream, kept, printed } = cutStream();
    await new Promise<void>((resolve) => stream.end('x'.repeat(KEPT_PRINT_BYTES + 5), resolve));
    expect(Buffer.concat(kept)).toHaveLength(KEPT_PRINT_BYTES);
    expect(printed.dropped).toBe(5);
  });

  it('refuses what comes after, and keeps nothing of it', async () => {
    const { stream, deferred, turn, printed } = cutStream();
    const errors: unknown[] = [];
    stream.on('error', (error) => errors.push(error));
    stream.end();
    const told: unknown[] = [];
    const done = (error: unknown) => told.push(error);
    for (let i = 0; i < 1_000; i++) stream.write('late', done);
    expect(deferred).toHaveLength(0);
    await new Promise(setImmediate);
    turn();
    expect(told).toHaveLength(1_000);
    // One error for all of them, and it is Node's.
    expect([...new Set(told)]).toEqual([
      expect.objectContaining({ code: 'ERR_STREAM_WRITE_AFTER_END' }),
    ]);
    expect(errors).toHaveLength(1);
    expect(printed.dropped).toBe(0);
  });
});
