/** Watches that each residency of a child has one start, one end, and one notice if it has any. */
import type { SessionId } from '../../protocol/ids.ts';
import type { Harness } from '../../src/harness.ts';

/** One residency, from its start to its end. */
interface Epoch {
  readonly child: SessionId;
  readonly parent: SessionId;
  /** Messages that were accepted in it. */
  accepted: number;
  notices: number;
  end: string | undefined;
}

export class Epochs {
  readonly #harness: Pick<Harness, 'agents' | 'on'>;
  readonly #problems: string[];
  readonly #all = new Map<string, Epoch>();
  readonly #openOf = new Map<SessionId, Epoch>();
  #notices = 0;

  /** What is wrong is added to `problems` as it happens. */
  constructor(harness: Pick<Harness, 'agents' | 'on'>, problems: string[]) {
    this.#harness = harness;
    this.#problems = problems;
    this.#watch();
  }

  /** Children whose residency has no end yet. */
  get open(): readonly SessionId[] {
    return [...this.#openOf.keys()];
  }

  get count(): number {
    return this.#all.size;
  }

  get notices(): number {
    return this.#notices;
  }

  #watch(): void {
    const { agents } = this.#harness;
    this.#harness.on('subagent/start', ({ runId, id }) => {
      const parent = agents.get(id)?.session.header.parentSession;
      if (parent === undefined) return this.#say(`${id} is told of and not live`);
      if (this.#openOf.has(id)) this.#say(`${id} has two residencies`);
      const epoch: Epoch = { child: id, parent, accepted: 0, notices: 0, end: undefined };
      this.#all.set(runId, epoch);
      this.#openOf.set(id, epoch);
    });
    this.#harness.on('agent/inbox/inserted', ({ agent, message }) => {
      const { source } = message;
      if (source.kind === 'user') {
        const epoch = this.#openOf.get(agent.id);
        if (epoch !== undefined) epoch.accepted++;
      }
      if (source.kind !== 'subagent-settled') return;
      this.#notices++;
      const epoch = this.#openOf.get(source.senderSessionId);
      if (epoch === undefined) this.#say('a notice came after the end was told');
      else epoch.notices++;
      if (agents.get(source.senderSessionId) !== undefined) {
        this.#say('a notice came before its child was gone');
      }
    });
    this.#harness.on('subagent/end', ({ runId, id, stopReason }) => {
      const epoch = this.#all.get(runId);
      if (epoch === undefined || epoch.end !== undefined) {
        return this.#say(`an end of ${id} that pairs with nothing`);
      }
      epoch.end = stopReason;
      this.#openOf.delete(id);
      if (agents.get(id) !== undefined) this.#say(`${id} is live at its end`);
      const isParentLive = agents.get(epoch.parent) !== undefined;
      const expected = epoch.accepted > 0 && isParentLive ? 1 : 0;
      if (epoch.notices !== expected) {
        this.#say(`${epoch.notices} notices of ${id} instead of ${expected}`);
      }
    });
  }

  #say(problem: string): void {
    this.#problems.push(problem);
  }
}
