/** One watched tree: a snapshot, then what happens, in a queue of bounded length. */
import type { Board } from './board.ts';
import type { RowListing } from './operation-map.ts';
import { listRows } from './rows.ts';
import type { RuntimeEvent } from './runtime-events.ts';
import { watchRuntime } from './runtime-feed.ts';
import { deferred } from '../base/deferred.ts';
import type { Tell } from './tell.ts';

/** Events that wait for a slow reader; with more it is told of none of them, and shown the tree. */
const MAX_WAITING = 1_024;

export class TreeWatch {
  readonly #board: Board;
  readonly #watchId: string;
  readonly #rootId: string | undefined;
  readonly #tell: Tell;
  readonly #ended = new AbortController();
  readonly #stop: () => void;
  /** Sessions and runs of the watched tree; absent: all are. */
  readonly #inside: Set<string> | undefined;
  #waiting: RuntimeEvent[] = [];
  #hasOverflown = false;
  #stirred = deferred<void>();

  constructor(board: Board, watchId: string, rootId: string | undefined, tell: Tell) {
    this.#board = board;
    this.#watchId = watchId;
    this.#rootId = rootId;
    this.#tell = tell;
    this.#inside = rootId === undefined ? undefined : new Set([rootId]);
    // Before the first snapshot is read: what happens meanwhile comes after it.
    this.#stop = watchRuntime(board.harness, (event) => this.#push(event));
  }

  /**
   * The first snapshot is read before this resolves, and told in a later turn of the loop.
   * @throws as `listRows`
   */
  async begin(): Promise<void> {
    const first = await this.#rows();
    setImmediate(() => void this.#run(first));
  }

  async #rows(): Promise<RowListing> {
    const listing = await listRows(this.#board, this.#rootId, this.#ended.signal, () => {
      this.#waiting = [];
      this.#hasOverflown = false;
    });
    for (const { id } of listing.rows) this.#inside?.add(id);
    return listing;
  }

  close(): void {
    this.#stop();
    this.#ended.abort();
    this.#stirred.resolve();
  }

  #push(event: RuntimeEvent): void {
    if (!this.#concerns(event)) return;
    if (this.#waiting.length >= MAX_WAITING) {
      this.#waiting = [];
      this.#hasOverflown = true;
    }
    if (!this.#hasOverflown) this.#waiting.push(event);
    this.#stirred.resolve();
  }

  #concerns(event: RuntimeEvent): boolean {
    const inside = this.#inside;
    if (inside === undefined) return true;
    switch (event.type) {
      case 'session/created':
        if (event.parent !== undefined && inside.has(event.parent)) inside.add(event.session);
        return inside.has(event.session);
      case 'subagent/start':
      case 'subagent/end':
        if (inside.has(event.parent)) inside.add(event.id);
        return inside.has(event.id);
      default:
        return inside.has(event.session);
    }
  }

  async #run(first: RowListing): Promise<void> {
    const watchId = this.#watchId;
    const { signal } = this.#ended;
    if (!signal.aborted) await this.#tell('tree.snapshot', { watchId, ...first });
    while (!signal.aborted) {
      if (this.#hasOverflown) {
        await this.#tell('tree.overflow', { watchId });
        const listing = await this.#rows().catch(() => undefined);
        // The store does not answer now: the next event tries again.
        if (listing === undefined) this.#hasOverflown = false;
        else await this.#tell('tree.snapshot', { watchId, ...listing });
        continue;
      }
      const event = this.#waiting.shift();
      if (event !== undefined) {
        await this.#tell('tree.event', { watchId, event });
        continue;
      }
      // No await between the look and this, or what happens in between would stir nobody.
      this.#stirred = deferred();
      await this.#stirred.promise;
    }
  }
}
