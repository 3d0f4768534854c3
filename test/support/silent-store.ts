import type { StoreError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { StoredSession } from '../../src/session/store.ts';
import { gate } from '../../src/base/gate.ts';
import type { Gate } from '../../src/base/gate.ts';
import { StallingStore } from './stalling-store.ts';

/** What a store is asked. */
export type Question = 'append' | 'inspect' | 'readFrom' | 'acquire' | 'release' | 'close';

/** A store that a test has fall silent: what it is asked then is not answered before that is over. */
export class SilentStore extends StallingStore {
  readonly #gates = new Map<Question, Gate>();
  /** What the answers that come after a silence fail with. */
  fails: StoreError | undefined;

  silence(...questions: readonly Question[]): Gate {
    const silent = gate();
    for (const question of questions) this.#gates.set(question, silent);
    if (questions.includes('append')) this.hold = silent;
    return silent;
  }

  override async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    await this.#after('inspect');
    return super.inspect(id, signal);
  }

  override async readFrom(
    ...asked: Parameters<StallingStore['readFrom']>
  ): ReturnType<StallingStore['readFrom']> {
    await this.#after('readFrom');
    return super.readFrom(...asked);
  }

  override async acquire(id: SessionId): ReturnType<StallingStore['acquire']> {
    await this.#after('acquire');
    return super.acquire(id);
  }

  override async release(): Promise<void> {
    await this.#after('release');
    return super.release();
  }

  override async close(): Promise<void> {
    await this.#after('close');
    return super.close();
  }

  async #after(question: Question): Promise<void> {
    const silent = this.#gates.get(question);
    await silent?.wait();
    if (silent !== undefined && this.fails !== undefined) throw this.fails;
  }
}
