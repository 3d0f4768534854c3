/**
 * Roots that somebody outside has opened: who uses them now, and how they are let go of. A root
 * that nobody needs is in nobody's way then: another process can own it.
 */
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import { SubagentError } from '../../protocol/errors.ts';
import type { Agent } from '../agent/agent.ts';
import type { ManagedHandle } from '../agent/agent-host.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { KeyLock } from '../base/key-lock.ts';
import type { Harness } from '../harness.ts';
import { deferred, raceSignal } from '../base/deferred.ts';
import { observeDelegations } from '../subagents/runtime.ts';

/** How long a root is idle and followed by nobody before a server lets go of it. */
export const IDLE_MS = 5 * 60_000;
/** Looks within that time: a root may stay longer by as much as lies between two of them. */
const LOOKS = 4;

/** How a root was found. With another `seq` it has done something since. */
interface Noted {
  readonly seq: number;
  readonly since: number;
}

export class OpenedRoots {
  readonly #harness: Harness;
  readonly #lock: KeyLock<string>;
  readonly #hasChildren: (id: string) => boolean;
  readonly #handles = new Map<string, ManagedHandle>();
  /** How many use or follow a session by now. */
  readonly #users = new Map<string, number>();
  /** How many of those are about to tell it something: whoever only follows does not keep it. */
  readonly #telling = new Map<string, number>();
  readonly #noted = new Map<string, Noted>();
  readonly #stirs = new Set<() => void>();

  /** @param lock held while a root is opened; held here while one is let go of */
  constructor(harness: Harness, lock: KeyLock<string>, hasChildren: (id: string) => boolean) {
    this.#harness = harness;
    this.#lock = lock;
    this.#hasChildren = hasChildren;
    const stir = (): void => this.#stirs.forEach((run) => run());
    harness.on('agent/status', stir);
    harness.on('session/disposed', stir);
    observeDelegations(harness.subagents, 'subagent/end', stir);
    harness.on('agent/disposed', ({ agent }) => {
      if (this.#handles.get(agent.id)?.agent === agent) this.#handles.delete(agent.id);
      stir();
    });
  }

  add(handle: ManagedHandle): void {
    this.#handles.set(handle.agent.id, handle);
  }

  /** It stays until the returned function is called; counted before anything is waited for. */
  use(id: string): () => void {
    this.#users.set(id, (this.#users.get(id) ?? 0) + 1);
    let isUsed = true;
    return () => {
      if (!isUsed) return;
      isUsed = false;
      const left = (this.#users.get(id) ?? 1) - 1;
      if (left > 0) this.#users.set(id, left);
      else this.#users.delete(id);
      this.#noted.delete(id);
      this.#stirs.forEach((run) => run());
    };
  }

  /**
   * Let go of a root once it has nothing to do; what waits for it is kept. False: it is not live.
   * @throws {SubagentError} `UNAUTHORIZED` for what nobody outside has opened
   */
  async close(id: string, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#harness.agents.get(id as SessionId) === undefined) return false;
      if (!this.#handles.has(id)) {
        throw new SubagentError('UNAUTHORIZED', `\`${id}\` was not opened from outside.`);
      }
      const stirred = deferred<void>();
      const stir = (): void => stirred.resolve();
      this.#stirs.add(stir);
      try {
        if (await this.#letGo(id, (agent) => this.#isIdle(agent))) return true;
        await raceSignal(stirred.promise, signal);
      } finally {
        this.#stirs.delete(stir);
      }
      // What stirred it may be told before all of it has happened.
      await othersTurn();
    }
  }

  /** Let go of what is idle and unused for that long, from now on. Returns what ends that. */
  closeIdle(idleMs: number, clock: Clock): () => void {
    if (idleMs === Infinity) return () => {};
    let timer: Timer | undefined;
    const look = (): void => {
      for (const { agent } of this.#handles.values()) this.#look(agent, idleMs, clock.now());
      timer = clock.after(idleMs / LOOKS, look);
    };
    timer = clock.after(idleMs / LOOKS, look);
    return () => timer?.cancel();
  }

  #look({ id, session }: Agent, idleMs: number, now: number): void {
    const isSame = (agent: Agent): boolean =>
      this.#isIdle(agent) && !this.#users.has(id) && this.#noted.get(id)?.seq === session.seq;
    const agent = this.#handles.get(id)?.agent;
    if (agent === undefined || !isSame(agent)) {
      this.#noted.set(id, { seq: session.seq, since: now });
      return;
    }
    if (now - (this.#noted.get(id)?.since ?? now) < idleMs) return;
    // It tells of its own failures; the next look tries nothing again, for it is gone.
    void this.#letGo(id, isSame).catch(() => {});
  }

  #letGo(id: string, isFree: (agent: Agent) => boolean): Promise<boolean> {
    return this.#lock.run(id, async () => {
      const handle = this.#handles.get(id);
      // No await from here to its end: who uses it from then on waits for the lock.
      if (handle === undefined || !isFree(handle.agent) || this.#telling.has(id)) return false;
      this.#noted.delete(id);
      await handle.dispose('keep');
      return true;
    });
  }

  /** As `use`, for whoever is about to tell it something. */
  tell(id: string): () => void {
    const release = this.use(id);
    this.#telling.set(id, (this.#telling.get(id) ?? 0) + 1);
    return () => {
      const left = (this.#telling.get(id) ?? 1) - 1;
      if (left > 0) this.#telling.set(id, left);
      else this.#telling.delete(id);
      release();
    };
  }

  #isIdle(agent: Agent): boolean {
    const { jobs } = this.#harness;
    const isRunning = jobs
      .list(agent)
      .some(({ status }) => status === 'starting' || status === 'running');
    return agent.status === 'idle' && !isRunning && !this.#hasChildren(agent.id);
  }
}
