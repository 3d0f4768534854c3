/**
 * One store and the processes that live on it, one after the other: each is killed at a moment
 * that the seed chooses, the last one is left in peace. What must be true is looked at after
 * every kill, by what this process wrote down itself.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Dice } from '../interleavings/plan.ts';
import { Brain } from './brain.ts';
import { fateOf, missedBy, problemsOf, successionProblems } from './checks.ts';
import type { Fate, Returned } from './checks.ts';
import { nextInput } from './next-input.ts';
import { Killer, planOf } from './killer.ts';
import type { Phase } from './killer.ts';
import { bytesOf, copyStore, readStore } from './store-copy.ts';
import type { Stored } from './store-copy.ts';
import { GONE, Refused, Victim } from './victim.ts';

export interface LifeReport {
  readonly seed: number;
  readonly kills: readonly Phase[];
  readonly fates: Readonly<Record<Exclude<Fate, 'lost'>, number>>;
  /** Calls that a kill left without an answer. */
  readonly unanswered: number;
  /** Tool calls whose outcome is unknown, in all logs. */
  readonly unknownTools: number;
  readonly problems: readonly string[];
  /** Kept when something is wrong. */
  readonly folder: string | undefined;
}

interface Root {
  readonly id: string;
  readonly isHost: boolean;
  readonly provider: Provider;
}
interface Child {
  readonly id: string;
  readonly parent: string;
}
type Provider = 'remote' | 'thread';

/** Refusals that a call may meet while others end what it is about. */
const EXPECTED: ReadonlySet<string | undefined> = new Set([
  'NOT_LIVE',
  'DRAINING',
  'ACTIVATION_CLOSING',
  'UNAUTHORIZED',
  'CAPACITY',
  'CANCELLED',
  'PARENT_UNAVAILABLE',
]);
const LAST_WORD_MS = 30_000;
const PATIENCE_MS = 10_000;

export class Life {
  readonly #seed: number;
  readonly #dice: Dice;
  readonly #folder = mkdtempSync(join(tmpdir(), 'killed-'));
  readonly #store = join(this.#folder, 'store.db');
  readonly #file = join(this.#folder, 'effects.txt');
  readonly #record = openSync(join(this.#folder, 'returned.txt'), 'a');
  readonly #roots: Root[] = [];
  readonly #children: Child[] = [];
  readonly #returned: Returned[] = [];
  readonly #owners = new Map<string, string>();
  readonly #problems: string[] = [];
  readonly #kills: Phase[] = [];
  #unanswered = 0;
  #marks = 0;
  #calls = 0;
  #before: Stored = { sessions: new Map(), problems: [] };
  #brain!: Brain;
  #victim!: Victim;

  constructor(seed: number) {
    this.#seed = seed;
    this.#dice = new Dice(seed);
  }

  async run(kills: number): Promise<LifeReport> {
    this.#brain = await Brain.start(new Dice(this.#seed + 0.5), {
      ownerOf: (mark) => this.#owners.get(mark) ?? `?${mark}`,
      mark: () => String(++this.#marks),
    });
    try {
      for (let kill = 0; kill < kills && this.#problems.length === 0; kill++) {
        await this.#liveAndDie(kill > 0);
      }
      if (this.#problems.length === 0) await this.#lastLife();
    } catch (error) {
      this.#problems.push(`the checker failed: ${String((error as Error)?.stack ?? error)}`);
      this.#victim.kill();
    } finally {
      await this.#brain.stop();
      closeSync(this.#record);
    }
    return this.#report();
  }

  async #liveAndDie(isReopened: boolean): Promise<void> {
    const plan = planOf(this.#dice, isReopened);
    const victim = this.#begin();
    const killer = new Killer(plan, () => victim.kill());
    victim.onTrapped = () => killer.meet(plan.phase);
    this.#brain.onPhase = (phase) => killer.meet(phase);
    const ended = victim.ended.then((complaint) => {
      killer.stop();
      if (complaint !== '') this.#problems.push(`it complained: ${complaint}`);
    });
    killer.meet('start');
    if (await victim.opened) {
      killer.meet('time');
      const patience = setTimeout(() => killer.give(), PATIENCE_MS);
      if (killer.isTrap) void this.#ask('arm', { at: plan.phase, nth: plan.nth });
      killer.meet('recovery');
      await this.#openRoots();
      await Promise.all([0, 1, 2].map(() => this.#act(killer)));
      // Only what is going on by itself may still meet it.
      killer.give();
      await ended;
      clearTimeout(patience);
    }
    await ended;
    this.#kills.push(killer.phase);
    await this.#look();
  }

  /** All that is known so far is resumed, some at a time. */
  async #openRoots(): Promise<void> {
    await Promise.all(
      this.#roots.map(({ id, isHost, provider }) =>
        this.#ask(isHost ? 'host' : 'resume', { id, provider }),
      ),
    );
  }

  async #act(killer: Killer): Promise<void> {
    for (let act = 0; act < 15 && !killer.isOver; act++) {
      const asked = this.#choose(killer);
      killer.meet('sent');
      await asked;
      await pause(3 + this.#dice.int(40));
    }
  }

  async #choose(killer: Killer): Promise<unknown> {
    const dice = this.#dice;
    const root = dice.pick(this.#roots);
    if (root === undefined || (this.#roots.length < 2 && dice.chance(0.2))) return this.#makeRoot();
    const parent = dice.chance(0.7) ? root.id : (dice.pick(this.#children)?.id ?? root.id);
    const child = dice.pick(this.#children);
    const roll = dice.next();
    if (killer.wants('drain') && roll < 0.15 && this.#children.length > 0) {
      killer.meet('drain');
      if (dice.chance(0.5)) return this.#ask('drain', { parent });
      return this.#ask('reopen', root);
    }
    if (killer.wants('dispose') && roll < 0.1) {
      killer.meet('dispose');
      return this.#ask('dispose');
    }
    if (child === undefined || (roll < 0.2 && this.#children.length < 5)) {
      return this.#startChild(parent);
    }
    if (roll < 0.3) return this.#tell(root, dice.pick(['followup', 'steer', 'inject']));
    if (roll < 0.4) return this.#tell(root, 'followup');
    if (roll < 0.5) return this.#ask('interrupt', { parent: child.parent, id: child.id });
    if (roll < 0.53) return this.#ask('cancel', { id: root.id, keepInbox: dice.chance(0.7) });
    if (roll < 0.56) return this.#ask('drain', { parent });
    if (roll < 0.6) return this.#once(parent);
    const burst = dice.chance(0.2) ? 4 : 1;
    return Promise.all(Array.from({ length: burst }, () => this.#followup(child)));
  }

  async #makeRoot(): Promise<void> {
    const isHost = this.#dice.chance(0.3);
    const provider = this.#dice.pick(PROVIDERS);
    const id = (await this.#ask(isHost ? 'host' : 'create', { provider })) as string | undefined;
    if (id === undefined) return;
    const root = { id, isHost, provider };
    // Only what was told something is stored, and is there after a kill.
    if (await this.#tell(root, 'followup')) this.#roots.push(root);
  }

  async #tell({ id }: Root, how: 'followup' | 'steer' | 'inject'): Promise<boolean> {
    const [text, mark] = this.#text(id);
    return this.#accepted(id, mark, how === 'followup', 'tell', { id, how, text }, (value) => ({
      messageId: value as string,
    }));
  }

  async #startChild(parent: string): Promise<void> {
    const provider = this.#dice.pick(['spawn', 'spawn', 'fork']);
    const [text, mark] = this.#text('');
    this.#owners.set(mark, `child ${mark}`);
    const model = this.#dice.pick(PROVIDERS);
    const args = { parent, provider, model, text };
    await this.#accepted('', mark, true, 'start', args, (value) => {
      const { childId, messageId } = value as { childId: string; messageId: string };
      this.#children.push({ id: childId, parent });
      this.#names.set(childId, `child ${mark}`);
      return { messageId, session: childId };
    });
  }

  async #followup({ id, parent }: Child): Promise<void> {
    const [text, mark] = this.#text(id);
    await this.#accepted(id, mark, true, 'followup', { parent, id, text }, (value) => {
      return value as { messageId: string };
    });
  }

  async #once(parent: string): Promise<void> {
    const [text, mark] = this.#text('');
    this.#owners.set(mark, `once ${mark}`);
    await this.#ask('once', { parent, model: this.#dice.pick(PROVIDERS), text });
  }

  readonly #names = new Map<string, string>();

  #text(owner: string): [text: string, mark: string] {
    const mark = String(++this.#marks);
    this.#owners.set(mark, this.#names.get(owner) ?? owner);
    return [`[t${mark}] ${this.#dice.pick(COMMANDS)}`, mark];
  }

  /** A call that gives an id back; it counts as returned once that is on the disk here. */
  async #accepted(
    session: string,
    mark: string,
    isQueued: boolean,
    op: string,
    args: object,
    read: (value: unknown) => { messageId: string; session?: string },
  ): Promise<boolean> {
    const from = ++this.#calls;
    const value = await this.#ask(op, args);
    if (value === undefined) return false;
    const { messageId, session: made = session } = read(value);
    writeSync(this.#record, `${messageId} ${made} [t${mark}]\n`);
    fsyncSync(this.#record);
    this.#returned.push({ id: messageId, session: made, from, to: ++this.#calls, isQueued });
    return true;
  }

  /** `undefined` when it was refused, or the process was killed before it answered. */
  async #ask(op: string, args: object = {}): Promise<unknown> {
    try {
      return (await this.#victim.ask(op, args)) ?? null;
    } catch (error) {
      if (error === GONE) this.#unanswered++;
      else if (!(error instanceof Refused)) throw error;
      else if (!EXPECTED.has(error.code) && !/harness is being disposed/.test(error.message)) {
        this.#problems.push(`${op} was refused: ${error.message}`);
      }
      return undefined;
    }
  }

  #begin(store = this.#store, url = this.#brain.url): Victim {
    this.#victim = new Victim({ store, url, file: this.#file });
    return this.#victim;
  }

  get #lines(): string[] {
    return existsSync(this.#file) ? readFileSync(this.#file, 'utf8').trimEnd().split('\n') : [];
  }

  /** Right after a kill: the file alone, then how it went on from the kill before. */
  async #look(): Promise<Stored> {
    const stored = await readStore(this.#store);
    this.#problems.push(
      ...problemsOf(stored, this.#returned, this.#lines),
      ...successionProblems(this.#before, stored),
      ...this.#brain.problems.splice(0),
    );
    this.#before = stored;
    return stored;
  }

  /** Nothing kills it: what waits is run, first and in order, and everybody settles. */
  async #lastLife(): Promise<void> {
    this.#brain.onPhase = () => {};
    this.#brain.isCalm = true;
    if (this.#dice.chance(0.25)) await this.#idleResumes();
    const victim = this.#begin();
    const timer = setTimeout(() => victim.kill(), LAST_WORD_MS);
    await victim.opened;
    await this.#openRoots();
    const words = this.#roots.map((root) => this.#tell(root, 'followup'));
    await Promise.all(words);
    // From the top down: a child is reached through its parent.
    for (const child of this.#children) {
      if (this.#before.sessions.has(child.id)) await this.#followup(child);
    }
    await this.#ask('quiet');
    await this.#ask('dispose');
    victim.leave();
    const complaint = await victim.ended;
    clearTimeout(timer);
    if (complaint !== '') this.#problems.push(`it complained: ${complaint}`);
    const stored = await this.#look();
    for (const { id } of this.#roots) {
      const [missed] = missedBy(id, stored);
      if (missed === undefined) continue;
      this.#problems.push(`${id} never heard of turn ${missed.turn} of ${missed.child}`);
    }
    for (const { session, id } of this.#returned) {
      const log = stored.sessions.get(session);
      const isReached = this.#roots.some((root) => root.id === session);
      if (isReached && fateOf(id, log) === 'waiting') this.#problems.push(`${id} never ran`);
    }
    for (const { events } of stored.sessions.values()) {
      for (const event of events) {
        if (event.type !== 'tool/result') continue;
        const { message } = event.data;
        const [block] = message.content;
        const read = this.#brain.results.get(message.source.callId);
        if (event.data.error?.code !== 'TOOL_OUTCOME_UNKNOWN' || read === undefined) continue;
        const text = block?.type === 'tool-result' ? JSON.stringify(block.content) : '';
        if (read !== '' && !text.includes(JSON.stringify(read).slice(1, -1))) {
          this.#problems.push(`a model read of ${message.source.callId}: ${read}, not ${text}`);
        }
      }
    }
  }

  /** Opened and closed again, with nothing said: neither log nor the next request grows. */
  async #idleResumes(): Promise<void> {
    const roots = this.#roots.filter(({ id }) => this.#before.sessions.has(id));
    const victim = this.#begin();
    await victim.opened;
    await this.#ask('again', { roots, times: 1 });
    const first = `${this.#store}.first`;
    copyStore(this.#store, first);
    const bytes = bytesOf(this.#store);
    await this.#ask('again', { roots, times: 9 });
    if (bytesOf(this.#store) !== bytes) this.#problems.push('ten idle resumes change a log');
    await this.#ask('dispose');
    victim.leave();
    await victim.ended;
    await this.#look();
    const asked = roots.find(({ isHost, provider }) => !isHost && provider === 'remote');
    if (asked === undefined) return;
    const tenth = `${this.#store}.tenth`;
    copyStore(this.#store, tenth);
    const inputs = await Promise.all([first, tenth].map((store) => nextInput(store, asked)));
    if (inputs[0] !== inputs[1]) {
      this.#problems.push(`ten idle resumes change the next request: ${inputs.join('\n')}`);
    }
  }

  #report(): LifeReport {
    const fates = { told: 0, waiting: 0, discarded: 0 };
    for (const { id, session } of this.#returned) {
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
    const isKept = this.#problems.length > 0;
    if (!isKept) rmSync(this.#folder, { recursive: true, force: true });
    return {
      seed: this.#seed,
      kills: this.#kills,
      fates,
      unanswered: this.#unanswered,
      unknownTools: results.length,
      problems: [...new Set(this.#problems)],
      folder: isKept ? this.#folder : undefined,
    };
  }
}

const PROVIDERS: readonly Provider[] = ['remote', 'thread'];
const COMMANDS = ['say', 'say', 'slow', 'work', 'work', 'work', 'report', 'delegate', 'fail'];
