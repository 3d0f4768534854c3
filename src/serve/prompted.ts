/**
 * What one connection is told of a root that it prompted: its events, and when it runs and rests,
 * in the order in which they happened. The log is the queue: beside it only marks are kept, so a
 * reader that falls behind holds up nobody.
 */
import type { Session } from '../session/session.ts';
import type { NotificationMap } from './operation-map.ts';
import { deferred } from '../base/deferred.ts';
import type { Board } from './board.ts';
import { sessionOf } from './board.ts';
import { observeDelegations } from '../subagents/runtime.ts';
import type { Tell } from './tell.ts';

type MarkName = 'session.status' | 'subagent.started' | 'subagent.finished';
interface Mark<N extends MarkName = MarkName> {
  /** Told when all events before this one were. */
  readonly at: number;
  readonly name: N;
  readonly params: NotificationMap[N];
}

/** A reader that is behind by more of them than this has gone away. */
const MAX_MARKS = 10_000;

export class Prompted {
  readonly session: Session;
  readonly #tell: Tell;
  readonly #marks: Mark[] = [];
  readonly #withdrawals: (() => void)[];
  readonly #tooSlow: () => void;
  #next: number;
  #stirred = deferred<void>();
  #isClosed = false;

  /** From the next event on. @param tooSlow the reader is given up */
  constructor(board: Board, session: Session, tell: Tell, tooSlow: () => void) {
    const { harness } = board;
    this.session = session;
    this.#next = session.seq;
    this.#tell = tell;
    this.#tooSlow = tooSlow;
    const { id } = session;
    this.#withdrawals = [
      harness.on('session/event', (told) => {
        if (told.session === session) this.#stirred.resolve();
      }),
      harness.on('agent/status', ({ agent, status }) => {
        if (agent.session === session) this.#mark('session.status', { sessionId: id, status });
      }),
      observeDelegations(harness.subagents, 'subagent/start', ({ parent, info }) => {
        if (!this.#isOurs(board, parent.session)) return;
        const params = { parentSessionId: parent.id, childSessionId: info.id };
        this.#mark('subagent.started', params);
      }),
      observeDelegations(harness.subagents, 'subagent/end', ({ parent, info }) => {
        if (!this.#isOurs(board, parent.session)) return;
        const { provider, id: childSessionId, stopReason, lastAssistantMessage } = info;
        this.#mark('subagent.finished', {
          provider,
          agentId: childSessionId,
          parentSessionId: parent.id,
          childSessionId,
          status: stopReason === 'completed' ? 'completed' : 'error',
          stopReason,
          ...(lastAssistantMessage === undefined ? {} : { lastAssistantMessage }),
        });
      }),
    ];
    void this.#run();
  }

  close(): void {
    this.#isClosed = true;
    for (const withdraw of this.#withdrawals) withdraw();
    this.#stirred.resolve();
  }

  #mark<N extends MarkName>(name: N, params: NotificationMap[N]): void {
    this.#marks.push({ at: this.session.seq, name, params } as Mark);
    if (this.#marks.length > MAX_MARKS) this.#tooSlow();
    this.#stirred.resolve();
  }

  #isOurs({ harness }: Board, session: Session): boolean {
    const seen = new Set<string>();
    for (let at: Session | undefined = session; at !== undefined && !seen.has(at.id);) {
      if (at === this.session) return true;
      seen.add(at.id);
      const above: string | undefined = at.header.parentSession;
      at = above === undefined ? undefined : sessionOf(harness, above);
    }
    return false;
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const [mark] = this.#marks;
      if (mark !== undefined && mark.at <= this.#next) {
        this.#marks.shift();
        await this.#tell(mark.name, mark.params);
        continue;
      }
      const [event] = this.session.eventsFrom(this.#next, this.#next + 1);
      if (event !== undefined) {
        this.#next++;
        await this.#tell('session.event', { sessionId: this.session.id, event });
        continue;
      }
      // No await between the look and this, or what happens in between would stir nobody.
      this.#stirred = deferred();
      await this.#stirred.promise;
    }
  }
}
