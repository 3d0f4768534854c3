/** What one model request is asked with, and of whom, before anything of it is written down. */
import { ArgumentError } from '../../protocol/errors.ts';
import { isPlainObject } from '../../protocol/json.ts';
import type { RequestConfig } from '../agent/hooks.ts';
import type { ModelRoute } from '../models/routes.ts';
import type { OpenTurn } from './open-turn.ts';
import type { Residency } from './residency.ts';
import type { ServedAgent } from './served-agent.ts';
import { askHooks } from './ask-hooks.ts';

export interface RequestDecision {
  readonly config: RequestConfig;
  readonly route: ModelRoute;
}

/**
 * Have hooks decide about the next request. The first of an agent's life is proposed as the agent
 * was made, every later one like the one before it: what a hook changed stays changed until a
 * hook changes it again.
 *
 * Rejects with what a hook throws, and when the turn or its thread ends meanwhile.
 * @throws {ArgumentError} (rejects) for a decision that cannot be asked
 * @throws {NoModelError} (rejects) when nobody of that name can be asked
 */
export async function decideRequest(
  agent: ServedAgent,
  residency: Residency,
  turn: OpenTurn,
  routeOf: (provider: string) => ModelRoute | undefined,
): Promise<RequestDecision> {
  const proposed = agent.conversation.lastConfig ?? madeWith(agent);
  const decision = await askHooks(
    'agent/request',
    { agent, residency, turn },
    { step: turn.step, attempt: turn.attempts, config: proposed },
    () => proposed,
  );
  const config = checked(decision);
  if (config.provider === '' || config.model === '') {
    throw new ArgumentError(
      `The agent "${agent.id}" has no model to ask: set its provider and model.`,
    );
  }
  return { config, route: routeFor(agent, config.provider, routeOf) };
}

function madeWith({ options }: ServedAgent): RequestConfig {
  // Empty: a hook may know whom to ask for an agent that was made without a model.
  const { provider = '', model = '', maxTokens } = options;
  return Object.freeze({ provider, model, ...(maxTokens === undefined ? {} : { maxTokens }) });
}

const NAME_CHARS = 1_024;
const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= NAME_CHARS;
const CHECKS: Readonly<Record<keyof RequestConfig, (value: unknown) => boolean>> = {
  provider: isText,
  model: isText,
  temperature: (value) => Number.isFinite(value) && !Object.is(value, -0),
  maxTokens: (value) => Number.isSafeInteger(value) && (value as number) > 0,
  stop: (value) => Array.isArray(value) && [...value].every(isText),
};

/** A copy, with its keys in one order: two that say the same are written the same. */
function checked(decision: unknown): RequestConfig {
  if (!isPlainObject(decision)) {
    throw new ArgumentError('A hook of "agent/request" decides { provider, model, … }.');
  }
  const unknown = Object.keys(decision).find((key) => !Object.hasOwn(CHECKS, key));
  if (unknown !== undefined) {
    throw new ArgumentError(`A hook of "agent/request" decided an unknown "${unknown}".`);
  }
  const config: Record<string, unknown> = {};
  for (const [key, isUsable] of Object.entries(CHECKS)) {
    const value = decision[key];
    if (value === undefined && key !== 'provider' && key !== 'model') continue;
    if (!isUsable(value)) {
      throw new ArgumentError(`A hook of "agent/request" decided a "${key}" that cannot be asked.`);
    }
    config[key] = Array.isArray(value) ? [...value] : value;
  }
  return config as unknown as RequestConfig;
}

/** The agent's own model, wherever it runs, or another that runs on main. */
function routeFor(
  { id, route: own }: ServedAgent,
  provider: string,
  routeOf: (provider: string) => ModelRoute | undefined,
): ModelRoute {
  if (own?.provider === provider) return own;
  const route = routeOf(provider);
  if (route?.kind === 'host') return route;
  throw new NoModelError(
    `The agent "${id}" cannot ask the provider "${provider}": ` +
      (route === undefined
        ? 'no model is registered by that name. Register one, or choose another.'
        : 'its model is a module, which runs only in the threads of agents that were made with ' +
          'it. Create the agent with that provider, or choose a model that is an object.'),
  );
}

/** A turn's failure, as an adapter that is missing would tell it. */
class NoModelError extends Error {
  readonly code = 'NO_ADAPTER';
  override get name(): string {
    return 'NoModelError';
  }
}
