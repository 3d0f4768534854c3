/** What the client does while a process lives: anything, and what leads to how it is to die. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Dice } from '../interleavings/plan.ts';
import type { Child, Client, Root } from './client.ts';
import type { Killer, Subject } from './killer.ts';

/** Of one of the clients that act at a time. */
const ACTS = 16;
/** After so many, the next time that it comes to what was meant is the one. */
const HURRY_AFTER = 5;
const MOST_CHILDREN = 5;

export class Acts {
  readonly #client: Client;
  readonly #dice: Dice;
  readonly #killer: Killer;

  constructor(client: Client, dice: Dice, killer: Killer) {
    this.#client = client;
    this.#dice = dice;
    this.#killer = killer;
  }

  /** Nothing more when it is being killed: what was asked then is not answered. */
  async run(): Promise<void> {
    const { trap } = this.#killer;
    if (this.#client.roots.length === 0) await this.#client.makeRoot(false);
    await Promise.all([0, 1, 2].map((actor) => this.#act(actor)));
    if (this.#killer.isOver || trap === undefined) return;
    // It never comes to that here: any transaction, then.
    await this.#client.ask('arm', { when: 'after', what: 'any', nth: 1 });
  }

  async #act(actor: number): Promise<void> {
    for (let act = 0; act < ACTS && !this.#killer.isOver; act++) {
      if (act === HURRY_AFTER && actor === 0) this.#hurry();
      const asked = act % 2 === 0 ? this.#meant() : this.#any();
      this.#killer.meet('sent');
      this.#killer.meet('held');
      await asked;
      await pause(2 + this.#dice.int(20));
    }
  }

  #hurry(): void {
    const { trap } = this.#killer;
    this.#killer.hurry();
    if (trap !== undefined) void this.#client.ask('arm', { ...trap, nth: 1 });
  }

  /** An act that leads to it. */
  #meant(): Promise<unknown> {
    const client = this.#client;
    const dice = this.#dice;
    const root = dice.pick(client.roots.filter(({ isHost }) => !isHost)) as Root | undefined;
    const child = dice.pick(client.children) as Child | undefined;
    if (root === undefined) return this.#any();
    const send = (command: string): Promise<unknown> =>
      child === undefined || dice.chance(0.5)
        ? client.tell(root, 'followup', command)
        : client.followup(child, command);
    switch (this.#killer.subject) {
      case 'call':
      case 'result':
      case 'tool':
        return send('work');
      case 'child':
        return client.startChild(root.id);
      case 'report':
        return child === undefined
          ? client.startChild(root.id, 'report')
          : client.followup(child, 'report');
      case 'notice':
      case 'take':
      case 'repair':
        return child === undefined ? client.startChild(root.id) : client.followup(child, 'say');
      case 'discarded':
        if (dice.chance(0.7)) return Promise.all([send('slow'), send('slow'), send('say')]);
        return client.ask('cancel', { id: root.id, keepInbox: false });
      case 'release':
        return dice.chance(0.6) ? send('say') : client.ask('drain', { parent: root.id });
      case 'drain':
        if (child === undefined || dice.chance(0.6)) return send('slow');
        this.#killer.meet('drain');
        if (dice.chance(0.5)) return client.ask('drain', { parent: child.parent });
        return client.ask('reopen', root);
      case 'dispose':
        if (dice.chance(0.7)) return send('slow');
        this.#killer.meet('dispose');
        return client.ask('dispose');
      default:
        return send(dice.pick(['say', 'work', 'slow']));
    }
  }

  async #any(): Promise<unknown> {
    const client = this.#client;
    const dice = this.#dice;
    const root = dice.pick(client.roots) as Root | undefined;
    if (root === undefined || (client.roots.length < 2 && dice.chance(0.2))) {
      return client.makeRoot();
    }
    const parent = dice.chance(0.7) ? root.id : (dice.pick(client.children)?.id ?? root.id);
    const child = dice.pick(client.children) as Child | undefined;
    const roll = dice.next();
    if (child === undefined || (roll < 0.2 && client.children.length < MOST_CHILDREN)) {
      return client.startChild(parent);
    }
    if (roll < 0.3) return client.tell(root, dice.pick(['followup', 'steer', 'inject']));
    if (roll < 0.4) return client.tell(root, 'followup');
    if (roll < 0.5) return client.ask('interrupt', { parent: child.parent, id: child.id });
    if (roll < 0.53) return client.ask('cancel', { id: root.id, keepInbox: dice.chance(0.7) });
    if (roll < 0.56) return client.ask('drain', { parent });
    if (roll < 0.6) return client.once(parent);
    const burst = dice.chance(0.2) ? 4 : 1;
    return Promise.all(Array.from({ length: burst }, () => client.followup(child)));
  }
}

/** These are come to while the agents are opened. */
export const isOnOpening = (subject: Subject | string): boolean =>
  subject === 'take' || subject === 'repair' || subject === 'notice';
