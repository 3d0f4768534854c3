import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { PrintedCell } from '../../protocol/printed.ts';
import { CapturedOutput } from '../../src/worker-host/captured-output.ts';
import { until } from '../support/until.ts';

const never = (): void => expect.unreachable();

async function captured(...pieces: readonly (string | Buffer)[]): Promise<CapturedOutput> {
  const output = new CapturedOutput(never);
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
    const output = new CapturedOutput(never);
    const streams = [Readable.from(['out']), Readable.from(['err'])];
    for (const stream of streams) output.attach(stream);
    await Promise.all(streams.map((stream) => finished(stream)));
    expect([...output.text].sort().join('')).toBe('eorrtu');
  });

  it('is a flood when 16 MiB came that are dropped, and not before', async () => {
    const MIB = 1024 * 1024;
    let floods = 0;
    const output = new CapturedOutput(() => void floods++);
    const stream = new Readable({ read() {} });
    output.attach(stream);
    const kept = 256 * 1024;
    for (let i = 0; i < 16; i++) stream.push(Buffer.alloc(MIB));
    stream.push(Buffer.alloc(kept));
    await until(() => output.droppedBytes === 16 * MIB);
    expect(floods).toBe(0);
    stream.push('x');
    await until(() => floods > 0);
  });

  it('counts what the thread kept to itself', () => {
    const output = new CapturedOutput(never);
    new PrintedCell(output.cell.buffer).drop(5);
    expect(output.droppedBytes).toBe(5);
  });

  it('brings nobody down when its stream fails', async () => {
    const output = new CapturedOutput(never);
    const stream = new Readable({ read() {} });
    output.attach(stream);
    stream.destroy(new Error('The thread is gone.'));
    await new Promise((resolve) => stream.once('close', resolve));
    expect(output.text).toBe('');
  });
});
