import type { HarnessError } from '../../protocol/errors.ts';
import type { Port } from '../../protocol/port.ts';
import { deferred } from '../../src/base/deferred.ts';
import type { ThreadLimits } from '../../src/worker-host/limits.ts';
import type { AgentThread, ThreadEnd } from '../../src/worker-host/thread.ts';
import { linkedPorts } from '../support/linked-ports.ts';
import type { LinkedPorts } from '../support/linked-ports.ts';

/** A thread at the edge: it comes up, and goes, when the test says so. */
export class FakeThread implements AgentThread {
  readonly limits: ThreadLimits;
  readonly ports: LinkedPorts = linkedPorts();
  /** Everything it was asked for, in order. */
  readonly asked: string[] = [];
  readonly #up = deferred<void>();
  readonly #ended = deferred<ThreadEnd>();
  #takeHeld: ((held: Iterable<unknown>) => void) | undefined;
  #killReason: HarnessError | undefined;

  constructor(limits: ThreadLimits = { memoryMb: 256 }) {
    this.limits = limits;
    this.#up.promise.catch(() => {});
  }

  get up(): Promise<void> {
    return this.#up.promise;
  }

  get ended(): Promise<ThreadEnd> {
    return this.#ended.promise;
  }

  get killReason(): HarnessError | undefined {
    return this.#killReason;
  }

  assign(): Port {
    this.asked.push('assign');
    return this.ports.main;
  }

  note(word: object | 'stopped'): void {
    this.asked.push(word === 'stopped' ? 'stopped' : 'fault');
  }

  kill(reason: HarnessError): void {
    this.#killReason ??= reason;
    this.asked.push(`kill ${reason.code}`);
  }

  onGone(take: (held: Iterable<unknown>) => void): void {
    this.#takeHeld = take;
  }

  hold(held: boolean): void {
    this.asked.push(held ? 'hold' : 'let go');
  }

  cpuMs(): undefined {}

  comesUp(): void {
    this.#up.resolve();
  }

  /** It is gone, and its port still held these. */
  goes(error: HarnessError | undefined = this.#killReason, held: Iterable<unknown> = []): void {
    this.#takeHeld?.(held);
    this.#up.reject(error);
    this.#ended.resolve({ error });
  }
}
