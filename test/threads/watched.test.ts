/** Threads whose loop does not turn, and those that cannot be ended, in a real harness. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, openSync, closeSync, rmSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { StuckThread } from '../../dist/src/index.js';
import { realHarness, task, textOfResult } from './real.ts';
import { until } from '../support/until.ts';

describe('a thread whose loop does not turn', () => {
  it.each([
    ['spin', 'busy'],
    ['sleep', 'blocked'],
  ])('by %s is known to be %s, and its turn ends at unresponsiveMs', async (tool, kind) => {
    await using real = await realHarness({
      limits: { unresponsiveMs: 800, interruptGraceMs: 100 },
    });
    const warned: string[] = [];
    real.harness.on('thread/warning', (warning) => warned.push(warning.kind));
    const [failed, sibling] = await Promise.all([
      real.delegate(task(tool)),
      real.delegate(task('echo', { text: 'still here' })),
    ]);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^LIMIT_EXCEEDED: .*unresponsiveMs is 800 ms/);
    expect(warned).toEqual([kind]);
    expect(textOfResult(sibling)).toBe('echo still here');
  });
});

describe('a thread that cannot be ended', () => {
  it('is told, counted and left alone; and told again when it ends after all', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stuck-'));
    const path = join(folder, 'pipe');
    execFileSync('mkfifo', [path]);
    const told: StuckThread[] = [];
    const real = await realHarness({
      limits: { stopGraceMs: 100, unresponsiveMs: 4_000 },
      onStuck(thread) {
        told.push(thread);
        throw new Error('A failure of its own.');
      },
    });
    const { harness } = real;
    const freed: StuckThread[] = [];
    harness.on('thread/unstuck', (thread) => freed.push(thread));
    const run = await real.start(task('read_pipe', { path }));
    await until(() => harness.health().agents.some(({ activity }) => activity === 'blocked'));
    await real[Symbol.asyncDispose]();
    expect(told).toMatchObject([{ agent: run.id, reason: { code: 'WORKER_UNRESPONSIVE' } }]);
    expect(harness.health().threads).toMatchObject({ live: 0, stuck: 1 });
    // Whoever writes to the pipe lets the read return.
    closeSync(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
    await until(() => freed.length > 0);
    expect(freed).toEqual(told);
    expect(harness.health().threads.stuck).toBe(0);
    rmSync(folder, { recursive: true });
  });
});
