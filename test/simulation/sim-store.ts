/**
 * A store whose disk outlives main. What it is asked waits until the scheduler answers: writes in
 * their order, reads in any. A write fails, or takes its time, when the scheduler says so; what
 * was not written when the process died never is.
 */
import type { SessionId } from '../../protocol/ids.ts';
import { StoreError } from '../../protocol/errors.ts';
import type { SessionPersistence, StoreAppend } from '../../src/session/store.ts';
import type { MemoryStore } from '../../src/session/memory-store.ts';
import type { Life, StoreCall } from './life.ts';

export class SimStore implements SessionPersistence {
  readonly #life: Life;
  readonly #disk: MemoryStore;
  /** What was appended is told to whoever watches, once it is kept. */
  onAppended: ((batch: readonly StoreAppend[]) => void) | undefined;

  constructor(life: Life, disk: MemoryStore) {
    this.#life = life;
    this.#disk = disk;
  }

  list(...asked: Parameters<MemoryStore['list']>): ReturnType<MemoryStore['list']> {
    return this.#ask('list', false, () => this.#disk.list(...asked), asked[0]);
  }

  listBelow(...asked: Parameters<MemoryStore['listBelow']>): ReturnType<MemoryStore['listBelow']> {
    return this.#ask('listBelow', false, () => this.#disk.listBelow(...asked), asked[2]);
  }

  checkpoints(
    ...asked: Parameters<MemoryStore['checkpoints']>
  ): ReturnType<MemoryStore['checkpoints']> {
    return this.#ask('checkpoints', false, () => this.#disk.checkpoints(...asked), asked[1]);
  }

  inspect(...asked: Parameters<MemoryStore['inspect']>): ReturnType<MemoryStore['inspect']> {
    return this.#ask('inspect', false, () => this.#disk.inspect(...asked), asked[1]);
  }

  headerOf(...asked: Parameters<MemoryStore['headerOf']>): ReturnType<MemoryStore['headerOf']> {
    return this.#ask('headerOf', false, () => this.#disk.headerOf(...asked), asked[1]);
  }

  readFrom(...asked: Parameters<MemoryStore['readFrom']>): ReturnType<MemoryStore['readFrom']> {
    return this.#ask('readFrom', false, () => this.#disk.readFrom(...asked), asked[2]);
  }

  acquire(id: SessionId): ReturnType<MemoryStore['acquire']> {
    return this.#ask('acquire', true, () => this.#disk.acquire(id));
  }

  append(batch: readonly StoreAppend[]): Promise<void> {
    return this.#ask('append', true, async () => {
      await this.#disk.append(batch);
      this.onAppended?.(batch);
    });
  }

  renew(ids: readonly SessionId[]): Promise<void> {
    return this.#ask('renew', true, () => this.#disk.renew(ids));
  }

  release(): Promise<void> {
    return this.#ask('release', true, () => this.#disk.release());
  }

  delete(ids: readonly SessionId[]): Promise<void> {
    return this.#ask('delete', true, () => this.#disk.delete(ids));
  }

  close(): Promise<void> {
    return this.#ask('close', true, () => this.#disk.close());
  }

  #ask<T>(what: string, isWrite: boolean, run: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { calls, isOver } = this.#life;
    return new Promise<T>((resolve, reject) => {
      if (isOver) return;
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const leave = (): void => {
        const place = calls.indexOf(call);
        if (place >= 0) calls.splice(place, 1);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        leave();
        reject(signal?.reason as Error);
      };
      const call: StoreCall = {
        what,
        isWrite,
        notBefore: 0,
        finish: async () => {
          leave();
          await run().then(resolve, reject);
        },
        fail(error) {
          leave();
          reject(error);
        },
        doOnly: () => run().then(noop, noop),
      };
      signal?.addEventListener('abort', onAbort);
      calls.push(call);
    });
  }
}

const noop = (): void => {};

export const storeFailure = (code: 'STORE_IO' | 'STORE_FULL'): StoreError =>
  new StoreError(code, 'The disk does not take it.');

/** Calls that may be answered now: the first write, and every read. */
export function answerable(calls: readonly StoreCall[], now: number): StoreCall[] {
  let isBehind = false;
  return calls.filter((call) => {
    const isFirst = !call.isWrite || !isBehind;
    if (call.isWrite) isBehind = true;
    return isFirst && call.notBefore <= now;
  });
}
