import { isInstance } from '../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../protocol/errors.ts';
import type { ToolModule } from '../protocol/tool.ts';
import { readList, readOptions } from './base/assert-options.ts';
import type { OptionKind } from './base/assert-options.ts';
import type { Logger } from './base/logger.ts';
import type { ModelSource } from './models/routes.ts';
import type { PromptVariable } from './prompt/prompt.ts';
import type { Durability } from './session/commit-queue.ts';
import type { SessionPersistence } from './session/store.ts';
import type { SubagentProvider } from './subagents/provider.ts';
import type { ProviderFactory } from './subagents/provider-services.ts';
import type { HostTool } from './tools/registry.ts';
import type { HarnessLimits } from './worker-host/limits.ts';
import type { StuckThread } from './worker-host/supervision.ts';

/**
 * What `createHarness` takes; all of it may be left out. An option that does not exist is refused.
 */
export interface HarnessOptions {
  /**
   * Where sessions are kept: an SQLite file, `':memory:'` for the life of the harness (the
   * default), or a store of your own, which the harness then closes.
   */
  readonly store?: string | SessionPersistence;
  /** What an accepted message has survived when it is acknowledged. Default `'full'`. */
  readonly durability?: Durability;
  /** Models by provider name. */
  readonly models?: Readonly<Record<string, ModelSource>>;
  /** For agents that are created without options of their own. */
  readonly defaultModel?: { readonly provider: string; readonly model: string };
  /** Functions run on main, with the calling agent; modules run in each agent's thread. */
  readonly tools?: readonly (HostTool | ToolModule)[];
  /**
   * Names of tools in the order in which models are shown them; `'*'` stands for all others, which
   * otherwise come last. Default: all by name.
   */
  readonly toolOrder?: readonly string[];
  /** Default: `[spawn(), fork()]`. */
  readonly providers?: readonly (ProviderFactory | SubagentProvider)[];
  /** A part of every agent's system prompt; `{{name}}` stands for a variable. */
  readonly persona?: string;
  readonly variables?: Readonly<Record<string, PromptVariable>>;
  /** Only `'thread'` for now: `'process'` is refused with `ISOLATION_UNAVAILABLE`. */
  readonly isolation?: 'thread' | 'process';
  readonly limits?: HarnessLimits;
  readonly workers?: {
    /** Unused threads kept ready. Default 2; 0 keeps none. */
    readonly warm?: number;
    /** Names of environment variables that threads may see. Default none. */
    readonly env?: readonly string[];
    /** The thread entry, for a bundler that moved it. */
    readonly entry?: URL;
  };
  /** Shaped like pino's. Silent by default. */
  readonly logger?: Logger;
  /**
   * Told of a thread that did not end within 3 s of being told to, as `thread/stuck` is. Nothing
   * in this process can end it: `process.exit()` waits for it for ever, and only a signal does
   * not, such as `process.kill(process.pid, 'SIGKILL')` after `dispose()`. What this throws, now or
   * later, is logged.
   */
  onStuck?(thread: StuckThread): unknown;
}

const OPTIONS = {
  store: 'any',
  durability: 'text',
  models: 'object',
  defaultModel: 'object',
  tools: 'list',
  toolOrder: 'list',
  providers: 'list',
  persona: 'text',
  variables: 'object',
  isolation: 'text',
  limits: 'object',
  workers: 'object',
  logger: 'object',
  onStuck: 'function',
} as const satisfies Record<keyof HarnessOptions, OptionKind>;
const WORKERS = { warm: 'any', env: 'list', entry: 'object' } as const;
const LOGGER = ['debug', 'info', 'warn', 'error'] as const satisfies (keyof Logger)[];
/** The methods of a store that is given as an object. */
const STORE = [
  'list',
  'inspect',
  'readFrom',
  'acquire',
  'append',
  'renew',
  'release',
  'delete',
  'close',
] as const satisfies (keyof SessionPersistence)[];

/**
 * The options, each read once: what was checked is what counts.
 * @throws {ArgumentError | SubagentError} for what can be seen before anything is built.
 */
export function checkOptions(given: HarnessOptions): HarnessOptions {
  const read = readOptions('createHarness', given, OPTIONS);
  const own: HarnessOptions['workers'] = readOptions('workers', read.workers ?? {}, WORKERS);
  const workers =
    own.env === undefined ? own : { ...own, env: readList('workers.env', own.env) as string[] };
  const options = { ...read, workers };
  assertMethods('logger', options.logger, LOGGER);
  const { store } = options;
  if (store !== undefined && typeof store !== 'string') assertMethods('store', store, STORE);
  if (workers.entry !== undefined && !isInstance(workers.entry, URL)) {
    throw new ArgumentError('"workers.entry" takes a URL.');
  }
  if (workers.env?.some((name) => typeof name !== 'string') === true) {
    throw new ArgumentError('"workers.env" takes names of environment variables.');
  }
  if (options.isolation === 'process') {
    throw new SubagentError(
      'ISOLATION_UNAVAILABLE',
      "Agent host processes are not available yet; isolation must be 'thread'.",
    );
  }
  if (options.isolation !== undefined && options.isolation !== 'thread') {
    throw new ArgumentError(`There is no isolation "${String(options.isolation)}".`);
  }
  const { durability = 'full', defaultModel } = options;
  if (!['full', 'process', 'batched'].includes(durability)) {
    throw new ArgumentError(
      `There is no durability "${durability}"; there are full, process and batched.`,
    );
  }
  const { warm = 2 } = workers;
  if (!Number.isSafeInteger(warm) || warm < 0) {
    throw new ArgumentError(`"workers.warm" takes a whole number of at least 0, not ${warm}.`);
  }
  if (defaultModel !== undefined && typeof defaultModel.model !== 'string') {
    throw new ArgumentError('"defaultModel" takes a provider and a model.');
  }
  return options;
}

function assertMethods(what: string, value: unknown, methods: readonly string[]): void {
  if (value === undefined) return;
  for (const name of methods) {
    const method = (value as Record<string, unknown> | null)?.[name];
    if (typeof method === 'function') continue;
    throw new ArgumentError(`"${what}" takes an object with the methods ${methods.join(', ')}.`);
  }
}
