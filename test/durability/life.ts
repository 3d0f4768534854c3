/**
 * One store and the processes that live on it, one after the other: each is killed at a moment
 * that the seed chooses, the last one is left in peace. What must be true is looked at after
 * every kill, by what this process wrote down itself.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Dice } from '../interleavings/plan.ts';
import { Acts, isOnOpening } from './acts.ts';
import { Brain } from './brain.ts';
import {
  fateOf,
  missedBy,
  openTurns,
  problemsOf,
  readProblems,
  reportProblems,
  reportsIn,
  successionProblems,
} from './checks.ts';
import type { Fate, Returned } from './checks.ts';
import { Client } from './client.ts';
import { nextInputs } from './next-input.ts';
import { Killer, planOf } from './killer.ts';
import type { Phase } from './killer.ts';
import { bytesOf, copyStore, lockStore, readStore } from './store-copy.ts';
import type { Stored } from './store-copy.ts';
import { Victim } from './victim.ts';

export interface LifeReport {
  readonly seed: number;
  readonly kills: readonly { readonly planned: Phase; readonly hit: Phase }[];
  readonly fates: Readonly<Record<Exclude<Fate, 'lost'>, number>>;
  /** Calls that a kill left without an answer. */
  readonly unanswered: number;
  /** Ids of reports that calls gave back, and of these those that a model has read. */
  readonly reports: { readonly returned: number; readonly read: number };
  /** Tool calls whose outcome is unknown, in all logs. */
  readonly unknownTools: number;
  readonly idleResumes: number;
  readonly problems: readonly string[];
  /** Kept when something is wrong. */
  readonly folder: string | undefined;
}

/** Lives of which one is resumed idly at its end. */
const IDLE_EVERY = 5;
const LAST_WORD_MS = 300_000;
const PATIENCE_MS = 20_000;
/** Neighbours in one life, and lives in a row, are spread over the phases. */
const SPREAD = [0.618_034, 0.754_878] as const;

export class Life {
  readonly #seed: number;
  readonly #dice: Dice;
  readonly #folder = mkdtempSync(join(tmpdir(), 'killed-'));
  readonly #store = join(this.#folder, 'store.db');
  readonly #file = join(this.#folder, 'effects.txt');
  readonly #client: Client;
  readonly #kills: { planned: Phase; hit: Phase }[] = [];
  readonly #problems: string[] = [];
  /** Calls that a kill has cut off, with how often their tools had been run. */
  readonly #cutOff = new Map<string, number>();
  #idleResumes = 0;
  #before: Stored = { sessions: new Map(), problems: [] };
  #brain!: Brain;
  /** Loaded while another one lives. */
  #next: Victim | undefined;

  constructor(seed: number) {
    this.#seed = seed;
    this.#dice = new Dice(seed);
    this.#client = new Client(this.#dice, join(this.#folder, 'returned.txt'));
  }

  async run(kills: number): Promise<LifeReport> {
    this.#brain = await Brain.start(new Dice(this.#seed + 0.5), this.#client);
    try {
      for (let kill = 0; kill < kills && this.#problems.length === 0; kill++) {
        await this.#liveAndDie(kill);
      }
      if (this.#problems.length === 0) await this.#lastLife();
    } catch (error) {
      this.#problems.push(`the checker failed: ${String((error as Error)?.stack ?? error)}`);
      this.#client.victim.kill();
      await this.#client.victim.ended;
    } finally {
      this.#next?.kill();
      await this.#next?.ended;
      await this.#brain.stop();
      this.#client.close();
    }
    return this.#report();
  }

  async #liveAndDie(kill: number): Promise<void> {
    const client = this.#client;
    const place = (this.#seed * SPREAD[0] + kill * SPREAD[1]) % 1;
    const plan = planOf(this.#dice, place, {
      hasAgents: client.roots.length > 0,
      hasOpenTurn: openTurns(this.#before).some((id) => client.roots.some((r) => r.id === id)),
      hasUntold: client.roots.some(({ id }) => missedBy(id, this.#before).length > 0),
    });
    const victim = this.#begin();
    const killer = new Killer(plan, () => victim.kill());
    victim.onTrapped = () => killer.meet(plan.phase);
    this.#brain.onPhase = (phase) => killer.meet(phase);
    let unlock = (): void => {};
    killer.onMet = () => {
      if (plan.phase === 'held') unlock = lockStore(this.#store);
    };
    const ended = victim.ended.then((complaint) => {
      killer.stop();
      unlock();
      if (complaint !== '') this.#problems.push(`it complained: ${complaint}`);
    });
    await victim.ready;
    const opened = victim.open({ store: this.#store, url: this.#brain.url, file: this.#file });
    killer.meet('opening');
    if (await opened) {
      // The next one, while there is something to wait for in this one.
      this.#next = new Victim();
      killer.meet('time');
      const patience = setTimeout(() => killer.give(), PATIENCE_MS);
      const isEarly = isOnOpening(killer.subject);
      const nth = isEarly ? 1 : plan.nth;
      if (plan.trap !== undefined) void client.ask('arm', { ...plan.trap, nth });
      killer.meet('resuming');
      await client.openRoots();
      await new Acts(client, this.#dice, killer).run();
      // Only what is going on by itself may still meet it.
      killer.give();
      await ended;
      clearTimeout(patience);
    }
    await ended;
    this.#kills.push({ planned: plan.phase, hit: killer.phase });
    await this.#look();
  }

  #begin(): Victim {
    const victim = this.#next ?? new Victim();
    this.#next = undefined;
    this.#client.victim = victim;
    return victim;
  }

  get #lines(): string[] {
    return existsSync(this.#file) ? readFileSync(this.#file, 'utf8').trimEnd().split('\n') : [];
  }

  /** Right after a kill: the file alone, then how it went on from the kill before. */
  async #look(): Promise<Stored> {
    const stored = await readStore(this.#store);
    this.#problems.push(
      ...problemsOf(stored, this.#client.returned, this.#lines, this.#cutOff),
      ...reportProblems(stored, this.#lines, this.#brain.reported),
      ...successionProblems(this.#before, stored),
      ...this.#brain.problems.splice(0),
      ...this.#client.problems.splice(0),
    );
    this.#before = stored;
    return stored;
  }

  /** Nothing kills it: what waits is run, first and in order, and everybody settles. */
  async #lastLife(): Promise<void> {
    const client = this.#client;
    this.#brain.onPhase = () => {};
    this.#brain.isCalm = true;
    const victim = this.#begin();
    const timer = setTimeout(() => {
      this.#problems.push('what is left in peace does not come to an end');
      victim.kill();
    }, LAST_WORD_MS);
    await victim.ready;
    if (this.#seed % IDLE_EVERY === 2) await this.#resumeIdly(victim);
    await victim.open({ store: this.#store, url: this.#brain.url, file: this.#file });
    await client.openRoots();
    await Promise.all(client.roots.map((root) => client.tell(root, 'followup')));
    // From the top down: a child is reached through its parent.
    for (const child of client.children) {
      if (this.#before.sessions.has(child.id)) await client.followup(child);
    }
    await client.ask('quiet');
    await client.ask('dispose');
    victim.leave();
    const complaint = await victim.ended;
    clearTimeout(timer);
    if (complaint !== '') this.#problems.push(`it complained: ${complaint}`);
    const stored = await this.#look();
    if (this.#problems.length > 0) return;
    for (const { id } of client.roots) {
      const [missed] = missedBy(id, stored);
      if (missed === undefined) continue;
      this.#problems.push(`${id} never heard of turn ${missed.turn} of ${missed.child}`);
    }
    const reports = reportsIn(this.#lines).map(({ id, parent }) => ({ id, session: parent }));
    for (const { session, id } of [...client.returned, ...reports]) {
      const isReached = client.roots.some((root) => root.id === session);
      if (isReached && fateOf(id, stored.sessions.get(session)) === 'waiting') {
        this.#problems.push(`${id} never ran`);
      }
    }
    this.#problems.push(...readProblems(stored, this.#brain.results));
  }

  /** Opened and closed again, with nothing said: neither logs nor the next requests change. */
  async #resumeIdly(victim: Victim): Promise<void> {
    const { sessions } = this.#before;
    const roots = this.#client.roots.filter(({ id }) => sessions.has(id));
    const children = this.#client.children.filter(({ id }) => sessions.has(id));
    const again = async (times: number): Promise<void> => {
      const ids = children.map(({ id }) => id);
      const where = { store: this.#store, url: this.#brain.url, file: this.#file };
      await victim.ask('again', { roots, children: ids, times, ...where });
      this.#idleResumes += times;
    };
    // The end of a child that a kill cut off is heard of one level up at a time.
    await again(3);
    const copies = [`${this.#store}.before`, `${this.#store}.after`] as const;
    copyStore(this.#store, copies[0]);
    const bytes = bytesOf(this.#store);
    await again(10);
    if (bytesOf(this.#store) !== bytes) this.#problems.push('ten idle resumes change a log');
    await this.#look();
    copyStore(this.#store, copies[1]);
    const asked = roots.filter(({ isHost }) => !isHost);
    const reached = children.filter(({ parent }) => roots.some(({ id }) => id === parent));
    const before = await nextInputs(victim, copies[0], asked, reached);
    const after = await nextInputs(victim, copies[1], asked, reached);
    for (const [at, input] of before.entries()) {
      if (input !== after[at]) {
        this.#problems.push(`ten idle resumes change a request:\n${input}\n${after[at]}`);
      }
    }
  }

  #report(): LifeReport {
    const fates = { told: 0, waiting: 0, discarded: 0, spent: 0 };
    for (const { id, session } of this.#client.returned as readonly Returned[]) {
      const fate = fateOf(id, this.#before.sessions.get(session));
      if (fate !== 'lost') fates[fate]++;
    }
    const results = [...this.#before.sessions.values()].flatMap(({ events }) =>
      events.filter(
        ({ type, data }) =>
          type === 'tool/result' &&
          (data as { error?: { code: string } }).error?.code === 'TOOL_OUTCOME_UNKNOWN',
      ),
    );
    const reports = { returned: reportsIn(this.#lines).length, read: this.#brain.reported.size };
    const isKept = this.#problems.length > 0;
    if (!isKept) rmSync(this.#folder, { recursive: true, force: true });
    return {
      seed: this.#seed,
      kills: this.#kills,
      fates,
      unanswered: this.#client.unanswered,
      reports,
      unknownTools: results.length,
      idleResumes: this.#idleResumes,
      problems: [...new Set(this.#problems)],
      folder: isKept ? this.#folder : undefined,
    };
  }
}
