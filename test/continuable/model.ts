/**
 * What should become of continuable children, told by a plain graph that knows nothing of the
 * code: who is resident, what waits, what was told. Each act is over before the next.
 */
export type Parked = 'interrupt' | 'failure' | 'resume' | undefined;
type List = 'next-turn' | 'next-step';

interface Waiting {
  /** `m4`, or `notice c2`. */
  readonly token: string;
  /** The child that it comes from; absent for what was said by a user. */
  readonly from?: string;
  readonly isNotice?: boolean;
  wakes: boolean;
  /** One of several ends in one act: which list it waits in goes by which of them was first. */
  isFree?: boolean;
}

export class Member {
  readonly id: string;
  readonly parent: Member | undefined;
  readonly depth: number;
  readonly children: Member[] = [];
  readonly lists: Record<List, Waiting[]> = { 'next-turn': [], 'next-step': [] };
  readonly told: string[] = [];
  readonly discarded: string[] = [];
  isResident = true;
  isInTurn = false;
  isClosing = false;
  /** Nothing new is taken on below it until it is gone. */
  isClosed = false;
  discards = false;
  parkedBy: Parked;
  epochs = 0;
  /** Waking messages that keep it resident. */
  accepted = new Set<Waiting>();

  constructor(id: string, parent?: Member) {
    this.id = id;
    this.parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
    parent?.children.push(this);
  }

  get isDrained(): boolean {
    return this.isClosed || (this.parent?.isDrained ?? false);
  }

  get waits(): Waiting[] {
    return [...this.lists['next-turn'], ...this.lists['next-step']];
  }

  /** Notices that may wait in either list wait where they do. */
  place(seen: Readonly<Record<List, readonly string[]>>): void {
    const free = this.waits.filter(({ isFree }) => isFree === true);
    if (free.length === 0) return;
    const lists = ['next-turn', 'next-step'] as const;
    for (const list of lists) {
      this.lists[list] = this.lists[list].filter(({ isFree }) => isFree !== true);
    }
    for (const list of lists) {
      seen[list].forEach((token, at) => {
        const found = free.findIndex((message) => message.token === token);
        if (found === -1 || this.lists[list][at]?.token === token) return;
        const [message] = free.splice(found, 1);
        this.lists[list].splice(at, 0, { ...message!, isFree: false });
      });
    }
    // What is not there yet, or never will be.
    this.lists['next-step'].push(...free);
  }

  waiting(list: List): string[] {
    return this.lists[list].map(({ token }) => token);
  }
}

export class Model {
  readonly root = new Member('root');
  readonly members: Member[] = [this.root];
  #messages = 0;
  #isEnding = false;

  get children(): Member[] {
    return this.members.slice(1);
  }

  get residents(): Member[] {
    return this.members.filter(({ isResident }) => isResident);
  }

  newMessage(): string {
    return `m${++this.#messages}`;
  }

  start(parent: Member, token: string): Member {
    const child = new Member(`c${this.members.length}`, parent);
    this.members.push(child);
    child.epochs++;
    this.#wake(child, { token, wakes: true });
    return child;
  }

  followup(child: Member, token: string): void {
    if (!child.isResident) {
      child.isResident = true;
      child.epochs++;
    }
    this.#wake(child, { token, wakes: true });
  }

  report(child: Member, token: string, delivery: 'quiet' | 'wakeup' | 'next-step'): void {
    const parent = child.parent!;
    const message: Waiting = { token, from: child.id, wakes: delivery !== 'quiet' };
    // What a child says waits behind what it said before.
    const isQueued = parent.lists['next-turn'].some(({ from }) => from === child.id);
    const list = delivery === 'wakeup' || isQueued ? 'next-turn' : 'next-step';
    if (delivery === 'quiet') parent.lists[list].push(message);
    else this.#wake(parent, message, list);
  }

  interrupt(member: Member): void {
    if (!member.isInTurn) return;
    this.#stop(member, 'interrupt');
  }

  crash(member: Member): void {
    if (member.isInTurn) this.#stop(member, 'failure');
  }

  answer(member: Member, fails: boolean): void {
    if (fails) return this.#stop(member, 'failure');
    if (member.lists['next-step'].length > 0) return this.#claim(member, 'next-step', Infinity);
    member.isInTurn = false;
    this.#goOn(member);
  }

  drain(child: Member): void {
    if (child.isResident) this.#end(child, true);
  }

  drainBelow(member: Member): void {
    member.isClosed = true;
    for (const child of member.children) if (child.isResident) this.#end(child, true);
    this.#judge(member);
  }

  /** The whole harness ends, and another goes on with the store. */
  restart(): void {
    this.#isEnding = true;
    this.root.isInTurn = false;
    for (const child of this.root.children) if (child.isResident) this.#end(child, false);
    this.#isEnding = false;
    this.#leave(this.root);
    this.root.isResident = true;
  }

  #stop(member: Member, why: Parked): void {
    member.isInTurn = false;
    member.parkedBy = why;
    this.#judge(member);
  }

  #wake(member: Member, message: Waiting, list: List = 'next-turn'): void {
    member.lists[list].push(message);
    if (member.parent !== undefined) member.accepted.add(message);
    member.parkedBy = undefined;
    this.#goOn(member);
  }

  /** Open a turn when there is something for one, or else settle. */
  #goOn(member: Member): void {
    if (member.isInTurn) return;
    const turn = member.lists['next-turn'];
    const mayOpen = turn.length > 0 || member.lists['next-step'].some(({ wakes }) => wakes);
    if (member.parkedBy !== undefined || !mayOpen) return this.#judge(member);
    member.isInTurn = true;
    this.#claim(member, 'next-step', Infinity);
    const notices = turn.findIndex(({ isNotice }) => isNotice !== true);
    this.#claim(member, 'next-turn', Math.max(1, notices === -1 ? turn.length : notices));
  }

  #claim(member: Member, list: List, most: number): void {
    for (const message of member.lists[list].splice(0, most)) {
      member.accepted.delete(message);
      member.told.push(message.token);
    }
  }

  /** With nothing to do, and nobody below it that is resident, a child is released. */
  #judge(member: Member): void {
    if (member.parent === undefined || !member.isResident || member.isClosing) return;
    if (member.isInTurn || (member.accepted.size > 0 && member.parkedBy !== 'failure')) return;
    if (member.children.some(({ isResident }) => isResident)) return;
    this.#end(member, false);
  }

  #end(member: Member, discards: boolean): void {
    member.isClosing = true;
    member.isInTurn = false;
    member.discards = discards;
    if (discards) this.#discard(member);
    for (const child of member.children) if (child.isResident) this.#end(child, discards);
    this.#leave(member);
    this.#notify(member);
  }

  #leave(member: Member): void {
    member.isResident = member.isInTurn = member.isClosing = member.isClosed = false;
    member.parkedBy = 'resume';
    member.accepted.clear();
    for (const message of member.waits) message.wakes = false;
  }

  #discard(member: Member): void {
    member.discarded.push(...member.waiting('next-turn'), ...member.waiting('next-step'));
    member.lists['next-turn'].length = member.lists['next-step'].length = 0;
  }

  #notify({ id, parent }: Member): void {
    const to = parent!;
    const message: Waiting = { token: `notice ${id}`, from: id, isNotice: true, wakes: true };
    const isQueued = to.lists['next-turn'].some(
      ({ from, isNotice }) => from === id || (isNotice === true && !to.isInTurn),
    );
    if (to.isClosing || to.isDrained || this.#isEnding) {
      message.wakes = false;
      message.isFree = true;
      to.lists[isQueued ? 'next-turn' : 'next-step'].push(message);
      if (to.isClosing && to.discards) this.#discard(to);
      else this.#judge(to);
    } else this.#wake(to, message, isQueued || !to.isInTurn ? 'next-turn' : 'next-step');
  }
}
