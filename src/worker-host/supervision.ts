/**
 * What all threads of one harness are watched with: the guard of their memory, the events that
 * tell of them, and the count of those that could not be ended.
 */
import type { ErrorCode } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Clock } from '../base/clock.ts';
import { Emitter } from '../base/emitter.ts';
import type { Logger } from '../base/logger.ts';
import { MachineCapacity } from './machine.ts';
import { MemoryGuard } from './memory-guard.ts';
import type { ProcessReadings } from './process-readings.ts';

/** A thread that did not end within 3 s of being told to, and that nobody can end. */
export interface StuckThread {
  /** Whose it was; absent: it had no agent yet. */
  readonly agent?: SessionId;
  /** Node's number of the thread. */
  readonly thread: number;
  /** Why it was to end. */
  readonly reason: { readonly code: ErrorCode; readonly message: string };
  /** When it was told to, in milliseconds since the epoch. */
  readonly since: number;
}

/** The thread of an agent needs attention; what is done of itself comes later, if nothing changes. */
export type ThreadWarning = { readonly agent?: SessionId } & (
  | {
      /** It has three quarters of its `memoryMb`. */
      readonly kind: 'memory';
      readonly bytes: number;
      readonly limitBytes: number;
    }
  | {
      /**
       * Its loop has not turned for a quarter of `unresponsiveMs` in an open turn: it uses the
       * processor, or it sleeps in a call.
       */
      readonly kind: 'busy' | 'blocked';
      readonly silentMs: number;
      readonly limitMs: number;
    }
);

/** What is told of single threads. Whoever is told can still look at the agent by its id. */
export interface ThreadEvents {
  'thread/warning': ThreadWarning;
  /** It is left alone: it serves nobody, and nothing of it is heard any more. */
  'thread/stuck': StuckThread;
  /** It ended after all. */
  'thread/unstuck': StuckThread;
}

export interface SupervisionOptions {
  readonly clock: Clock;
  readonly readings: ProcessReadings;
  readonly logger: Logger;
}

export class Supervision {
  readonly events: Emitter<ThreadEvents>;
  readonly readings: ProcessReadings;
  readonly guard: MemoryGuard;
  readonly machine: MachineCapacity;
  readonly #logger: Logger;
  readonly #stuck = new Set<StuckThread>();

  constructor({ clock, readings, logger }: SupervisionOptions) {
    this.events = new Emitter(logger);
    this.readings = readings;
    this.guard = new MemoryGuard({ clock, readings });
    const { guard } = this;
    const budgetBytes = (): number => guard.budgetBytes;
    this.machine = new MachineCapacity({ clock, readings, budgetBytes });
    this.#logger = logger;
  }

  /** Threads that could not be ended, and have not ended since. */
  get stuckCount(): number {
    return this.#stuck.size;
  }

  /** One more. Returns what is to be called when it is gone after all. */
  stuck(thread: StuckThread): () => void {
    this.#stuck.add(thread);
    this.#logger.error({ ...thread }, 'A thread cannot be ended.');
    this.events.emit('thread/stuck', thread);
    return () => {
      if (!this.#stuck.delete(thread)) return;
      this.#logger.info({ ...thread }, 'A thread that could not be ended is gone.');
      this.events.emit('thread/unstuck', thread);
    };
  }
}
