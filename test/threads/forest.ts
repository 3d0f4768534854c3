/**
 * Continuable children of one host in real threads that a seed starts, tells more, interrupts, and
 * whose threads die: by what they are told, or at any moment. The order in which threads get on is
 * the machine's, so a seed makes the acts, not every step between them.
 */
import { setImmediate as macrotask } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { textOf } from '../../protocol/content.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createHarness } from '../../dist/src/index.js';
import type { Agent } from '../../src/agent/agent.ts';
import type { Harness } from '../../src/harness.ts';
import { Epochs } from '../continuable/epochs.ts';
import { prompt, signal } from '../continuable/family.ts';
import { endAfterClaim, fateOf, REFUSALS } from '../continuable/fates.ts';
import { Dice } from '../interleavings/plan.ts';
import { fixture } from './real.ts';

export interface ForestOptions {
  readonly seed: number;
  readonly children: number;
  readonly maxThreads: number;
  /** A database, or else memory. */
  readonly store?: string;
  /** How many acts may be under way together. */
  readonly atOnce?: number;
}

interface Sent {
  readonly id: MessageId;
  readonly to: SessionId;
  readonly parent: SessionId;
}

const LEVELS = 3;
const DEATHS = 1_024;
const TICK_MS = 2;
/** Without anything that happens, longer than any grace: nothing will. */
const STUCK_MS = Number(process.env['STUCK_MS'] ?? 10_000);
const REFUSED = [...REFUSALS, 'WORKER_EXITED'];

export class Forest {
  readonly problems: string[] = [];
  readonly fates: Record<string, number> = {};
  /** The longest that an agent ran with messages waiting and without a turn. */
  longestWaitMs = 0;
  mostThreads = 0;
  mostRssBytes = 0;
  deaths = 0;
  interrupts = 0;
  readonly harness: Harness;
  readonly epochs: Epochs;
  readonly #options: ForestOptions;
  readonly #dice: Dice;
  readonly #host: Agent;
  readonly #cells: Int32Array;
  readonly #workers = new Set<number>();
  readonly #children: { readonly id: SessionId; readonly parent: Agent; readonly level: number }[] =
    [];
  readonly #sent: Sent[] = [];
  readonly #acting = new Set<Promise<void>>();
  readonly #did: string[] = [];
  readonly #waitingSince = new Map<Agent, number>();
  readonly #note = (worker: Worker): void => {
    const { threadId } = worker;
    this.#workers.add(threadId);
    this.mostThreads = Math.max(this.mostThreads, this.#workers.size);
    worker.once('exit', () => {
      this.mostRssBytes = Math.max(this.mostRssBytes, process.memoryUsage.rss());
      this.#workers.delete(threadId);
      Atomics.store(this.#cells, threadId % DEATHS, 0);
    });
  };
  readonly #waiting: (() => void)[] = [];
  // One for all: it leaves the machine to the threads.
  readonly #ticking = setInterval(() => {
    for (const goOn of this.#waiting.splice(0)) goOn();
  }, TICK_MS);
  #changed = performance.now();

  private constructor(options: ForestOptions, harness: Harness, host: Agent, cells: Int32Array) {
    this.#options = options;
    this.#dice = new Dice(options.seed);
    this.harness = harness;
    this.#host = host;
    this.#cells = cells;
    this.epochs = new Epochs(harness, this.problems);
    process.on('worker', this.#note);
    const changed = (): void => void (this.#changed = performance.now());
    harness.on('session/event', changed);
    harness.on('agent/status', changed);
    harness.on('agent/disposed', changed);
  }

  static async of(options: ForestOptions): Promise<Forest> {
    const cells = new Int32Array(new SharedArrayBuffer(4 * DEATHS));
    const made: unknown = await createHarness({
      ...(options.store === undefined ? {} : { store: options.store }),
      workers: { warm: 0 },
      models: {
        walking: { module: fixture('walking-model.mjs'), options: { shared: cells.buffer } },
      },
      tools: [{ module: fixture('tools.mjs') }],
      defaultModel: { provider: 'walking', model: 'test' },
      limits: {
        maxDepth: LEVELS + 1,
        maxThreads: options.maxThreads,
        interruptGraceMs: 150,
        // Ends those that hear of no interrupt, when nobody asks them to stop.
        turnMs: 2_000,
        // Node leaves the files open that a thread was loading as it was ended by force.
        stopGraceMs: 30_000,
      },
    });
    // The same class, built.
    const harness = made as Harness;
    const { agent } = await harness.agents.createHost({ sessionId: 'host' });
    return new Forest(options, harness, agent, cells);
  }

  /** What was seen, without anything of the forest itself. */
  get figures() {
    const { fates, epochs, deaths, interrupts, mostThreads, mostRssBytes } = this;
    const { count, notices } = epochs;
    const longestWaitMs = Math.round(this.longestWaitMs);
    return {
      fates,
      epochs: count,
      notices,
      deaths,
      interrupts,
      mostThreads,
      mostRssBytes,
      longestWaitMs,
    };
  }

  toString(): string {
    const { seed, maxThreads } = this.#options;
    const did = this.#did.slice(-60).join(', ');
    return `SEED=${seed}, ${maxThreads} threads: ${this.problems.join('; ')}\nafter ${did}`;
  }

  /** The whole walk and its end; what was wrong with it is in `problems`. */
  async walk(): Promise<void> {
    try {
      await this.#grow();
      await this.#goOn();
      await this.#check();
    } catch (error) {
      this.problems.push(String((error as Error).stack));
    } finally {
      clearInterval(this.#ticking);
      await this.harness.dispose();
      process.off('worker', this.#note);
    }
    for (const id of this.epochs.open) this.problems.push(`${id} has no end`);
    if (this.#workers.size > 0) this.problems.push(`${this.#workers.size} threads are left`);
    const { maxThreads } = this.#options;
    if (this.mostThreads > maxThreads) this.problems.push(`there were ${this.mostThreads} threads`);
  }

  async #grow(): Promise<void> {
    const { children, atOnce = 4 } = this.#options;
    const dice = this.#dice;
    // Starts may be refused, and what is refused is not tried for ever.
    for (let left = children * 20; this.#children.length < children && left > 0; left--) {
      this.#act();
      await this.#until(() => this.#acting.size < atOnce);
      const isLong = dice.chance(0.3);
      for (let turns = dice.int(6); turns > 0; turns--) await (isLong ? this.#tick() : macrotask());
    }
    await this.#until(() => this.#acting.size === 0);
  }

  #act(): void {
    const dice = this.#dice;
    const { agents } = this.harness;
    const act = dice.int(20);
    const known = this.#children.length === 0 ? undefined : dice.pick(this.#children.slice(-12));
    if (act < 8 || known === undefined) return this.#start();
    if (act < 12) return this.#tell(known, this.#words());
    if (act < 16) {
      this.interrupts++;
      const authority = { kind: 'user', parentSessionId: known.parent.id } as const;
      return this.#try(`interrupt ${known.id}`, () =>
        this.harness.subagents.interrupt(known.id, authority),
      );
    }
    if (act < 18 && agents.get(known.id) !== undefined) {
      return this.#try(`report of ${known.id}`, async () => {
        const child = agents.get(known.id)!;
        const given = { delivery: dice.pick(['quiet', 'wakeup', 'next-step'] as const) };
        await this.harness.subagents.reportFrom(child, prompt('work 1'), given);
      });
    }
    if (this.#workers.size === 0) return;
    const thread = dice.pick([...this.#workers]);
    this.deaths++;
    this.#did.push(`end thread ${thread}`);
    Atomics.store(this.#cells, thread % DEATHS, 1 + dice.int(2));
  }

  #words(): string {
    const dice = this.#dice;
    const odd = dice.int(24);
    if (odd === 0) return 'deaf';
    if (odd === 1) return 'fail';
    if (odd === 2) return 'call exit';
    if (odd === 3) return 'call throw_late';
    return `work ${dice.int(20)}`;
  }

  #start(): void {
    const { agents } = this.harness;
    const live = this.#children.filter(
      ({ id, level }) => level < LEVELS && agents.get(id) !== undefined,
    );
    const above = this.#dice.chance(0.3) || live.length === 0 ? undefined : this.#dice.pick(live);
    const parent = above === undefined ? this.#host : agents.get(above.id)!;
    const words = this.#words();
    const provider = this.#dice.pick(['spawn', 'spawn', 'fork']);
    const controller = new AbortController();
    this.#try(`${provider} below ${parent.id} (${words})`, async () => {
      const { childId, messageId } = await this.harness.subagents.startContinuable({
        provider,
        label: 'one of many',
        signal: controller.signal,
        request: { parent, prompt: prompt(words) },
      });
      this.#children.push({ id: childId, parent, level: (above?.level ?? 0) + 1 });
      this.#sent.push({ id: messageId, to: childId, parent: parent.id });
    });
  }

  #tell({ id, parent }: { id: SessionId; parent: Agent }, words: string): void {
    this.#try(`tell ${id} (${words})`, async () => {
      const given = { source: { kind: 'user' }, signal: signal() } as const;
      const told = await this.harness.subagents.followup(parent, id, prompt(words), given);
      this.#sent.push({ id: told.messageId, to: id, parent: parent.id });
    });
  }

  #try(what: string, act: () => unknown): void {
    this.#did.push(what);
    const acting = (async () => {
      try {
        await act();
      } catch (error) {
        const { code, name } = error as { code?: string; name: string };
        if (name === 'SubagentDepthError' || REFUSED.includes(code ?? '')) return;
        this.problems.push(`${what} failed: ${String(error)}`);
      }
    })().finally(() => this.#acting.delete(acting));
    this.#acting.add(acting);
  }

  /** What an interrupt left waiting is gone on with when something new is said, to the last child. */
  async #goOn(): Promise<void> {
    const { agents } = this.harness;
    const idle = (): boolean =>
      this.#acting.size === 0 &&
      agents.list().every((agent) => agent === this.#host || agent.status === 'idle');
    const hasQueue = ({ id }: { id: SessionId }): boolean =>
      (agents.get(id)?.inbox.nextTurn.length ?? 0) > 0;
    while (agents.list().length > 1) {
      await this.#until(() => idle() || agents.list().length === 1);
      for (let turn = 0; turn < 20; turn++) await macrotask();
      if (!idle()) continue;
      const parked = this.#children.find(hasQueue);
      if (parked !== undefined) this.#tell(parked, 'work 1');
      else await this.#until(() => !idle() || agents.list().length === 1);
    }
  }

  #tick(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** @throws when nothing happens any more */
  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      await this.#tick();
      this.#look();
    }
  }

  #look(): void {
    const now = performance.now();
    for (const agent of this.harness.agents.list()) {
      const waits =
        agent !== this.#host &&
        agent.status === 'running' &&
        agent.inbox.nextTurn.length > 0 &&
        agent.session.open === undefined;
      if (!waits) this.#waitingSince.delete(agent);
      else if (!this.#waitingSince.has(agent)) this.#waitingSince.set(agent, now);
      else {
        const ms = now - this.#waitingSince.get(agent)!;
        this.longestWaitMs = Math.max(this.longestWaitMs, ms);
      }
    }
    if (now - this.#changed < STUCK_MS) return;
    throw new Error(`Nothing happens any more:\n${this.#state()}`);
  }

  #state(): string {
    const lines = this.harness.agents.list().map((agent) => {
      const { id, status, inbox, session } = agent;
      const last = session.events.slice(-4).map(({ type }) => type);
      const open = session.open === undefined ? 'no turn' : 'a turn';
      const waits = `${inbox.nextTurn.length}+${inbox.nextStep.length} wait`;
      return `${id} is ${status}, has ${open}, ${waits}, ends with ${last.join(' ')}`;
    });
    return [...lines, `threads ${[...this.#workers].join()}`, `${this.#acting.size} acts`].join(
      '\n',
    );
  }

  /** Each accepted message was told, was claimed by a turn that was stopped, or is said to wait. */
  async #check(): Promise<void> {
    const { sessionPersistence } = this.harness;
    const logs = new Map<SessionId, readonly SessionEvent[]>([
      [this.#host.id, this.#host.session.events],
    ]);
    for (const { id } of this.#children) {
      const { header, events } = await sessionPersistence.inspect(id);
      logs.set(id, events.slice(header.seedLength ?? 0));
    }
    for (const { id, to, parent } of this.#sent) {
      const log = logs.get(to)!;
      const fate = fateOf(log, id);
      this.fates[fate] = (this.fates[fate] ?? 0) + 1;
      if (fate === 'told' || (fate === 'spent' && endAfterClaim(log, id) === 'aborted')) continue;
      const notices = logs
        .get(parent)!
        .flatMap((event) =>
          event.type === 'agent/inbox/spliced'
            ? event.data.inserted.filter(
                ({ source }) => source.kind === 'subagent-settled' && source.senderSessionId === to,
              )
            : [],
        );
      const text = textOf(notices.at(-1)?.content ?? []);
      if (fate === 'waits' && /\d+ messages? waits? for it still/.test(text)) continue;
      this.problems.push(`a message of ${to} is ${fate}; its last notice says "${text}"`);
    }
  }
}
