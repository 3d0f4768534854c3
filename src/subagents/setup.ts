/**
 * Parts that a deployment adds to every continuable child before it can be seen, and can take
 * back at any time.
 */
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { ChildScope } from '../agent/create-options.ts';
import { isPromiseLetGo } from '../base/deferred.ts';

/** Adds its part, synchronously, and returns what takes it back. */
export type SetupContribution = (child: ChildScope) => () => void;

/** One contribution in one child. Undone once, whichever side comes first. */
class Installation {
  readonly #undo: () => void;
  #isUndone = false;

  constructor(undo: () => void) {
    this.#undo = undo;
  }

  /** Returns what it threw. */
  undo(): { readonly error: unknown } | undefined {
    if (this.#isUndone) return undefined;
    this.#isUndone = true;
    try {
      // What it still does by itself is not waited for.
      isPromiseLetGo(this.#undo());
      return undefined;
    } catch (error) {
      return { error };
    }
  }
}

interface Registration {
  readonly contribution: SetupContribution;
  readonly installations: Map<Installation, Batch>;
  isRemoved: boolean;
}

/** What was installed in one child. */
interface Batch {
  readonly installed: Map<Installation, Registration>;
  isRevoked: boolean;
}

export class Setups {
  readonly #registrations = new Set<Registration>();

  /**
   * For children that are built from now on, fresh or resumed; in the order of registration.
   * Returns the idempotent disposer, which takes it out of every resident child at once and
   * makes children that are still being built with it fail.
   *
   * @throws {ArgumentError} for no function
   * @throws {SubagentError} (the disposer) `ACTIVATION_SETUP_RELEASE_FAILED` after all were tried
   */
  register(contribution: SetupContribution): () => void {
    if (typeof contribution !== 'function') {
      throw new ArgumentError('A setup contribution is a function of the child.');
    }
    const registration: Registration = {
      contribution,
      installations: new Map(),
      isRemoved: false,
    };
    this.#registrations.add(registration);
    return () => {
      if (registration.isRemoved) return;
      registration.isRemoved = true;
      this.#registrations.delete(registration);
      const installations = [...registration.installations];
      registration.installations.clear();
      for (const [installation, batch] of installations) {
        batch.isRevoked = true;
        batch.installed.delete(installation);
      }
      release(installations.map(([installation]) => installation));
    };
  }

  /**
   * Install all that is registered now. What throws undoes those before it.
   * @returns what to call right before the child is published
   */
  install(child: ChildScope): { commit(): void } {
    const batch: Batch = { installed: new Map(), isRevoked: false };
    const undoAll = (): void => {
      const installations = [...batch.installed.keys()].reverse();
      for (const [installation, { installations: known }] of batch.installed) {
        known.delete(installation);
      }
      batch.installed.clear();
      release(installations);
    };
    try {
      for (const registration of [...this.#registrations]) {
        this.#installOne(registration, child, batch);
      }
    } catch (error) {
      try {
        undoAll();
      } catch {
        // The error of the contribution is the one to be told; all were tried.
      }
      throw error;
    }
    child.onDispose(undoAll);
    return {
      commit() {
        if (batch.isRevoked) throw revoked(child.agent.id);
      },
    };
  }

  #installOne(registration: Registration, child: ChildScope, batch: Batch): void {
    // Removed by a contribution before it.
    if (registration.isRemoved) throw revoked(child.agent.id);
    const undo: unknown = registration.contribution(child);
    if (typeof undo !== 'function') {
      isPromiseLetGo(undo);
      throw new ArgumentError('A setup contribution returns, at once, what takes it back.');
    }
    const installation = new Installation(undo as () => void);
    if (registration.isRemoved) {
      // It removed itself while it was installed: nobody else would undo what it just did.
      installation.undo();
      throw revoked(child.agent.id);
    }
    registration.installations.set(installation, batch);
    batch.installed.set(installation, registration);
  }
}

const revoked = (id: string): SubagentError =>
  new SubagentError(
    'ACTIVATION_SETUP_REVOKED',
    `A setup contribution was removed while the child "${id}" was being built.`,
  );

/** Undo all of them, whatever some throw. */
function release(installations: readonly Installation[]): void {
  const failures = installations.flatMap((installation) => installation.undo() ?? []);
  if (failures.length === 0) return;
  throw new SubagentError(
    'ACTIVATION_SETUP_RELEASE_FAILED',
    `${failures.length} of ${installations.length} setup installations could not be undone.`,
    { cause: failures[0]!.error },
  );
}
