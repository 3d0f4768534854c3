/** Watches the threads of agents that have one, and says what an agent does. */
import type { Clock } from '../base/clock.ts';
import type { ToolDesk } from '../tools/desk.ts';
import type { Activity, AgentHealth } from './health.ts';
import type { Bound } from '../base/limit-values.ts';
import type { Residency } from './residency.ts';
import type { ThreadWarning } from './supervision.ts';
import type { ThreadAgent } from './thread-agent.ts';
import type { AgentThread } from './thread.ts';
import { Watchdog } from './watchdog.ts';
import type { Watch } from './watchdog.ts';

export interface AttendanceOptions {
  readonly clock: Clock;
  readonly unresponsiveMs: Bound;
  warn(warning: ThreadWarning): void;
}

export class Attendance {
  readonly #options: AttendanceOptions;
  readonly #watchdog: Watchdog;
  readonly #attended = new Map<
    ThreadAgent,
    { readonly watch: Watch; readonly thread: AgentThread }
  >();

  constructor(options: AttendanceOptions) {
    this.#options = options;
    this.#watchdog = new Watchdog(options.clock, options.unresponsiveMs);
  }

  /** From here to the end of its residency. */
  attend(agent: ThreadAgent, thread: AgentThread, residency: Residency): void {
    const { pulse } = thread;
    if (pulse === undefined) return;
    const watch = this.#watchdog.watch({
      pulse,
      get openTurn() {
        return agent.conversation.open;
      },
      cpuMs: () => thread.cpuMs(),
      warn: (kind, silentMs, limitMs) =>
        this.#options.warn({ agent: agent.id, kind, silentMs: Math.round(silentMs), limitMs }),
      exceeded(turn, words) {
        // The first cause wins; and a thread that is being ended did not do so for this.
        if (turn.cause !== undefined || !residency.isLive) return;
        turn.excess = words;
        agent.cancel({ kind: 'limit', limit: 'unresponsiveMs' }, { keepInbox: true });
      },
    });
    this.#attended.set(agent, { watch, thread });
    void residency.ended.then(() => {
      watch.end();
      if (this.#attended.get(agent)?.watch === watch) this.#attended.delete(agent);
    });
  }

  healthOf(
    agent: ThreadAgent,
    desk: ToolDesk | undefined,
    { isQueued, isWaiting }: { readonly isQueued: boolean; readonly isWaiting: boolean },
  ): AgentHealth {
    const { watch, thread } = this.#attended.get(agent) ?? {};
    const { unresponsive, silentMs = 0 } = watch ?? {};
    const { memoryBytes } = thread ?? {};
    const activity = (): Activity => {
      if (isQueued) return 'queue';
      if (agent.status === 'idle') return 'idle';
      if (unresponsive !== undefined) return unresponsive;
      if (isWaiting) return 'child';
      if ((desk?.pending ?? 0) > 0) return 'tool';
      const stream = agent.conversation.open?.lastStream;
      return stream !== undefined && stream.finish === undefined ? 'model' : 'working';
    };
    return {
      id: agent.id,
      activity: activity(),
      silentMs: Math.round(silentMs),
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
    };
  }
}
