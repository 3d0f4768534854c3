import { printed } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { owned } from './scope.ts';
import type { Ownership } from './scope.ts';

/**
 * What hooks of one kind are asked with, and what they decide.
 * @inline
 */
export interface HookShape {
  readonly context: { readonly agent: unknown };
  readonly decision: unknown;
}

/**
 * One link of a chain. It may decide by itself, or take what the rest of the chain decides
 * (`await next()`) and change it. One that returns nothing has no opinion: the rest decides.
 */
export type Hook<Shape extends HookShape> = (
  context: Shape['context'],
  next: () => Promise<Shape['decision']>,
) => Shape['decision'] | undefined | void | Promise<Shape['decision'] | undefined | void>;

export interface HookOptions<A extends object = object> extends Ownership {
  /** Only for this very agent; forgotten when the agent ends. */
  readonly agent?: A;
  /** Before all that are registered already, instead of after them. */
  readonly prepend?: boolean;
}

interface Entry {
  readonly run: Hook<HookShape>;
  readonly agent: object | undefined;
}

/**
 * Chains of decisions. Unlike observers of events, hooks are asked and waited for, and what one
 * throws is the failure of what it was asked about. The chain is fixed when it is begun.
 */
export class Hooks<Shapes extends { [T in keyof Shapes]: HookShape }, A extends object = object> {
  readonly #types: readonly (keyof Shapes & string)[];
  readonly #notAnAgent: (value: unknown) => string | undefined;
  readonly #ended = new WeakSet<object>();
  readonly #chains = new Map<keyof Shapes, readonly Entry[]>();

  /**
   * @param notAnAgent says what keeps a value from being what hooks can be for
   * @internal
   */
  constructor(
    types: readonly (keyof Shapes & string)[],
    notAnAgent: (value: unknown) => string | undefined = () => undefined,
  ) {
    this.#types = types;
    this.#notAnAgent = notAnAgent;
  }

  /**
   * Add a hook at the end of its chain. Returns the idempotent disposer.
   * @throws {ArgumentError} for a kind of hook that does not exist, or no function
   */
  on<T extends keyof Shapes & string>(
    type: T,
    hook: Hook<Shapes[T]>,
    options: HookOptions<A> = {},
  ): () => void {
    if (!this.#types.includes(type)) {
      throw new ArgumentError(
        `There is no hook "${printed(type)}"; there are: ${this.#types.join(', ')}.`,
      );
    }
    if (typeof hook !== 'function') throw new ArgumentError(`A hook of "${type}" is a function.`);
    const add = (): (() => void) => {
      const { agent, prepend = false } = options;
      const problem =
        agent === undefined
          ? undefined
          : this.#ended.has(agent)
            ? 'it has ended'
            : this.#notAnAgent(agent);
      if (problem !== undefined) {
        throw new ArgumentError(`A hook of "${type}" cannot be for this agent: ${problem}.`);
      }
      const entry: Entry = { run: hook as unknown as Hook<HookShape>, agent };
      const chain = this.#chain(type);
      this.#chains.set(type, prepend ? [entry, ...chain] : [...chain, entry]);
      return () => this.#keep(type, (other) => other !== entry);
    };
    return owned(options, add, { agent: 'object', prepend: 'any' });
  }

  /**
   * Whether anyone is to be asked about this agent.
   * @internal
   */
  has(type: keyof Shapes, agent: object): boolean {
    return this.#chain(type).some((entry) => entry.agent === undefined || entry.agent === agent);
  }

  /**
   * Ask the chain; `last` decides where no hook does. Rejects with what a hook throws.
   *
   * @param signal once it is aborted no further hook is asked: `next` rejects with its reason.
   * @internal
   */
  run<T extends keyof Shapes>(
    type: T,
    context: Shapes[T]['context'],
    last: () => Shapes[T]['decision'] | Promise<Shapes[T]['decision']>,
    signal?: AbortSignal,
  ): Promise<Shapes[T]['decision']> {
    const chain = this.#chain(type).filter(
      ({ agent }) => agent === undefined || agent === context.agent,
    );
    const from = async (index: number): Promise<unknown> => {
      signal?.throwIfAborted();
      const entry = chain[index];
      if (entry === undefined) return last();
      let rest: Promise<unknown> | undefined;
      // Asked more than once, the rest of the chain still decides once.
      const next = (): Promise<unknown> => {
        if (rest === undefined) {
          rest = from(index + 1);
          // Whoever asked may decide alone after all: then its failure is nobody's.
          rest.catch(() => {});
        }
        return rest;
      };
      const decision = await entry.run(context, next);
      return decision === undefined ? next() : decision;
    };
    return from(0) as Promise<Shapes[T]['decision']>;
  }

  /**
   * The agent has ended: nobody will ask about it again, and nothing more is added for it.
   * @internal
   */
  forget(agent: object): void {
    this.#ended.add(agent);
    for (const type of this.#chains.keys()) this.#keep(type, (entry) => entry.agent !== agent);
  }

  #chain(type: keyof Shapes): readonly Entry[] {
    return this.#chains.get(type) ?? [];
  }

  #keep(type: keyof Shapes, test: (entry: Entry) => boolean): void {
    const kept = this.#chain(type).filter(test);
    if (kept.length === 0) this.#chains.delete(type);
    else this.#chains.set(type, kept);
  }
}
