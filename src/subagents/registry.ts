import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import { Emitter } from '../base/emitter.ts';
import type { Logger } from '../base/logger.ts';
import type { SubagentProvider } from './provider.ts';

/** Who comes and goes in the registry. */
export interface ProviderEvents {
  /** A listener that throws undoes the registration. */
  'subagent/provider-added': SubagentProvider;
  /** The name no longer resolves. Runs that were returned are untouched. */
  'subagent/provider-removed': string;
}

/** Providers by name. A name resolves to the very object that was registered. */
export class ProviderRegistry {
  readonly observers: Emitter<ProviderEvents>;
  readonly #providers = new Map<string, SubagentProvider>();

  constructor(logger: Logger) {
    this.observers = new Emitter(logger);
  }

  /**
   * Returns the idempotent disposer. It stops new starts only.
   *
   * @throws {SubagentError} `DUPLICATE_PROVIDER`; the first one stays.
   * @throws {ArgumentError} for something that is no provider.
   */
  register(provider: SubagentProvider): () => void {
    assertProvider(provider);
    const { name } = provider;
    if (this.#providers.has(name)) {
      throw new SubagentError(
        'DUPLICATE_PROVIDER',
        `Cannot register the provider "${name}": the name is taken.`,
      );
    }
    this.#providers.set(name, provider);
    try {
      this.observers.emitOrThrow('subagent/provider-added', provider);
    } catch (error) {
      // It never was there: nobody is told that it went.
      this.#providers.delete(name);
      throw error;
    }
    let registered = true;
    return () => {
      if (!registered) return;
      registered = false;
      this.#providers.delete(name);
      this.observers.emit('subagent/provider-removed', name);
    };
  }

  get(name: string): SubagentProvider | undefined {
    return this.#providers.get(name);
  }

  /** In the order of registration. */
  names(): string[] {
    return [...this.#providers.keys()];
  }
}

const FLAGS = ['outputSchema', 'depthLimit', 'toolFilter', 'persona'] as const;

function assertProvider(value: unknown): asserts value is SubagentProvider {
  const provider = value as Partial<SubagentProvider> | null | undefined;
  if (typeof provider?.name !== 'string' || provider.name === '') {
    throw new ArgumentError('A provider needs a name.');
  }
  const refuse = (what: string): never => {
    throw new ArgumentError(`The provider "${provider.name}" ${what}.`);
  };
  if (typeof provider.start !== 'function') refuse('has no start method');
  if (
    provider.prepareContinuable !== undefined &&
    typeof provider.prepareContinuable !== 'function'
  ) {
    refuse('has a prepareContinuable that is no method');
  }
  if (typeof provider.inheritsParentContext !== 'boolean') {
    refuse('does not say whether its children see the turns of their parent');
  }
  for (const flag of FLAGS) {
    if (typeof provider.capabilities?.[flag] !== 'boolean') {
      refuse(`does not say whether it supports ${flag}`);
    }
  }
}
