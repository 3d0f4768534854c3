/**
 * Projections of sessions that are not live: read from the store and folded, off the main thread
 * where that is possible. Who asks for the same session at the same time shares one reading.
 */
import { existsSync } from 'node:fs';
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { SessionId } from '../../../protocol/ids.ts';
import type { Json } from '../../../protocol/json.ts';
import type { SessionHeader } from '../../../protocol/session-events.ts';
import type { Logger } from '../../base/logger.ts';
import type { Offload } from '../../base/offload.ts';
import type { Sessions } from '../sessions.ts';
import type { PackedSession, StoredSession } from '../store.ts';
import type { LogSource } from './packed-log.ts';
import type { ProjectionSnapshot, ProjectionUnit } from './projection.ts';
import type { SessionProjections } from './registry.ts';
import { ProjectionError, STORE_ERROR_CODES, StoreError } from '../../../protocol/errors.ts';
import type { StoreErrorCode } from '../../../protocol/errors.ts';
import { raceSignal } from '../../base/deferred.ts';
import { Slots } from '../../base/slots.ts';
import { foldStored } from './cold-fold.ts';
import { FoldBatches } from './fold-batches.ts';
import type { FoldOrder } from './fold-batches.ts';
import { joinBodies, packedSource } from './packed-log.ts';

export interface ColdSnapshot {
  readonly header: SessionHeader;
  readonly values: Readonly<Record<string, Json>>;
}

/** Readings at once, and folds of what is large or folded here. */
export const COLD_AT_ONCE = 4;
/** Bytes of a log that does not hold up the next reading while it is folded elsewhere. */
const SMALL = 64 * 1_024;

/** Units with a wire, and how a thread is asked for them. */
interface ShownUnits {
  readonly revision: number;
  readonly units: readonly ProjectionUnit[];
  readonly wanted: FoldOrder['units'];
}

interface Shared {
  readonly snapshot: Promise<ColdSnapshot>;
  readonly stop: AbortController;
  observers: number;
}

export class ColdFolds {
  readonly #sessions: Sessions;
  readonly #projections: SessionProjections;
  readonly #offload: Offload | undefined;
  readonly #batches: FoldBatches | undefined;
  readonly #logger: Logger;
  readonly #slots = new Slots(COLD_AT_ONCE);
  readonly #shared = new Map<string, Shared>();
  /** Units that a thread could not load: they are folded here, with all that is folded then. */
  readonly #notElsewhere = new Set<string>();
  #shown: ShownUnits | undefined;
  #isClosed = false;

  /** @param options.offload takes `foldEntry()`; absent: all is folded on the main thread */
  constructor(options: {
    readonly sessions: Sessions;
    readonly projections: SessionProjections;
    readonly logger: Logger;
    readonly offload?: Offload | undefined;
  }) {
    this.#sessions = options.sessions;
    this.#projections = options.projections;
    this.#logger = options.logger;
    this.#offload = options.offload;
    this.#batches = options.offload && new FoldBatches(options.offload);
  }

  /**
   * What all units with a wire show of a stored session, as it would be resumed. Waits for one
   * that is leaving; one that is live by then is shown as it is.
   * @throws the signal's own reason. It ends only this waiting, unless nobody else waits.
   * @throws {StoreError} when the session cannot be read
   * @throws {ProjectionError} when it can, and a unit fails
   * @throws {WorkerError} when the thread that folded it ended
   */
  async coldSnapshot(id: SessionId, signal?: AbortSignal): Promise<ColdSnapshot> {
    signal?.throwIfAborted();
    // What was begun with other units is not what is asked for.
    const key = `${this.#projections.revision} ${id}`;
    let shared = this.#shared.get(key);
    if (shared === undefined) this.#shared.set(key, (shared = this.#begin(id, key)));
    const mine = shared;
    mine.observers++;
    try {
      return await raceSignal(mine.snapshot, signal);
    } finally {
      if (--mine.observers === 0 && this.#shared.get(key) === mine) {
        // In the same step as the abort: who comes now begins anew, and not with what is ended.
        this.#shared.delete(key);
        mine.stop.abort();
      }
    }
  }

  /**
   * What the store's checkpoints show of these sessions, without reading a log: of those that
   * have one. Each lags behind its log or is level with it. A checkpoint is kept and deleted with
   * its session, so it cannot be of an earlier one of the same id. A cache: what cannot be read
   * is not there.
   * @throws the signal's own reason
   */
  async cachedSnapshots(
    headers: readonly SessionHeader[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<SessionId, ProjectionSnapshot>> {
    signal?.throwIfAborted();
    const { store } = this.#sessions;
    if (store.checkpoints === undefined || headers.length === 0) return new Map();
    const snapshots = new Map<SessionId, ProjectionSnapshot>();
    try {
      const ids = headers.map(({ id }) => id);
      for (const [id, checkpoint] of await store.checkpoints(ids, signal)) {
        snapshots.set(id, this.#projections.viewCheckpoint(checkpoint));
      }
    } catch {
      // Rejected, thrown, or no checkpoints at all: a store may be anybody's.
    }
    signal?.throwIfAborted();
    return snapshots;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** End the threads, if there are any. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#offload?.close();
  }

  #begin(id: SessionId, key: string): Shared {
    const stop = new AbortController();
    const snapshot = this.#snapshot(id, stop.signal).finally(() => {
      if (this.#shared.get(key) === shared) this.#shared.delete(key);
    });
    snapshot.catch(() => {});
    const shared: Shared = { snapshot, stop, observers: 0 };
    return shared;
  }

  async #snapshot(id: SessionId, signal: AbortSignal): Promise<ColdSnapshot> {
    const shown = this.#shownUnits();
    for (;;) {
      const begun = await this.#slots.run(() => this.#begun(shown, id, signal), signal);
      if (begun === undefined) continue;
      return Object.freeze({ header: begun.header, values: await begun.values });
    }
  }

  /** The same object until other units are registered: many orders that share it are one message. */
  #shownUnits(): ShownUnits {
    const { revision } = this.#projections;
    if (this.#shown?.revision !== revision) {
      const units = this.#projections.units.filter(({ wire }) => wire !== undefined);
      const wanted = units.map(({ key, stateVersion, module }) => {
        return { key, stateVersion, module: String(module) };
      });
      this.#shown = { revision, units, wanted };
    }
    return this.#shown;
  }

  /** Read, and folded unless that is left to others; `undefined`: it is to be read again. */
  async #begun(
    shown: ShownUnits,
    id: SessionId,
    signal: AbortSignal,
  ): Promise<{ header: SessionHeader; values: Promise<ColdSnapshot['values']> } | undefined> {
    // A small log is read in one go, and many may wait to be.
    await othersTurn();
    signal.throwIfAborted();
    const stored = await this.#sessions.readStored(id, signal);
    const live = this.#sessions.get(id);
    if (stored === undefined) {
      // It came back while it was asked for; if it has left again since, it is read again.
      if (live === undefined) return undefined;
      const { values } = this.#projections.snapshot(live);
      return { header: live.header, values: Promise.resolve(values) };
    }
    const goesElsewhere =
      this.#batches !== undefined && 'bodies' in stored && this.#goesElsewhere(shown.units);
    const isSmall = goesElsewhere && bytesOf(stored) <= SMALL;
    const values = goesElsewhere
      ? this.#foldElsewhere(shown, stored, signal, isSmall)
      : this.#foldHere(shown.units, stored, signal);
    // Whoever is given it hears of its failure.
    const settled = values.catch(() => {});
    if (!isSmall) await settled;
    return { header: stored.header, values };
  }

  #goesElsewhere(units: readonly ProjectionUnit[]): boolean {
    return units.every((unit) => unit.module && !this.#notElsewhere.has(nameOf(unit)));
  }

  async #foldElsewhere(
    { units, wanted }: ShownUnits,
    stored: PackedSession,
    signal: AbortSignal,
    isSmall: boolean,
  ): Promise<ColdSnapshot['values']> {
    if (this.#batches === undefined) return this.#foldHere(units, stored, signal);
    const order: FoldOrder = { ...stored, units: wanted };
    const reply = await (isSmall
      ? this.#batches.fold(order, signal)
      : this.#batches.foldAlone(order, signal));
    switch (reply.kind) {
      case 'folded':
        return Object.freeze(reply.values);
      case 'unreadable':
        throw new StoreError(storeCode(reply.error.code), reply.error.message, {
          cause: reply.error,
        });
      case 'failed':
        throw new ProjectionError(reply.key, reply.error.message, { cause: reply.error });
      case 'unloadable': {
        const { keys, error } = reply;
        for (const unit of units) if (keys.includes(unit.key)) this.#notElsewhere.add(nameOf(unit));
        this.#logger.warn({ keys, error }, 'Projections are folded on the main thread.');
        return this.#foldHere(units, stored, signal);
      }
      default:
        return reply satisfies never;
    }
  }

  async #foldHere(
    units: readonly ProjectionUnit[],
    stored: PackedSession | StoredSession,
    signal: AbortSignal,
  ): Promise<ColdSnapshot['values']> {
    const steps = foldStored(units, stored.header, sourceOf(stored));
    for (;;) {
      const step = steps.next();
      if (step.done === true) return Object.freeze(step.value);
      await othersTurn();
      signal.throwIfAborted();
    }
  }
}

/**
 * The built file of a thread that folds; `undefined` where there is none, as beside the sources
 * or in a bundle: then all is folded on the main thread.
 */
export function foldEntry(): URL | undefined {
  const url = new URL('./fold-helper.js', import.meta.url);
  return existsSync(url) ? url : undefined;
}

const bytesOf = ({ bodies }: PackedSession): number =>
  bodies.reduce((sum, body) => sum + body.length, 0);

const nameOf = ({ key, stateVersion, module }: ProjectionUnit): string =>
  `${key} ${stateVersion} ${String(module)}`;

function sourceOf(stored: PackedSession | StoredSession): LogSource {
  return 'bodies' in stored ? packedSource(joinBodies(stored.bodies)) : stored.events;
}

/** What is wrong with a log in no way that is known is damage. */
const storeCode = (code: string): StoreErrorCode =>
  STORE_ERROR_CODES.find((known) => known === code) ?? 'STORE_CORRUPT';
