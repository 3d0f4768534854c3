/** A whole harness that does what the model is told, and what is seen of it. */
import { setImmediate as macrotask } from 'node:timers/promises';
import type { UserMessage } from '../../protocol/content.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { Harness } from '../../src/harness.ts';
import type { Session } from '../../src/session/session.ts';
import { isRuntimeContext } from '../support/told.ts';
import { prompt, signal } from './family.ts';
import type { Ground } from './model-ground.ts';
import type { Member, Model } from './model.ts';

/** Turns of the event loop in which nothing changed, after which nothing will. */
const STILL = 12;
const MOST = 4_000;
const ROOT = SessionId('root');

export class Real {
  /** What was done, in order. */
  readonly did: string[] = [];
  readonly #ground: Ground;
  readonly #tokens = new Map<string, string>();
  readonly #edges = new Map<string, { runId: string; started: number; open: boolean }>();
  readonly #wrong: string[] = [];
  #harness!: Harness;
  #root!: Agent;

  private constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** Takes ownership of the ground. */
  static async open(ground: Ground): Promise<Real> {
    const real = new Real(ground);
    await real.#begin();
    return real;
  }

  agent({ id, parent }: Member): Agent {
    const agent = parent === undefined ? this.#root : this.#harness.agents.get(id as SessionId);
    if (agent === undefined) throw new Error(`${id} is not resident.`);
    return agent;
  }

  async start(parent: Member, childId: string, provider: string, token: string): Promise<void> {
    const { messageId } = await this.#harness.subagents.startContinuable({
      provider,
      label: childId,
      childId,
      signal: signal(),
      request: { parent: this.agent(parent), prompt: prompt(token) },
    });
    this.#returned(messageId, token);
  }

  async followup({ id, parent }: Member, token: string): Promise<void> {
    if (parent === undefined) {
      const message = createUserMessage(token);
      this.#root.followup(message);
      return this.#returned(message.id, token);
    }
    const { messageId } = await this.#harness.subagents.followup(
      this.agent(parent),
      id as SessionId,
      prompt(token),
      { source: { kind: 'user' }, signal: signal() },
    );
    this.#returned(messageId, token);
  }

  async report(
    child: Member,
    token: string,
    delivery: 'quiet' | 'wakeup' | 'next-step',
  ): Promise<void> {
    const { messageId } = await this.#harness.subagents.reportFrom(
      this.agent(child),
      prompt(token),
      { delivery },
    );
    this.#returned(messageId, token);
  }

  interrupt({ id, parent }: Member, by: Member | undefined): void {
    this.#harness.subagents.interrupt(
      id as SessionId,
      by === undefined
        ? { kind: 'user', parentSessionId: parent!.id as SessionId }
        : { kind: 'ancestor', agent: this.agent(by) },
    );
  }

  async crash({ id }: Member, way: number): Promise<void> {
    await this.#ground.crash(id, way);
  }

  answer({ id }: Member, how: 'answer' | 'fail'): void {
    if (!this.#ground.asked().includes(id)) throw new Error(`The model of ${id} is not asked.`);
    this.#ground.answer(id, how);
  }

  drain(parent: Member, children: readonly Member[]): Promise<void> {
    const ids = children.map(({ id }) => id as SessionId);
    return this.#harness.subagents.drainContinuableChildren(this.agent(parent), ids);
  }

  drainBelow(member: Member): Promise<void> {
    return this.#harness.subagents.drainContinuableDescendants([this.agent(member)]);
  }

  async restart(): Promise<void> {
    await this.dispose();
    await this.#begin();
  }

  async close(): Promise<void> {
    try {
      await this.#harness.dispose();
    } finally {
      await this.#ground.close();
    }
  }

  /** The end of this harness; another may go on with what is stored. */
  async dispose(): Promise<void> {
    await this.#harness.dispose();
    const asked = this.#ground.asked();
    if (asked.length > 0) this.#wrong.push(`asked still: ${asked.join()}`);
    this.#wrong.push(...this.#ground.problems(true));
    for (const [id, { open }] of this.#edges) if (open) this.#wrong.push(`${id} has no end`);
  }

  /**
   * All that follows by itself has happened, and is what the model has.
   * @throws what is not, once the ground has no more patience
   */
  async agrees(model: Model, isOver = false): Promise<void> {
    const deadline = performance.now() + this.#ground.patienceMs;
    for (;;) {
      if (!isOver) await this.#quiet();
      const wrong = [...this.#wrong, ...this.#ground.problems(false)];
      const isFinal = wrong.length > 0 || performance.now() >= deadline;
      wrong.push(...(await this.#differences(model, isOver)));
      if (wrong.length === 0) return;
      if (isFinal) throw new Error(wrong.join('\n'));
    }
  }

  async #quiet(): Promise<void> {
    let before = '';
    for (let turn = 0, still = 0; still < STILL; turn++) {
      if (turn > MOST) throw new Error('It does not come to rest.');
      await macrotask();
      const now = [
        ...this.#harness.agents.list().map(({ id, session, status }) => [id, session.seq, status]),
        ...this.#ground.asked(),
      ].join();
      still = now === before ? still + 1 : 0;
      before = now;
    }
  }

  async #differences(model: Model, isOver: boolean): Promise<string[]> {
    const wrong: string[] = [];
    const same = (what: string, real: unknown, expected: unknown): void => {
      const [is, should] = [JSON.stringify(real), JSON.stringify(expected)];
      if (is !== should) wrong.push(`${what}: is ${is}, should be ${should}`);
    };
    if (!isOver) {
      const live = this.#harness.agents.list();
      same('resident', live.map(({ id }) => id).toSorted(), ids(model.residents));
      same('asked', this.#ground.asked().toSorted(), ids(model.residents.filter(inTurn)));
    }
    for (const member of model.members) {
      const { id, parent, epochs, isResident } = member;
      const live = this.#harness.agents.get(id as SessionId);
      const { header, events } = live?.session ?? (await this.#stored(id as SessionId));
      const seen = this.#seen(events.slice(header.seedLength ?? 0));
      member.place(seen);
      same(`the parent of ${id}`, header.parentSession, parent?.id);
      for (const list of ['next-turn', 'next-step'] as const) {
        same(`${list} of ${id}`, inOrder(seen[list]), inOrder(member.waiting(list)));
      }
      same(`told to ${id}`, inOrder(seen.told), inOrder(member.told));
      same(`discarded of ${id}`, seen.canceled.toSorted(), member.discarded.toSorted());
      if (live !== undefined) same(`${id} runs`, live.status === 'running', member.isInTurn);
      if (parent === undefined) continue;
      const edge = this.#edges.get(id);
      same(`edges of ${id}`, [edge?.started, edge?.open], [epochs, isResident && !isOver]);
    }
    return wrong;
  }

  async #begin(): Promise<void> {
    this.#harness = await this.#ground.build();
    this.#harness.on('subagent/start', ({ runId, id }) => {
      const started = (this.#edges.get(id)?.started ?? 0) + 1;
      if (this.#edges.get(id)?.open === true) this.#wrong.push(`${id} started twice`);
      this.#edges.set(id, { runId, started, open: true });
    });
    this.#harness.on('subagent/end', ({ runId, id }) => {
      const edge = this.#edges.get(id);
      if (edge?.open !== true || edge.runId !== runId) this.#wrong.push(`an end of ${id} too many`);
      else edge.open = false;
    });
    const { agents } = this.#harness;
    // One that was never told anything is not kept.
    const isKept = (await this.#ground.store.list()).some(({ id }) => id === ROOT);
    const handle = isKept ? await agents.resume(ROOT) : await agents.create({ sessionId: ROOT });
    this.#root = handle.agent;
  }

  async #stored(id: SessionId): Promise<Pick<Session, 'header' | 'events'>> {
    const isKept = (await this.#ground.store.list()).some((header) => header.id === id);
    if (isKept || id !== ROOT) return this.#ground.store.inspect(id);
    return { header: { id }, events: [] } as unknown as Session;
  }

  #returned(id: string, token: string): void {
    if (this.#tokens.has(id)) this.#wrong.push(`the id of ${token} was returned before`);
    this.#tokens.set(id, token);
  }

  #tokenOf({ id, source }: UserMessage): string {
    if (source.kind === 'subagent-settled') return `notice ${source.senderSessionId}`;
    return this.#tokens.get(id) ?? `unknown ${id}`;
  }

  /** What became of all that was sent, by a log alone. */
  #seen(events: readonly SessionEvent[]) {
    const lists: Record<'next-turn' | 'next-step', string[]> = { 'next-turn': [], 'next-step': [] };
    const told: string[] = [];
    const canceled: string[] = [];
    for (const event of events) {
      if (event.type === 'user/message' && !isRuntimeContext(event.data)) {
        told.push(this.#tokenOf(event.data));
      }
      if (event.type !== 'agent/inbox/spliced') continue;
      const { target, start, removedCount = 0, inserted, outcome } = event.data;
      const tokens = inserted.map((message) => this.#tokenOf(message));
      const removed = lists[target].splice(start, removedCount, ...tokens);
      if (outcome === 'canceled') canceled.push(...removed);
    }
    return { ...lists, told, canceled };
  }
}

const inTurn = ({ isInTurn }: Member): boolean => isInTurn;
const ids = (members: readonly Member[]): string[] => members.map(({ id }) => id).toSorted();

/** Of what ends in one act nothing says which comes first: notices are counted, not ordered. */
const inOrder = (tokens: readonly string[]): string[] => {
  const isNotice = (token: string): boolean => token.startsWith('notice');
  return [...tokens.filter((one) => !isNotice(one)), ...tokens.filter(isNotice).toSorted()];
};
