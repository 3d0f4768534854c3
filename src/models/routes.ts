import type { AiSdkModel, AiSdkProvider } from '../../protocol/ai-sdk.ts';
import type { ModelAdapter, RetryPolicy } from '../../protocol/model.ts';
import type { ModuleRef } from '../../protocol/worker-init.ts';
import { asModelAdapter } from '../../protocol/ai-sdk.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { deepFreeze } from '../../protocol/json.ts';
import { owned } from '../base/scope.ts';
import type { Ownership } from '../base/scope.ts';
import { DEFAULT_RETRY_POLICY, isRetryPolicy } from '../../protocol/retry-policy.ts';

/** A model that is loaded inside the thread of each agent that uses it. */
export interface ModelModule {
  /** A `file:` URL. Its default export is a model, or a function of `options` that gives one. */
  readonly module: URL;
  /** Structured-cloneable. */
  readonly options?: unknown;
}

/** What can be registered as a model. Objects run on main, modules in the agent's thread. */
export type ModelSource = ModelAdapter | AiSdkModel | AiSdkProvider | ModelModule;

/** Where the model of one provider name runs. */
export type ModelRoute =
  | {
      readonly kind: 'host';
      readonly provider: string;
      readonly adapter: ModelAdapter;
      readonly retryPolicy: RetryPolicy;
    }
  | {
      readonly kind: 'module';
      readonly provider: string;
      readonly module: ModuleRef;
      readonly retryPolicy: RetryPolicy;
    };

export type HostRoute = Extract<ModelRoute, { kind: 'host' }>;

const NAME_CHARS = 256;

/** Models by provider name. */
export class ModelRoutes {
  readonly #routes = new Map<string, ModelRoute>();

  /**
   * @throws {ArgumentError} naming the first that is no model; nothing is registered then.
   * @internal
   */
  constructor(models: Readonly<Record<string, ModelSource>> = {}) {
    for (const [name, source] of Object.entries(models)) this.register(name, source);
  }

  /**
   * Returns the idempotent disposer. An agent that was made with the route keeps it.
   * @throws {ArgumentError} for a name that is taken or unusable, or a thing that is no model.
   */
  register(name: string, source: ModelSource, owner: Ownership = {}): () => void {
    if (typeof name !== 'string' || name === '' || name.length > NAME_CHARS) {
      throw new ArgumentError(`A model provider needs a name of 1 to ${NAME_CHARS} characters.`);
    }
    if (this.#routes.has(name)) {
      throw new ArgumentError(`A model provider named "${name}" is registered already.`);
    }
    const route = Object.freeze(routeOf(name, source));
    return owned(owner, () => {
      this.#routes.set(name, route);
      return () => {
        if (this.#routes.get(name) === route) this.#routes.delete(name);
      };
    });
  }

  /** @internal */
  resolve(provider: string): ModelRoute | undefined {
    return this.#routes.get(provider);
  }

  /** In order of registration. */
  names(): readonly string[] {
    return [...this.#routes.keys()];
  }
}

function routeOf(provider: string, source: unknown): ModelRoute {
  const module = (source as Partial<ModelModule> | null | undefined)?.module;
  const adapter = module === undefined ? asModelAdapter(source) : undefined;
  if (adapter !== undefined) {
    const retryPolicy = checkPolicy(provider, adapter.retryPolicy ?? DEFAULT_RETRY_POLICY);
    return { kind: 'host', provider, adapter, retryPolicy };
  }
  if (module === undefined) {
    throw new ArgumentError(`The model "${provider}" cannot be used: ${whatIsWrong(source)}`);
  }
  return {
    kind: 'module',
    provider,
    module: moduleRef(provider, source as ModelModule),
    retryPolicy: DEFAULT_RETRY_POLICY,
  };
}

const WANTED =
  'Give an adapter such as openaiCompatible({ … }), an AI SDK language model, or { module: URL }.';

function whatIsWrong(source: unknown): string {
  if (source === undefined || source === null) return `it is ${String(source)}. ${WANTED}`;
  if (typeof source === 'string') return `a name is no model. ${WANTED}`;
  const { doStream, specificationVersion } = source as Record<string, unknown>;
  if (typeof doStream === 'function') {
    return `AI SDK models of version v2, v3 and v4 are supported, not ${String(specificationVersion)}.`;
  }
  return `${typeof source === 'object' ? 'an object' : `a ${typeof source}`} with neither \`stream\` nor \`doStream\` is no model. ${WANTED}`;
}

function moduleRef(provider: string, { module, options }: ModelModule): ModuleRef {
  const url: unknown = (module as URL | null)?.href;
  if (typeof url !== 'string' || !url.startsWith('file:')) {
    throw new ArgumentError(
      `The module of the model "${provider}" must be a file: URL object, such as ` +
        'new URL("./my-model.js", import.meta.url).',
    );
  }
  if (options === undefined) return { url };
  try {
    return { url, options: structuredClone(options) };
  } catch (error) {
    throw new ArgumentError(
      `The options of the model "${provider}" must be data: they are sent to a thread.`,
      { cause: error },
    );
  }
}

function checkPolicy(provider: string, policy: RetryPolicy): RetryPolicy {
  if (isRetryPolicy(policy)) {
    // A copy, which hooks may be shown: nobody changes it for others, and it changes nobody's.
    const { maxRetries, initialDelayMs, maxDelayMs, jitterRatio } = policy;
    const retryableCodes = [...policy.retryableCodes];
    return deepFreeze({ maxRetries, retryableCodes, initialDelayMs, maxDelayMs, jitterRatio });
  }
  throw new ArgumentError(`The retry policy of the model "${provider}" is malformed.`);
}
