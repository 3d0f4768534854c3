/** Whose the memory of a process is, where some take and others give back. */
import { describe, expect, it } from 'vitest';
import { guarding } from '../support/guarding.ts';

const MIB = 1024 * 1024;

describe('the account of memory', () => {
  it('does not end one that frees what it takes, while main takes much at once', async () => {
    const { readings, thread, clock, judge } = guarding();
    const churner = thread(64);
    readings.works(churner.tid, 20, 0);
    for (let i = 0; i < 20; i++) {
      readings.churns(churner.tid, 40);
      await clock.advance(100);
    }
    // Main is deaf meanwhile, and one look has to tell the two apart.
    readings.churns(churner.tid, 400);
    readings.grows('main', 1_500);
    readings.own += 1_500 * MIB;
    await judge();
    expect(churner.mib).toBeLessThan(20);
    expect(churner.killed).toBeUndefined();
  });

  it('does not end one that frees what it takes, while one beside it takes what it may', async () => {
    const { readings, thread, look } = guarding();
    const [churner, large] = [thread(64), thread(2_048)];
    for (let i = 0; i < 80; i++) {
      readings.churns(churner.tid, 10);
      await look();
    }
    for (let i = 0; i < 80; i++) {
      readings.churns(churner.tid, 10);
      readings.grows(large.tid, 12);
      await look();
    }
    expect(churner.killed).toBeUndefined();
    expect(churner.mib).toBeLessThan(100);
    expect(large.mib).toBeGreaterThan(850);
  });

  it('ends one that grows slowly, and frees most of what it takes', async () => {
    const { readings, thread, look } = guarding();
    const leaking = thread(64);
    for (let i = 0; i < 400; i++) {
      readings.churns(leaking.tid, 20);
      readings.grows(leaking.tid, 0.5);
      await look();
    }
    expect(leaking.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
  });

  it('lays at no door what somebody else says that he has', async () => {
    const { readings, thread, look, judge } = guarding();
    const [suspected, honest] = [thread(64), thread(2_048)];
    readings.grows(suspected.tid, 450);
    readings.works(honest.tid, 20, 450 * 256);
    await look();
    expect(suspected.asked).toEqual(['measure', 'warn 225 of 64']);
    expect(honest.asked).toEqual(['measure']);
    honest.measureMib = 440;
    await judge();
    expect(suspected.killed).toBeUndefined();
    expect(suspected.mib).toBe(10);
  });

  it('believes nobody that he has more in use than he was ever given', async () => {
    const { readings, thread, judge } = guarding();
    const [hog, untouched] = [thread(256), thread('unlimited')];
    readings.grows(hog.tid, 500);
    untouched.measureMib = 4_000;
    await judge();
    expect(hog.killed?.code).toBe('WORKER_OUT_OF_MEMORY');
  });

  it('ends a thread whose memory is moved by helpers, and none that works beside it', async () => {
    const { readings, thread, look } = guarding();
    const [hog, beside] = [thread(256), thread(256)];
    for (let i = 0; i < 50; i++) {
      readings.grows(hog.tid, 2);
      readings.helpersMove(10);
      readings.works(beside.tid, 25, 5);
      await look();
    }
    expect(hog.killed?.message).toMatch(/about (4[5-9]|5\d)\d MiB/);
    expect(beside.mib).toBeLessThan(10);
  });

  it('blames no thread for what helpers move for main', async () => {
    const { readings, thread, look } = guarding();
    const working = thread(256);
    for (let i = 0; i < 50; i++) {
      readings.grows('main', 2);
      readings.helpersMove(100);
      readings.works(working.tid, 25, 2);
      await look();
    }
    expect(working.mib).toBeLessThan(40);
    expect(working.killed).toBeUndefined();
  });

  it('gives what is missed back to those who worked, and not to one that sleeps', async () => {
    const { readings, thread, look } = guarding();
    const [sleeper, churner] = [thread(256), thread(256)];
    readings.grows(sleeper.tid, 200);
    await look();
    for (let i = 0; i < 50; i++) {
      readings.grows(churner.tid, 200);
      await look();
      readings.grows(churner.tid, -200);
      await look();
    }
    expect(sleeper.mib).toBe(200);
    expect(churner.killed).toBeUndefined();
    expect(churner.mib).toBe(0);
  });

  it('misses nothing of those that live when the memory of one that is gone comes back', async () => {
    const { readings, thread, look } = guarding();
    const [gone, beside] = [thread(256), thread(256)];
    readings.grows(gone.tid, 150);
    readings.grows(beside.tid, 150);
    await look();
    gone.guarded.gone();
    readings.works(beside.tid, 20);
    readings.rss -= 150 * MIB;
    await look();
    expect(beside.mib).toBe(150);
  });

  it('counts what a thread that is being ended still takes as its own', async () => {
    const { readings, thread, look } = guarding();
    const [hog, beside] = [thread(256), thread(256)];
    readings.grows(hog.tid, 500);
    await look();
    readings.grows(hog.tid, 500);
    readings.works(beside.tid, 20, 10);
    await look();
    expect(hog.mib).toBeGreaterThan(990);
    expect(beside.mib).toBeLessThan(2);
  });
});
