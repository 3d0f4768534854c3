import { isInstance } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { assertOptions } from './assert-options.ts';
import type { OptionKind } from './assert-options.ts';
import { deferred } from './deferred.ts';
import { assertTornDown } from './teardown.ts';

/** @inline */
type Disposer = () => void | Promise<void>;

/** Who a registration belongs to. */
export interface Ownership {
  /** Undoes the registration when it is disposed. Absent: the returned disposer alone does. */
  readonly scope?: Scope;
}

/**
 * Register something on behalf of an owner. Returns the idempotent disposer.
 * @param more what else stands beside `scope` in the same options
 * @throws {ArgumentError} when the owner is none, or gone; nothing is registered then
 */
export function owned(
  owner: Ownership,
  register: () => () => void,
  more: Readonly<Record<string, OptionKind>> = {},
): () => void {
  assertOptions('the owner of a registration', owner, { scope: 'object', ...more });
  const { scope } = owner;
  if (scope !== undefined && !isInstance(scope, Scope)) {
    throw new ArgumentError('The owner of a registration is a Scope of this library.');
  }
  if (scope?.isDisposed === true) throw ownerIsGone();
  const undo = register();
  if (scope === undefined) return undo;
  try {
    const leave = scope.add(undo);
    return () => void leave();
  } catch (error) {
    // Disposed by an observer of the registration itself.
    undo();
    throw error;
  }
}

const ownerIsGone = (): ArgumentError =>
  new ArgumentError('The scope that was to own this is disposed.');

/**
 * What one owner has to undo. Disposed last-in first-out, one after another, to quiescence;
 * every disposer is tried, and failures are reported together at the end.
 */
export class Scope {
  readonly #disposers = new Set<Disposer>();
  #disposal: Promise<void> | undefined;

  get isDisposed(): boolean {
    return this.#disposal !== undefined;
  }

  /**
   * Register what is to be undone. Returns an idempotent function that undoes it now.
   * @throws {ArgumentError} when the scope is disposed: its owner is gone.
   */
  add(disposer: Disposer): () => void | Promise<void> {
    if (this.#disposal !== undefined) throw ownerIsGone();
    // An entry of its own, so that one function added twice is run twice.
    const entry: Disposer = () => disposer();
    this.#disposers.add(entry);
    return () => {
      if (this.#disposers.delete(entry)) return entry();
    };
  }

  /**
   * Memoised: all callers wait for the one disposal.
   * @throws {SubagentError} `ACTIVATION_TEARDOWN_FAILED` when a disposer threw; all were tried.
   */
  dispose(): Promise<void> {
    if (this.#disposal === undefined) {
      const { promise, resolve } = deferred<void>();
      // Before the first disposer runs: one that adds to this scope, or disposes it, finds it
      // disposed already. What it added would never be undone.
      this.#disposal = promise;
      resolve(this.#run());
    }
    return this.#disposal;
  }

  /** As `dispose`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /** How what a disposer returns is waited for: whoever owns others' disposers may bound it. */
  protected waitFor(done: void | Promise<void>): void | Promise<void> {
    return done;
  }

  async #run(): Promise<void> {
    const failures: unknown[] = [];
    for (const disposer of [...this.#disposers].reverse()) {
      if (!this.#disposers.delete(disposer)) continue;
      try {
        await this.waitFor(disposer());
      } catch (error) {
        failures.push(error);
      }
    }
    assertTornDown('A scope', failures);
  }
}
