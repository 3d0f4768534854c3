import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { CapturedOutput } from '../../src/worker-host/captured-output.ts';

async function captured(...pieces: readonly (string | Buffer)[]): Promise<CapturedOutput> {
  const output = new CapturedOutput();
  const stream = Readable.from(pieces);
  output.attach(stream);
  await finished(stream);
  return output;
}

describe('what a thread prints', () => {
  it('is kept as text, whatever pieces it comes in', async () => {
    const output = await captured('ab', Buffer.from('cé'), 'ü');
    expect(output.text).toBe('abcéü');
    expect(output.droppedBytes).toBe(0);
  });

  it('is kept up to 256 KiB, and the rest is counted', async () => {
    const output = await captured('x'.repeat(200_000), 'y'.repeat(100_000), 'z');
    expect(Buffer.byteLength(output.text)).toBe(256 * 1024);
    expect(output.droppedBytes).toBe(300_001 - 256 * 1024);
    expect(output.text.endsWith('y')).toBe(true);
  });

  it('is kept of both streams together', async () => {
    const output = new CapturedOutput();
    const streams = [Readable.from(['out']), Readable.from(['err'])];
    for (const stream of streams) output.attach(stream);
    await Promise.all(streams.map((stream) => finished(stream)));
    expect([...output.text].sort().join('')).toBe('eorrtu');
  });

  it('brings nobody down when its stream fails', async () => {
    const output = new CapturedOutput();
    const stream = new Readable({ read() {} });
    output.attach(stream);
    stream.destroy(new Error('The thread is gone.'));
    await new Promise((resolve) => stream.once('close', resolve));
    expect(output.text).toBe('');
  });
});
