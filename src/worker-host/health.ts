/** How a harness is, as of now. Shapes only: each room says what it knows. */
import type { SessionId } from '../../protocol/ids.ts';

/**
 * What an agent does: nothing; waits for a thread, for one of its children, for a tool call, or
 * for a model; or is at work, where its loop turns (`working`), does not and uses the processor
 * (`busy`), or does not and sleeps (`blocked`).
 */
export type Activity =
  | 'idle'
  | 'queue'
  | 'child'
  | 'tool'
  | 'model'
  | 'working'
  | 'busy'
  | 'blocked';

/** What one agent does now. */
export interface AgentHealth {
  readonly id: SessionId;
  readonly activity: Activity;
  /**
   * For how long its loop has given no sign of turning in an open turn, in milliseconds; 0: it
   * turns. Threads are looked at once a second, so that this and `activity` lag by up to two.
   */
  readonly silentMs: number;
  /**
   * Memory of the process that is its thread's, in bytes, as far as that can be told from outside;
   * absent: it has no thread.
   */
  readonly memoryBytes?: number;
}

/** Threads by what they are there for. */
export interface ThreadsHealth {
  /** Threads that there are, without those that are stuck. */
  readonly live: number;
  readonly warm: number;
  readonly starting: number;
  /** Agents that wait for one. */
  readonly queued: number;
  /** Threads that could not be ended, and have not ended since. */
  readonly stuck: number;
  /** Threads that may exist at once now: `maxThreads`, or less if the machine bears less. */
  readonly most: number;
}

/** Memory of the whole process. */
export interface MemoryHealth {
  /** Absent: it could not be read. */
  readonly rssBytes?: number;
  /** From here on the thread with the most is ended. */
  readonly budgetBytes: number;
}

/** The loop of the main thread. */
export interface LoopHealth {
  /** How late it was at most for a look at its threads, in milliseconds, while there were any. */
  readonly mostLateMs: number;
}

/** What `harness.health()` tells. */
export interface Health {
  readonly threads: ThreadsHealth;
  readonly memory: MemoryHealth;
  readonly loop: LoopHealth;
  readonly agents: readonly AgentHealth[];
}
