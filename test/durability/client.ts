/**
 * Who drives the processes that are killed, and outlives them: it makes agents, sends them
 * messages, and writes down which ids were returned, on the disk before it goes on.
 */
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import type { Dice } from '../interleavings/plan.ts';
import type { Returned } from './checks.ts';
import { GONE, Refused } from './victim.ts';
import type { Victim } from './victim.ts';

export type Provider = 'remote' | 'thread';
const PROVIDERS: readonly Provider[] = ['remote', 'thread'];
const COMMANDS = ['say', 'say', 'slow', 'work', 'work', 'work', 'delegate', 'fail'];
const CHILD_COMMANDS = [
  'say',
  'slow',
  'work',
  'work',
  'report',
  'report',
  'report',
  'delegate',
  'fail',
];

export interface Root {
  readonly id: string;
  readonly isHost: boolean;
  readonly provider: Provider;
}
export interface Child {
  readonly id: string;
  readonly parent: string;
}

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

export class Client {
  readonly roots: Root[] = [];
  readonly children: Child[] = [];
  readonly returned: Returned[] = [];
  readonly problems: string[] = [];
  /** Calls that a kill left without an answer. */
  unanswered = 0;
  /** Whom the calls go to. */
  victim!: Victim;
  readonly #dice: Dice;
  readonly #record: number;
  readonly #owners = new Map<string, string>();
  readonly #names = new Map<string, string>();
  readonly #parents = new Map<string, string>();
  #marks = 0;
  #calls = 0;

  constructor(dice: Dice, path: string) {
    this.#dice = dice;
    this.#record = openSync(path, 'a');
  }

  close(): void {
    closeSync(this.#record);
  }

  /** A new mark, for a message that a model has sent to this one. */
  mark(owner?: string): string {
    const mark = String(++this.#marks);
    if (owner !== undefined) this.#owners.set(mark, owner);
    return mark;
  }

  parentOf(owner: string): string | undefined {
    return this.#parents.get(owner);
  }

  ownerOf(mark: string): string {
    return this.#owners.get(mark) ?? `?${mark}`;
  }

  /** All that is known is resumed, some at a time. */
  async openRoots(): Promise<void> {
    await Promise.all(
      this.roots.map(({ id, isHost, provider }) =>
        this.ask(isHost ? 'host' : 'resume', { id, provider }),
      ),
    );
  }

  async makeRoot(isHost = this.#dice.chance(0.3)): Promise<void> {
    const provider = this.#dice.pick(PROVIDERS);
    const id = (await this.ask(isHost ? 'host' : 'create', { provider })) as string | undefined;
    if (id === undefined) return;
    const root = { id, isHost, provider };
    // Only what was told something is stored, and is there after a kill.
    if (await this.tell(root, 'followup')) this.roots.push(root);
  }

  async tell(
    { id }: Root,
    how: 'followup' | 'steer' | 'inject',
    command?: string,
  ): Promise<boolean> {
    const [text, mark] = this.#text(id, command);
    return this.#accepted(id, mark, how === 'followup', 'tell', { id, how, text }, (value) => ({
      messageId: value as string,
    }));
  }

  async startChild(parent: string, command = this.#dice.pick(CHILD_COMMANDS)): Promise<void> {
    const provider = this.#dice.pick(['spawn', 'spawn', 'fork']);
    const [text, mark] = this.#text('', command);
    this.#owners.set(mark, `child ${mark}`);
    this.#parents.set(`child ${mark}`, this.#names.get(parent) ?? parent);
    const model = this.#dice.pick(PROVIDERS);
    const args = { parent, provider, model, text };
    await this.#accepted('', mark, true, 'start', args, (value) => {
      const { childId, messageId } = value as { childId: string; messageId: string };
      this.children.push({ id: childId, parent });
      this.#names.set(childId, `child ${mark}`);
      return { messageId, session: childId };
    });
  }

  async followup({ id, parent }: Child, command = this.#dice.pick(CHILD_COMMANDS)): Promise<void> {
    const [text, mark] = this.#text(id, command);
    await this.#accepted(id, mark, true, 'followup', { parent, id, text }, (value) => {
      return value as { messageId: string };
    });
  }

  async once(parent: string): Promise<void> {
    const [text, mark] = this.#text('');
    this.#owners.set(mark, `once ${mark}`);
    await this.ask('once', { parent, model: this.#dice.pick(PROVIDERS), text });
  }

  /** `undefined` when it was refused, or the process was killed before it answered. */
  async ask(op: string, args: object = {}): Promise<unknown> {
    try {
      return (await this.victim.ask(op, args)) ?? null;
    } catch (error) {
      if (error === GONE) this.unanswered++;
      else if (!(error instanceof Refused)) throw error;
      else if (!EXPECTED.has(error.code) && !/harness is being disposed/.test(error.message)) {
        this.problems.push(`${op} was refused: ${error.message}`);
      }
      return undefined;
    }
  }

  #text(owner: string, command = this.#dice.pick(COMMANDS)): [text: string, mark: string] {
    const mark = this.mark();
    this.#owners.set(mark, this.#names.get(owner) ?? owner);
    return [`[t${mark}] ${command}`, mark];
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
    const value = await this.ask(op, args);
    if (value === undefined) return false;
    const { messageId, session: made = session } = read(value);
    writeSync(this.#record, `${messageId} ${made} [t${mark}]\n`);
    fsyncSync(this.#record);
    this.returned.push({ id: messageId, session: made, from, to: ++this.#calls, isQueued });
    return true;
  }
}
