/** What is decided of threads, with the numbers of a process that the test makes up. */
import { describe, expect, it } from 'vitest';
import { endLimitMb, hardLimitMb, MemoryGuard } from '../../src/worker-host/memory-guard.ts';
import { FakeReadings } from '../support/fake-readings.ts';
import { guarding, Thread } from '../support/guarding.ts';

const MIB = 1024 * 1024;

describe('the guard of memory', () => {
  it('ends a thread that has more than it may have, and tells so', async () => {
    const { readings, thread, judge } = guarding();
    const hog = thread(256);
    readings.grows(hog.tid, 460);
    await judge();
    expect(hog.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
    expect(hog.killed?.message).toContain('its limit is 256 MiB, and it had about 460 MiB');
  });

  it('ends it once', async () => {
    const { readings, thread, judge } = guarding();
    const hog = thread(256);
    readings.grows(hog.tid, 500);
    await judge();
    readings.grows(hog.tid, 500);
    await judge();
    expect(hog.asked.filter((word) => word.startsWith('kill'))).toHaveLength(1);
  });

  it('lets a thread have as much again as the engine has not collected', async () => {
    const { readings, thread, look } = guarding();
    const working = thread(256);
    readings.grows(working.tid, endLimitMb(256) - 1);
    await look();
    expect(working.killed).toBeUndefined();
  });

  it.each([32, 256, 1_024, 4_096])('ends a thread of %i MiB long before the engine would', (mb) => {
    expect(endLimitMb(mb)).toBeGreaterThan(mb + 64);
    expect(hardLimitMb(mb) - endLimitMb(mb)).toBeGreaterThan(900);
  });

  it('ends the one that grew, and none that works beside it', async () => {
    const { readings, thread, look } = guarding();
    const [hog, beside] = [thread(256), thread(256)];
    for (let i = 0; i < 50; i++) {
      readings.grows(hog.tid, 10);
      readings.works(beside.tid, 20, 100);
      await look();
    }
    expect(hog.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
    expect(beside.killed).toBeUndefined();
    expect(beside.mib).toBeLessThan(25);
  });

  it.each(['main', 'somebody'] as const)('blames no thread for what %s takes', async (who) => {
    const { readings, thread, look } = guarding();
    const working = thread(256);
    readings.works(working.tid, 20, 100);
    readings.grows(who, 5_000);
    await look();
    expect(working.mib).toBeLessThan(5);
  });

  it('believes a thread that says what it has', async () => {
    const { readings, thread, look, judge } = guarding();
    const [said, silent] = [thread(256), thread(256)];
    readings.grows(said.tid, 300);
    await look();
    expect(said.asked).toContain('measure');
    said.measureMib = 50;
    await look();
    expect([said.mib, silent.mib]).toEqual([50, 0]);
    // What it is trusted with counts from there.
    readings.grows(said.tid, 410);
    await judge();
    expect(said.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
  });

  it('ends a thread that itself says that it has too much', async () => {
    const { thread, judge } = guarding();
    const honest = thread(64);
    honest.measureMib = 400;
    await judge();
    expect(honest.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
  });

  it('asks again only after some time', async () => {
    const { readings, thread, clock } = guarding();
    const large = thread(256);
    readings.grows(large.tid, 180);
    await clock.advance(200);
    expect(large.asked.filter((word) => word === 'measure')).toHaveLength(1);
    await clock.advance(200);
    expect(large.asked.filter((word) => word === 'measure')).toHaveLength(2);
  });

  it('warns once at three quarters, and again after it had less than half', async () => {
    const { readings, thread, look } = guarding();
    const large = thread(200);
    const warnings = (): string[] => large.asked.filter((word) => word.startsWith('warn'));
    readings.grows(large.tid, 149);
    await look();
    expect(warnings()).toEqual([]);
    readings.grows(large.tid, 11);
    await look();
    await look();
    expect(warnings()).toEqual(['warn 160 of 200']);
    readings.grows(large.tid, -100);
    await look();
    readings.grows(large.tid, 95);
    await look();
    expect(warnings()).toEqual(['warn 160 of 200', 'warn 155 of 200']);
  });

  it('ends no thread without a limit for what it has', async () => {
    const { readings, thread, look } = guarding();
    const free = thread('unlimited');
    readings.grows(free.tid, 8_000);
    await look();
    expect(free.asked).toEqual([]);
  });

  it('ends the thread with the most when the process has too much, one at a time', async () => {
    const { readings, thread, look, clock } = guarding();
    readings.memory = 2_000 * MIB;
    const threads = [thread(4_096), thread(4_096), thread(4_096)];
    const [small, most, large] = threads as [Thread, Thread, Thread];
    readings.grows(small.tid, 100);
    readings.grows(most.tid, 900);
    readings.grows(large.tid, 700);
    await look();
    expect(most.killed?.message).toMatch(/the process has 1800 MiB of the 1700 MiB/);
    await look();
    expect([small.killed, large.killed]).toEqual([undefined, undefined]);
    // It takes its time, and does not give anything back.
    await clock.advance(3_000);
    expect(large.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
    expect(small.killed).toBeUndefined();
  });

  it('ends nobody for what main has', async () => {
    const { readings, thread, clock } = guarding();
    readings.memory = 2_000 * MIB;
    const small = thread(256);
    readings.grows(small.tid, 40);
    readings.grows('main', 1_900);
    await clock.advance(10_000);
    expect(small.killed).toBeUndefined();
  });

  it('goes on where nothing can be read for a while', async () => {
    const { readings, thread, look, judge } = guarding();
    const hog = thread(256);
    readings.isBlind = true;
    readings.grows(hog.tid, 500);
    await look();
    expect(hog.asked).toEqual([]);
    readings.isBlind = false;
    await judge();
    expect(hog.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
  });

  it('goes by the busy time of loops where the system tells nothing of threads', async () => {
    const { readings, thread, judge } = guarding();
    readings.hasProc = false;
    const [hog, beside] = [thread(256), thread(256)];
    readings.rss += 600 * MIB;
    hog.busy += 24;
    beside.busy += 1;
    await judge();
    expect(hog.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
    expect(beside.mib).toBe(24);
  });

  it('finds a thread that grows though its agent is idle', async () => {
    const { readings, thread, clock } = guarding();
    thread(256);
    const idle = thread(256, false);
    readings.grows(idle.tid, 300);
    await clock.advance(25);
    readings.grows(idle.tid, 300);
    await clock.advance(1_000);
    expect(idle.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
  });

  it('reads of single threads seldom while the process does not grow', async () => {
    const { readings, thread, clock } = guarding();
    for (let i = 0; i < 100; i++) thread();
    const before = readings.reads;
    await clock.advance(1_000);
    // The process at every look; all threads, and what there is in sum, four times.
    expect(readings.reads - before).toBe(40 + 4 * (100 + 1));
  });

  it('looks seldom while all are idle, and not at all without a thread', async () => {
    const { readings, thread, clock } = guarding();
    const idle = thread(256, false);
    await clock.advance(250);
    const before = readings.reads;
    await clock.advance(1_000);
    expect(readings.reads - before).toBe(4);
    idle.guarded.gone();
    expect(clock.pending).toBe(0);
  });

  it('looks often from the moment in which an agent works', async () => {
    const { readings, thread, clock } = guarding();
    const one = thread(256, false);
    await clock.advance(100);
    one.guarded.working(true);
    const before = readings.reads;
    await clock.advance(100);
    expect(readings.reads - before).toBe(4);
  });

  it('does not wait for a thread that cannot be ended', () => {
    const { thread, clock } = guarding();
    thread().guarded.ending();
    expect(clock.pending).toBe(0);
  });
});

it('knows how late it was at most', () => {
  let now = 0;
  let run = (): void => {};
  const after = (_: number, next: () => void) => {
    run = next;
    return { cancel() {} };
  };
  const clock = { now: () => now, after };
  const guard = new MemoryGuard({ clock, readings: new FakeReadings() });
  const thread = new Thread(1, 256);
  guard.watch(thread).working(true);
  const lates = [0, 40, 7].map((lateMs) => {
    now += 25 + lateMs;
    run();
    return guard.mostLateMs;
  });
  expect(lates).toEqual([0, 40, 40]);
});
