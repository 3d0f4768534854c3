/**
 * The sessions that one handle of a file holds: how they are taken, kept by leases, and given
 * back. What many sessions ask for in one tick is done together, a page at a time, so that other
 * work of this thread gets its turn in between.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Deferred } from '../base/deferred.ts';
import type { SqliteFile } from './sqlite-file.ts';
import type { SessionRow } from './sqlite-log.ts';
import type { OnLost } from './store.ts';
import type { StoreOwner } from './store-owner.ts';
import { StoreError } from '../../protocol/errors.ts';
import { deferred } from '../base/deferred.ts';
import { findRow } from './sqlite-log.ts';
import { STATEMENTS } from './sqlite-schema.ts';
import { heldElsewhere } from './store-owner.ts';
import { notFound } from './store-rules.ts';

export const LEASE_MS = 15_000;
export const RENEW_MS = 5_000;
/** Sessions in one transaction. */
const AT_ONCE = 100;
/** Sessions that are told to be taken in one span: each is read next. */
const TAKEN_AT_ONCE = 4;

/** A session, with the epoch it is or was held by. */
export type Held = readonly [id: SessionId, epoch: number];
interface Asked {
  readonly id: SessionId;
  readonly taken: Deferred<{ readonly epoch: number }>;
}

export class SqliteLeases {
  /** What the file sees as the owner of these. */
  readonly ownerText: string;
  readonly #file: SqliteFile;
  readonly #clock: Clock;
  readonly #owner: StoreOwner;
  readonly #listeners = new Set<OnLost>();
  readonly #held = new Map<SessionId, number>();
  /**
   * Given up and not yet given back. They are renewed no more; the giving back is tried until it
   * works, or the handle closes: for others of this host they are held as long as it lives.
   */
  readonly #leaving = new Map<SessionId, number>();
  #asked: Asked[] = [];
  /** Those that leave in this tick, as many as one transaction has. */
  #group: { readonly page: Held[]; readonly given: Promise<void> } | undefined;
  #closed: Promise<void> | undefined;
  #timer: Timer | undefined;

  constructor(file: SqliteFile, owner: StoreOwner, clock: Clock) {
    this.#file = file;
    this.#owner = owner;
    this.#clock = clock;
    this.ownerText = JSON.stringify(owner);
  }

  epochOf(id: SessionId): number | undefined {
    return this.#held.get(id);
  }

  leaseEnd(): number {
    return this.#clock.now() + LEASE_MS;
  }

  /** When a renewal finds that a session is another's. Returns the idempotent disposer. */
  onLost(listener: OnLost): () => void {
    const entry: OnLost = (...lost) => listener(...lost);
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** @throws {StoreError} `SESSION_NOT_FOUND`, `SESSION_OWNED_ELSEWHERE`, or of the write */
  acquire(id: SessionId): Promise<{ readonly epoch: number }> {
    const taken = deferred<{ readonly epoch: number }>();
    this.#asked.push({ id, taken });
    if (this.#asked.length === 1) void this.#takeAll();
    return taken.promise;
  }

  /** Whether this handle may have the session of this row. @throws {StoreError} */
  assertFree(id: SessionId, row: SessionRow): void {
    const problem = this.#refusal(id, row);
    if (problem !== undefined) throw problem;
  }

  isHeldElsewhere(id: SessionId, row: SessionRow): boolean {
    return this.#refusal(id, row) !== undefined;
  }

  #refusal(id: SessionId, { owner, leaseUntil }: SessionRow): StoreError | undefined {
    if (owner === null || owner === this.ownerText) return undefined;
    return heldElsewhere(id, owner, leaseUntil, this.#owner, this.#clock.now());
  }

  /** It is held, by a transaction that was committed in this very span. */
  hold(id: SessionId, epoch: number): void {
    this.#leaving.delete(id);
    this.#held.set(id, epoch);
    this.#timer ??= this.#next();
  }

  forget(ids: readonly SessionId[]): void {
    for (const id of ids) for (const some of [this.#held, this.#leaving]) some.delete(id);
  }

  /** @throws {StoreError} `STALE_EPOCH` for one that this handle does not hold */
  async renew(ids: readonly SessionId[]): Promise<void> {
    await this.#inPages(
      ids.map((id) => [id, this.#held.get(id) ?? 0] as const),
      (page) => {
        const missed = page.find((one) => !this.#renewOne(one));
        if (missed !== undefined) throw notHeld(missed[0]);
      },
    );
  }

  /**
   * They are renewed no more from here on. Resolves when they are free; one that could not be
   * given back is tried again with each write and each renewal.
   */
  release(ids: readonly SessionId[]): Promise<void> {
    const mine: Held[] = [];
    for (const id of ids) {
      const epoch = this.#held.get(id);
      if (epoch !== undefined) {
        this.#held.delete(id);
        this.#leaving.set(id, epoch);
      }
      const leaving = this.#leaving.get(id);
      if (leaving !== undefined) mine.push([id, leaving]);
    }
    if (mine.length === 0) return Promise.resolve();
    // A whole tick is waited for: with what leaves in it, and with what is written in it. Those
    // of one transaction go on together, and not all that leave in this tick.
    if (this.#group === undefined || this.#group.page.length >= AT_ONCE) {
      const page: Held[] = [];
      const given = nextTick().then(() => {
        if (this.#group?.page === page) this.#group = undefined;
        return this.#giveBack(page);
      });
      this.#group = { page, given };
    }
    this.#group.page.push(...mine);
    return this.#group.given;
  }

  /** Some of those to be given back, which a transaction can take along. */
  leaving(): readonly Held[] {
    const page: Held[] = [];
    for (const one of this.#leaving) if (page.push(one) === AT_ONCE) break;
    return page;
  }

  /** Inside of a transaction. */
  give(page: readonly Held[]): void {
    for (const one of page) this.#file.sql.run(STATEMENTS.release, ...one, this.ownerText);
  }

  /** Right after it. */
  gave(page: readonly Held[]): void {
    for (const [id, epoch] of page) if (this.#leaving.get(id) === epoch) this.#leaving.delete(id);
  }

  /** Give all back, then close the file. @throws {StoreError} */
  close(): Promise<void> {
    // In its turn: what is held then is known then. If it fails the leases end with this process.
    this.#closed ??= this.#file
      .close(() => {
        for (const [id, epoch] of this.#held) this.#leaving.set(id, epoch);
        this.#held.clear();
        const page = this.leaving();
        if (page.length > 0) this.#file.sql.transaction(() => this.give(page));
        this.gave(page);
        return this.#leaving.size > 0;
      })
      .finally(() => this.#timer?.cancel());
    return this.#closed;
  }

  async #takeAll(): Promise<void> {
    await nextTick();
    const asked = this.#asked;
    this.#asked = [];
    for (let from = 0; from < asked.length; from += AT_ONCE) {
      if (from > 0) await nextTick();
      const page = asked.slice(from, from + AT_ONCE);
      try {
        const ends = await this.#file.write(
          () => page.map(({ id }) => this.#take(id)),
          (taken) => {
            taken.forEach((epoch, index) => {
              if (typeof epoch === 'number') this.hold(page[index]!.id, epoch);
            });
          },
        );
        // Each goes on with a reading of its log: not all of them in one span.
        for (const [index, epoch] of ends.entries()) {
          if (typeof epoch === 'number') page[index]!.taken.resolve({ epoch });
          else page[index]!.taken.reject(epoch);
          if (index % TAKEN_AT_ONCE === TAKEN_AT_ONCE - 1) await nextTick();
        }
      } catch (error) {
        for (const { taken } of page) taken.reject(error);
      }
    }
  }

  /** The new epoch, or why this one may not be taken. */
  #take(id: SessionId): number | StoreError {
    const row = findRow(this.#file, id);
    if (row === undefined) return notFound(id);
    try {
      this.assertFree(id, row);
    } catch (error) {
      return error as StoreError;
    }
    const values = [row.key, row.epoch + 1, this.ownerText, this.leaseEnd()] as const;
    this.#file.sql.run(STATEMENTS.take, ...values);
    return row.epoch + 1;
  }

  async #giveBack(asked: readonly Held[]): Promise<void> {
    // Another transaction may have taken some of them along.
    const all = asked.filter(([id, epoch]) => this.#leaving.get(id) === epoch);
    await this.#inPages(all, (page) => this.give(page), (page) => this.gave(page)); // prettier-ignore
  }

  async #inPages<T>(
    all: readonly Held[],
    operation: (page: readonly Held[]) => T,
    onKept: (page: readonly Held[], result: T) => void = () => {},
  ): Promise<void> {
    for (let from = 0; from < all.length; from += AT_ONCE) {
      if (from > 0) await nextTick();
      // What it had to give back, it gives back as it closes.
      if (this.#closed !== undefined) return this.#closed;
      const page = all.slice(from, from + AT_ONCE);
      await this.#file.write(
        () => operation(page),
        (result) => onKept(page, result),
      );
    }
  }

  /** By the timer. What cannot be written now is tried again before the leases run out. */
  async #renewAll(): Promise<void> {
    const renewed = this.#inPages(
      [...this.#held],
      (page) => page.filter((one) => !this.#renewOne(one)),
      (_, missed) => this.#lose(missed),
    );
    await Promise.allSettled([renewed, this.#giveBack([...this.#leaving])]);
    this.#timer = undefined;
    if (this.#closed !== undefined || this.#held.size + this.#leaving.size === 0) return;
    this.#timer = this.#next();
  }

  #lose(missed: readonly Held[]): void {
    for (const [id, epoch] of missed) {
      if (this.#held.get(id) !== epoch) continue;
      this.#held.delete(id);
      for (const listener of this.#listeners) listener(id, epoch, notHeld(id));
    }
  }

  #renewOne([id, epoch]: Held): boolean {
    const values = [id, epoch, this.ownerText, this.leaseEnd()] as const;
    return this.#file.sql.run(STATEMENTS.renew, ...values).length > 0;
  }

  #next(): Timer {
    return this.#clock.after(RENEW_MS, () => void this.#renewAll());
  }
}

const notHeld = (id: SessionId): StoreError =>
  new StoreError('STALE_EPOCH', `Session \`${id}\` is not held by this process.`);
