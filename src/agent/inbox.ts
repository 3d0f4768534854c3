/**
 * What waits for one agent: two ordered lists, both on main and both in its log. Every change is
 * an event first; the lists follow, then observers are told. Nobody else mutates them.
 */
import { isNotice } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import type { ClaimBoundary } from '../../protocol/host-services.ts';
import type { MessageId } from '../../protocol/ids.ts';
import type { InboxTarget } from '../../protocol/session-events.ts';
import type { Session } from '../session/session.ts';
import type { Claimed } from '../session/untold.ts';
import { nothingWaits, splice } from '../session/waiting.ts';
import type { InboxView } from './agent.ts';

/** Told after a change is in the log and in the lists, one message at a time. */
export interface InboxObserver {
  inserted(message: UserMessage): void;
  discarded(message: UserMessage): void;
  claimed(message: UserMessage, turn: number): void;
}

export class Inbox implements InboxView {
  readonly #session: Session;
  readonly #observer: InboxObserver;
  readonly #lists = nothingWaits();
  #claimed: Claimed[] = [];

  /**
   * Restores what an earlier life left waiting, from the session's own part of its log: what a
   * seed inherited from another session was never addressed to this agent.
   * @throws {ArgumentError} when the log holds a change that does not fit what waits.
   */
  constructor(session: Session, observer: InboxObserver) {
    this.#session = session;
    this.#observer = observer;
    for (const event of session.eventsFrom(session.header.seedLength ?? 0)) {
      if (event.type !== 'agent/inbox/spliced') continue;
      const { target, start, removedCount = 0 } = event.data;
      if (start + removedCount > this.#lists[target].length) {
        throw new ArgumentError(
          `Cannot restore the inbox of "${session.id}": event ${event.seq} does not fit it.`,
        );
      }
      splice(this.#lists, event.data);
    }
  }

  get nextTurn(): readonly UserMessage[] {
    return [...this.#lists['next-turn']];
  }

  get nextStep(): readonly UserMessage[] {
    return [...this.#lists['next-step']];
  }

  get hasPending(): boolean {
    return this.#lists['next-turn'].length > 0 || this.#lists['next-step'].length > 0;
  }

  /** How many wait, in both lists. */
  get size(): number {
    return this.#lists['next-turn'].length + this.#lists['next-step'].length;
  }

  has(id: MessageId): boolean {
    return this.#find(id) !== undefined;
  }

  /**
   * Put a message at the end of a list. Accepted when this returns.
   * @throws {ArgumentError} when a message of this id waits already, or it is not JSON data.
   */
  insert(target: InboxTarget, message: UserMessage): void {
    if (this.has(message.id)) {
      throw new ArgumentError(`A message "${message.id}" waits in the inbox already.`);
    }
    const start = this.#lists[target].length;
    const event = this.#session.append('agent/inbox/spliced', {
      target,
      start,
      inserted: [message],
    });
    // The frozen copy of the log, not the caller's object.
    const { inserted } = event.data;
    splice(this.#lists, event.data);
    for (const copy of inserted) this.#observer.inserted(copy);
  }

  /** Discard one waiting message. False when it does not wait (any more). */
  remove(id: MessageId): boolean {
    const place = this.#find(id);
    if (place === undefined) return false;
    this.#discard(place.target, place.index, 1);
    return true;
  }

  /** Discard all that waits, durably. */
  clear(): void {
    for (const target of ['next-step', 'next-turn'] as const) {
      this.#discard(target, 0, this.#lists[target].length);
    }
  }

  /**
   * Move messages into a turn: all of next-step, and for a turn at most one of next-turn, in
   * that order, and of each list no more than those at its front that are `ready`. What was
   * claimed is spent, whatever becomes of its step; only a claim whose
   * step never began, for no one's decision, is put back.
   */
  claim(
    boundary: ClaimBoundary,
    turn: number,
    ready: (message: UserMessage) => boolean = () => true,
  ): readonly UserMessage[] {
    this.#claimed = [];
    const claimed = [
      ...this.#take('next-step', Infinity, ready),
      ...(boundary === 'turn' ? this.#take('next-turn', this.#sizeOfTurn(), ready) : []),
    ];
    for (const message of claimed) this.#observer.claimed(message, turn);
    return claimed;
  }

  /** One message, or the notices that stand at the front: to hear of several takes one turn. */
  #sizeOfTurn(): number {
    const list = this.#lists['next-turn'];
    const count = list.findIndex(({ source }) => !isNotice(source));
    return Math.max(1, count === -1 ? list.length : count);
  }

  /** The last claim waits again, at the front of its lists. */
  putBack(): void {
    for (const { target, messages } of this.#claimed.splice(0)) {
      this.#session.append('agent/inbox/spliced', { target, start: 0, inserted: messages });
      splice(this.#lists, { target, start: 0, inserted: messages });
      for (const message of messages) this.#observer.inserted(message);
    }
  }

  #take(
    target: InboxTarget,
    most: number,
    ready: (message: UserMessage) => boolean,
  ): readonly UserMessage[] {
    const list = this.#lists[target];
    const end = list.findIndex((message) => !ready(message));
    const messages = list.slice(0, Math.min(most, end < 0 ? list.length : end));
    if (messages.length === 0) return [];
    const removed = messages.length;
    this.#session.append('agent/inbox/spliced', {
      target,
      start: 0,
      removedCount: removed,
      inserted: [],
    });
    splice(this.#lists, { target, start: 0, removedCount: removed, inserted: [] });
    this.#claimed.push({ target, messages });
    return messages;
  }

  #discard(target: InboxTarget, start: number, count: number): void {
    if (count === 0) return;
    const messages = this.#lists[target].slice(start, start + count);
    this.#session.append('agent/inbox/spliced', {
      target,
      start,
      removedCount: count,
      inserted: [],
      outcome: 'canceled',
    });
    splice(this.#lists, { target, start, removedCount: count, inserted: [] });
    for (const message of messages) this.#observer.discarded(message);
  }

  #find(id: MessageId): { target: InboxTarget; index: number } | undefined {
    for (const target of ['next-turn', 'next-step'] as const) {
      const index = this.#lists[target].findIndex((message) => message.id === id);
      if (index >= 0) return { target, index };
    }
    return undefined;
  }
}
