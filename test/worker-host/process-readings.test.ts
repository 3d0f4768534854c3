import { mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { processReadings } from '../../src/worker-host/process-readings.ts';

it('tells what a thread of this process has used', () => {
  const tid = Number(readlinkSync('/proc/thread-self').split('/').pop());
  const before = processReadings.thread(tid);
  // Pages that nobody had before: four bytes in each of 4,096.
  const kept = new Uint8Array(4_096 * 4_096).fill(1);
  const after = processReadings.thread(tid);
  expect(kept.length).toBe(4_096 * 4_096);
  expect(before?.cpuMs).toBeGreaterThan(0);
  expect(after!.minorFaults - before!.minorFaults).toBeGreaterThan(1_000);
});

it('counts no thread that reads files as a helper of the engine', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'readings-'));
  const path = join(folder, 'large');
  writeFileSync(path, new Uint8Array(4_096 * 8_000));
  const before = processReadings.helpers()!.minorFaults;
  const all = processReadings.process()!.minorFaults;
  const read = await readFile(path);
  expect(read.length).toBe(4_096 * 8_000);
  const grown = processReadings.process()!.minorFaults - all;
  expect(grown).toBeGreaterThan(4_000);
  expect(processReadings.helpers()!.minorFaults - before).toBeLessThan(grown / 4);
  rmSync(folder, { recursive: true });
});

it('tells the helpers of the engine, which move what survives', () => {
  const before = processReadings.helpers()!.minorFaults;
  const kept: object[] = [];
  // Where there is room already, nothing is new to anybody.
  while (processReadings.helpers()!.minorFaults - before < 50) {
    for (let i = 0; i < 100_000; i++) kept.push({ i });
  }
  expect(kept.length).toBeGreaterThan(0);
});

it('tells the memory of the process', () => {
  expect(processReadings.rssBytes()).toBeGreaterThan(16 * 1024 * 1024);
});

it('knows nothing of a thread that is not there', () => {
  expect(processReadings.thread(2 ** 31 - 1)).toBeUndefined();
});
