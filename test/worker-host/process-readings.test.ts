import { readlinkSync } from 'node:fs';
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

it('tells the memory of the process', () => {
  expect(processReadings.rssBytes()).toBeGreaterThan(16 * 1024 * 1024);
});

it('knows nothing of a thread that is not there', () => {
  expect(processReadings.thread(2 ** 31 - 1)).toBeUndefined();
});
