/**
 * A small tree of continuable children that a seed lets grow, talk and be ended at random; and
 * what was seen of it.
 */
import { setImmediate as macrotask } from 'node:timers/promises';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent, AgentHandle } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import type { Logger } from '../../src/base/logger.ts';
import { buildHarness } from '../../src/harness.ts';
import type { Harness } from '../../src/harness.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { logProblems } from '../interleavings/log-problems.ts';
import { Dice } from '../interleavings/plan.ts';
import { inProcessThreads } from '../support/in-process-threads.ts';
import type { InProcessThreads } from '../support/in-process-threads.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { prompt, signal } from './family.ts';
import { Epochs } from './epochs.ts';
import { fateOf, REFUSALS } from './fates.ts';
import type { Known } from './fates.ts';

const MANY_TURNS = 6_000;
export class Forest {
  readonly seed: number;
  readonly harness: Harness;
  readonly problems: string[] = [];
  readonly #dice: Dice;
  readonly #threads: InProcessThreads;
  readonly #clock: ManualClock;
  readonly #store: MemoryStore;
  readonly #delivery: 'auto' | 'manual';
  readonly #stuck = deferred<never>();
  readonly #known: Known[] = [];
  #epochs!: Epochs;
  /** Every id that was returned, with its session. */
  readonly #returned = new Map<MessageId, SessionId>();
  readonly #acting: Promise<unknown>[] = [];
  readonly #did: string[] = [];
  #root!: AgentHandle;
  #streaming = 0;
  #isOver = false;
  #hasDiscarded = false;

  private constructor(
    seed: number,
    parts: {
      harness: Harness;
      dice: Dice;
      threads: InProcessThreads;
      clock: ManualClock;
      store: MemoryStore;
      delivery: 'auto' | 'manual';
    },
  ) {
    this.seed = seed;
    this.harness = parts.harness;
    this.#dice = parts.dice;
    this.#threads = parts.threads;
    this.#clock = parts.clock;
    this.#store = parts.store;
    this.#delivery = parts.delivery;
    this.#stuck.promise.catch(() => {});
  }

  static async of(seed: number): Promise<Forest> {
    const dice = new Dice(seed);
    const clock = new ManualClock();
    const delivery = dice.pick(['auto', 'manual'] as const);
    const threads = inProcessThreads({ clock, delivery, import: () => Promise.resolve(modules) });
    const modules = {
      default: {
        name: 'look',
        description: 'Looks.',
        parameters: { type: 'object' },
        async execute() {
          for (let left = dice.int(4); left > 0; left--) await macrotask();
          return 'seen';
        },
      },
    };
    const store = new MemoryStore();
    const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
    const model = scriptedModel(async (_, { signal: aborted }) => {
      forest.#streaming++;
      try {
        for (let left = dice.int(8); left > 0 && !aborted.aborted; left--) await macrotask();
      } finally {
        forest.#streaming--;
      }
      if (dice.chance(0.08)) return { failure: { code: 'BROKEN', message: 'Broken.' } };
      return dice.chance(0.25) ? { toolCalls: [{ name: 'look', arguments: {} }] } : 'Well.';
    });
    const harness = await buildHarness(
      {
        workers: { warm: 0 },
        store,
        logger,
        models: { script: model },
        defaultModel: { provider: 'script', model: 'test' },
        tools: [{ module: new URL('file:///look.mjs') }],
        limits: {
          maxDepth: 4,
          maxThreads: dice.pick([3, 5, 64]),
          stopGraceMs: 1_000,
          interruptGraceMs: 1_000,
        },
      },
      { clock, random: () => 0.5, threads: () => threads.factory },
    );
    const forest = new Forest(seed, { harness, dice, threads, clock, store, delivery });
    return forest;
  }

  /** The whole walk; what was wrong with it is in `problems`. */
  async walk(): Promise<void> {
    const pumping = this.#pump();
    try {
      await Promise.race([this.#stuck.promise, this.#walk()]);
    } catch (error) {
      this.problems.push(String((error as Error).stack));
    }
    this.#isOver = true;
    await pumping;
    // However it went, nothing of it may reach the next.
    for (let turn = 0; turn < 50; turn++) await macrotask();
  }

  toString(): string {
    return `seed ${this.seed} (${this.#delivery}): ${this.problems.join('; ')} after ${this.#did.join(', ')}`;
  }

  async #walk(): Promise<void> {
    const { harness } = this;
    const dice = this.#dice;
    this.#epochs = new Epochs(harness, this.problems);
    this.#root = await harness.agents.create();
    const acts = 12 + dice.int(24);
    const endsAt = dice.chance(0.5) ? dice.int(acts) : acts;
    let ending: Promise<unknown> | undefined;
    for (let act = 0; act < acts; act++) {
      if (act === endsAt) ending = this.#endAll();
      else this.#do();
      const lag = dice.int(3);
      if (lag === 0) for (let left = dice.int(20); left > 0; left--) await undefined;
      else for (let left = dice.int(lag * 6); left > 0; left--) await macrotask();
    }
    await Promise.all(this.#acting);
    if (ending === undefined) {
      // What can end by itself does.
      await this.#quiet();
      for (const { id } of this.#known) {
        const agent = harness.agents.get(id);
        if (agent?.status === 'running') this.problems.push(`${id} still runs`);
      }
      ending = this.#endAll();
    }
    await ending;
    this.#check('the end of the root');
    await harness.dispose();
    if (harness.agents.list().length > 0) this.problems.push('an agent is left');
    if (harness.sessions.list().length > 0) this.problems.push('a session is left');
    if (this.#threads.all.some(({ ports }) => ports !== undefined && !ports.isClosed)) {
      this.problems.push('a thread is left');
    }
    if (this.#clock.pending > 0) this.problems.push(`${this.#clock.pending} timers are left`);
    await this.#checkLogs();
  }

  #endAll(): Promise<unknown> {
    if (this.#dice.chance(0.5)) {
      this.#did.push('dispose the harness');
      return this.harness.dispose();
    }
    this.#did.push('dispose the root');
    this.#hasDiscarded = true;
    const disposed = this.#root.dispose();
    return disposed.then(() => {
      const left = this.harness.agents.list();
      if (left.length > 0) this.problems.push(`${left.length} agents outlive the root`);
    });
  }

  /** Nothing runs, and nothing has changed for a while. */
  async #quiet(): Promise<void> {
    let still = 0;
    let before = '';
    while (still < 60) {
      await macrotask();
      const now = this.harness.agents
        .list()
        .map(({ id, session, status }) => `${id} ${session.seq} ${status}`)
        .join();
      still = now === before ? still + 1 : 0;
      before = now;
    }
  }

  #do(): void {
    const dice = this.#dice;
    const { subagents, agents } = this.harness;
    const live = agents.list();
    const parent = live.length === 0 ? this.#root.agent : dice.pick(live);
    const known = this.#known.length === 0 ? undefined : dice.pick(this.#known);
    const act = dice.int(20);
    if (act < 5 || known === undefined) return this.#start(parent);
    if (act < 11) {
      const { id } = known;
      return this.#try(`tell ${short(id)}`, async () => {
        const given = { source: { kind: 'user' }, signal: signal() } as const;
        const { messageId } = await subagents.followup(known.parent, id, prompt('More.'), given);
        this.#return(messageId, id);
      });
    }
    const resident = agents.get(known.id);
    if (act < 13) {
      const authority = { kind: 'user', parentSessionId: known.parent.id } as const;
      return this.#try(`interrupt ${short(known.id)}`, () =>
        subagents.interrupt(known.id, authority),
      );
    }
    if (act < 15 && resident !== undefined) {
      const delivery = dice.pick(['quiet', 'wakeup', 'next-step'] as const);
      return this.#try(`report of ${short(known.id)}`, async () => {
        const given = { delivery };
        const { messageId } = await subagents.reportFrom(resident, prompt('So far.'), given);
        this.#return(messageId, known.parent.id);
      });
    }
    if (act < 17 && resident !== undefined) {
      this.#did.push(`crash ${short(known.id)}`);
      return this.#threads.all.findLast(({ init }) => init?.sessionId === known.id)?.crash();
    }
    if (act < 18) {
      this.#hasDiscarded = true;
      return this.#try(`drain ${short(known.id)}`, () =>
        subagents.drainContinuableChildren(known.parent, [known.id]),
      );
    }
    if (act < 19 && dice.chance(0.4) && resident !== undefined) {
      this.#hasDiscarded = true;
      return this.#try(`drain below ${short(known.id)}`, () =>
        subagents.drainContinuableDescendants([resident]),
      );
    }
    if (this.#root.agent.status === 'idle' && agents.list().includes(this.#root.agent)) {
      this.#did.push('tell the root');
      try {
        this.#root.agent.followup(createUserMessage('Go on.'));
      } catch {
        // Being disposed.
      }
    }
  }

  #start(parent: Agent): void {
    const provider = this.#dice.pick(['spawn', 'spawn', 'fork']);
    this.#try(`${provider} below ${short(parent.id)}`, async () => {
      const { childId, messageId } = await this.harness.subagents.startContinuable({
        provider,
        label: 'worker',
        signal: signal(),
        request: { parent, prompt: prompt('Work.') },
      });
      this.#known.push({ id: childId, parent });
      this.#return(messageId, childId);
    });
  }

  #return(id: MessageId, session: SessionId): void {
    if (this.#returned.has(id)) this.problems.push(`the id ${id} was returned twice`);
    this.#returned.set(id, session);
  }

  #try(what: string, act: () => unknown): void {
    this.#did.push(what);
    const refused = (error: { code?: string; name: string }): void => {
      if (error.name === 'SubagentDepthError' || REFUSALS.includes(error.code ?? '')) return;
      this.problems.push(`${what} failed: ${String(error)}`);
    };
    try {
      this.#acting.push(Promise.resolve(act()).catch(refused));
    } catch (error) {
      refused(error as Error);
    }
  }

  #check(when: string): void {
    for (const id of this.#epochs.open) this.problems.push(`at ${when} ${short(id)} has no end`);
    if (this.#streaming > 0) this.problems.push(`at ${when} a model is asked`);
  }

  async #checkLogs(): Promise<void> {
    const stored = new Map<SessionId, readonly SessionEvent[]>();
    for (const { id } of await this.#store.list()) {
      const { header, events } = await this.#store.inspect(id);
      stored.set(id, events.slice(header.seedLength ?? 0));
      if (this.#epochs.open.includes(id)) this.problems.push(`${id} is open`);
      // A child that goes on is described before its turns, and a crash answers calls, that were
      // never made, for the model.
      const wrong = logProblems(events, false).filter(
        (text) => !/descriptor|\(tool\/result\) is not the next/.test(text),
      );
      this.problems.push(...wrong.map((text) => `${short(id)}: ${text}`));
      const ran = events
        .slice(header.seedLength ?? 0)
        .flatMap((event) => (event.type === 'user/message' ? [event.data.id] : []));
      if (new Set(ran).size !== ran.length) this.problems.push(`${short(id)} was told twice`);
    }
    for (const [id, session] of this.#returned) {
      const events = stored.get(session);
      const fate = events === undefined ? 'unknown' : fateOf(events, id);
      const isFine =
        fate === 'told' || fate === 'waits' || (fate === 'thrown' && this.#hasDiscarded);
      if (!isFine) this.problems.push(`the message ${id} of ${short(session)} is ${fate}`);
    }
  }

  async #pump(): Promise<void> {
    const dice = new Dice(this.seed + 0.5);
    for (let turn = 0; !this.#isOver; turn++) {
      if (turn > MANY_TURNS) return this.#stuck.reject(new Error('It does not end.'));
      await macrotask();
      // Graces run out in a walk that gets nowhere.
      if (dice.chance(0.2)) await this.#clock.advance(1 + dice.int(4));
      if (this.#delivery === 'auto') continue;
      for (const { ports } of this.#threads.all) {
        ports?.flush(dice.int(3), dice.pick(['main', 'worker']));
      }
    }
  }
}

const short = (id: string): string => id.slice(-4);
