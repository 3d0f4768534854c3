import type { StoreError } from '../../protocol/errors.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { StoreAppend } from '../../src/session/store.ts';
import { gate } from './gate.ts';
import type { Gate } from './gate.ts';

/** A store whose writes wait, or fail, when a test says so. */
export class StallingStore extends MemoryStore {
  /** Writes wait here. */
  hold: Gate | undefined;
  /** Writes fail with this. */
  failure: StoreError | undefined;

  stall(): Gate {
    this.hold = gate();
    return this.hold;
  }

  override async append(batch: readonly StoreAppend[]): Promise<void> {
    await this.hold?.wait();
    if (this.failure !== undefined) throw this.failure;
    await super.append(batch);
  }
}
