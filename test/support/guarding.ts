/** Threads whose memory is guarded, with the numbers of a process that the test makes up. */
import type { HarnessError } from '../../protocol/errors.ts';
import { MemoryGuard } from '../../src/worker-host/memory-guard.ts';
import type { Guarded, GuardedThread } from '../../src/worker-host/memory-guard.ts';
import { FakeReadings } from './fake-readings.ts';
import { ManualClock } from './manual-clock.ts';

const MIB = 1024 * 1024;

export class Thread implements GuardedThread {
  readonly tid: number;
  readonly memoryMb: number | 'unlimited';
  readonly asked: string[] = [];
  busy = 0;
  measureMib: number | undefined;
  killed: HarnessError | undefined;
  guarded!: Guarded;

  constructor(tid: number, memoryMb: number | 'unlimited') {
    this.tid = tid;
    this.memoryMb = memoryMb;
  }

  busyMs(): number {
    return this.busy;
  }

  measure(): void {
    this.asked.push('measure');
  }

  takeMeasure(): number | undefined {
    const told = this.measureMib;
    this.measureMib = undefined;
    return told === undefined ? undefined : told * MIB;
  }

  warn(bytes: number, limitBytes: number): void {
    this.asked.push(`warn ${Math.round(bytes / MIB)} of ${limitBytes / MIB}`);
  }

  kill(reason: HarnessError): void {
    this.killed ??= reason;
    this.asked.push(`kill ${reason.code}`);
    this.guarded.ending();
  }

  get mib(): number {
    return Math.round(this.guarded.bytes / MIB);
  }
}

export function guarding() {
  const clock = new ManualClock();
  const readings = new FakeReadings();
  const guard = new MemoryGuard({ clock, readings });
  let tids = 10;
  return {
    clock,
    readings,
    guard,
    thread(memoryMb: number | 'unlimited' = 256, isWorking = true): Thread {
      const thread = new Thread(++tids, memoryMb);
      thread.guarded = guard.watch(thread);
      thread.guarded.working(isWorking);
      return thread;
    },
    /** Time for one look. */
    look: () => clock.advance(25),
    /** Time for the looks that end a thread with too much. */
    judge: () => clock.advance(100),
  };
}
