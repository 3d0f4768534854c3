import { describe, expect, it } from 'vitest';
import { OpenTurn } from '../../src/worker-host/open-turn.ts';
import { Watchdog } from '../../src/worker-host/watchdog.ts';
import type { WatchedThread } from '../../src/worker-host/watchdog.ts';
import { ManualClock } from '../support/manual-clock.ts';

/** A thread whose loop turns when the test says so. */
class Thread implements WatchedThread {
  openTurn: OpenTurn | undefined = new OpenTurn(1);
  turnsLoop = true;
  asked = 0;
  cpu = 0;
  readonly told: string[] = [];
  readonly pulse = {
    answers: 0,
    ask: (): void => {
      this.asked++;
      if (this.turnsLoop) this.pulse.answers++;
    },
  };

  cpuMs(): number {
    return this.cpu;
  }

  warn(kind: string, silentMs: number, limitMs: number): void {
    this.told.push(`${kind} for ${silentMs} of ${limitMs}`);
  }

  exceeded(turn: OpenTurn, words: string): void {
    turn.cancel({ kind: 'limit', limit: 'unresponsiveMs' });
    this.told.push(words);
  }
}

function watching(limitMs: number | 'unlimited' = 800) {
  const clock = new ManualClock();
  const thread = new Thread();
  const watch = new Watchdog(clock, limitMs).watch(thread);
  return { clock, thread, watch };
}

describe('the watchdog', () => {
  it('says nothing of a loop that turns, however long its turn is', async () => {
    const { clock, thread, watch } = watching();
    await clock.advance(100_000);
    expect([thread.told, watch.unresponsive, watch.silentMs]).toEqual([[], undefined, 0]);
    expect(thread.asked).toBeGreaterThan(100);
  });

  it('warns once of a loop that sleeps in a call, then has its turn told to stop, once', async () => {
    const { clock, thread, watch } = watching();
    thread.turnsLoop = false;
    await clock.advance(400);
    expect(thread.told).toEqual(['blocked for 200 of 800']);
    expect([watch.unresponsive, watch.silentMs]).toEqual(['blocked', 300]);
    await clock.advance(10_000);
    expect(thread.told.slice(1)).toEqual([
      'The thread was blocked and did not turn its loop: unresponsiveMs is 800 ms.',
    ]);
  });

  it('tells a loop that uses the processor from one that sleeps', async () => {
    const { clock, thread, watch } = watching();
    thread.turnsLoop = false;
    for (let i = 0; i < 5; i++) {
      thread.cpu += 90;
      await clock.advance(100);
    }
    expect(watch.unresponsive).toBe('busy');
    expect(thread.told).toEqual(['busy for 200 of 800']);
  });

  it('asks nothing more while it waits for an answer', async () => {
    const { clock, thread } = watching();
    thread.turnsLoop = false;
    await clock.advance(10_000);
    expect(thread.asked).toBe(1);
  });

  it('forgets a silence that is over', async () => {
    const { clock, thread, watch } = watching();
    thread.turnsLoop = false;
    await clock.advance(700);
    thread.pulse.answers++;
    thread.turnsLoop = true;
    await clock.advance(10_000);
    expect(watch.unresponsive).toBeUndefined();
    expect(thread.told).toEqual(['blocked for 200 of 800']);
  });

  it('leaves a thread without a turn alone', async () => {
    const { clock, thread } = watching();
    thread.openTurn = undefined;
    thread.turnsLoop = false;
    await clock.advance(100_000);
    expect([thread.asked, thread.told]).toEqual([0, []]);
  });

  it('counts for each turn from its own beginning', async () => {
    const { clock, thread, watch } = watching();
    thread.turnsLoop = false;
    await clock.advance(600);
    thread.openTurn = new OpenTurn(2);
    await clock.advance(200);
    expect(watch.silentMs).toBeLessThanOrEqual(200);
  });

  it('ends no turn where there is no limit, and still knows', async () => {
    const { clock, thread, watch } = watching('unlimited');
    thread.turnsLoop = false;
    await clock.advance(1_000_000);
    expect([thread.told, watch.unresponsive]).toEqual([[], 'blocked']);
  });

  it('has no timer without a thread', () => {
    const { clock, watch } = watching();
    watch.end();
    expect(clock.pending).toBe(0);
  });
});
