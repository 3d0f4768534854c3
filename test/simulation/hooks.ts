/**
 * Hooks that decide something else than what was proposed, wait, throw, or decide what is no
 * decision; and whether what came of it is what they decided, and nothing else.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { RequestConfig } from '../../src/agent/hooks.ts';
import type { Harness } from '../../src/harness.ts';
import type { Session } from '../../src/session/session.ts';
import type { Dice } from '../interleavings/plan.ts';
import { here } from './life.ts';
import type { Oracle } from './oracle.ts';

/** What an agent is asked with that nobody decided about. */
export const MODEL: RequestConfig = { provider: 'script', model: 'test' };
/** Goes by another name, and is the same. */
export const SECOND = 'second';
const REASON = 'Not this.';

/** What was decided last about one agent, and not acted on yet. */
interface Decided {
  config?: RequestConfig | 'none';
  told?: string[];
  retry?: number | 'none';
  isRejected?: boolean;
}

export class HookWatch {
  readonly #dice: Dice;
  readonly #oracle: Oracle;
  /** Of this life of main. */
  #decided = new Map<SessionId, Decided>();
  #asked = new WeakMap<Session, RequestConfig>();

  constructor(dice: Dice, oracle: Oracle) {
    this.#dice = dice;
    this.#oracle = oracle;
  }

  install(harness: Harness): void {
    const { hooks } = harness;
    const dice = this.#dice;
    this.#decided = new Map();
    this.#asked = new WeakMap();
    harness.on('session/event', ({ session, event }) => this.#event(session, event));
    const pause = async (signal: AbortSignal): Promise<void> => {
      if (dice.chance(0.2)) await here.life.wait('a hook', signal);
    };
    hooks.on('agent/request', async ({ agent, config, signal }) => {
      const { session } = agent;
      const due = this.#asked.get(session) ?? MODEL;
      if (!isDeepStrictEqual({ ...config }, { ...due })) {
        this.#say(agent, `is to be asked with ${show(config)}, after ${show(due)}`);
      }
      await pause(signal);
      return this.#config(agent, config);
    });
    hooks.on('agent/pre-step', async ({ agent, signal }, next) => {
      const proposed = await next();
      await pause(signal);
      const of = this.#of(agent.id);
      of.isRejected = false;
      if (dice.chance(0.02)) return this.#fails(agent, 'HOOK');
      if (dice.chance(0.02)) {
        of.isRejected = true;
        return { kind: 'reject', reason: REASON };
      }
      if (proposed.kind !== 'enter') return proposed;
      const added = dice.chance(0.1) ? [createUserMessage('By the way.')] : [];
      const messages = [...proposed.messages, ...added];
      of.told = messages.map(({ id }) => id);
      return { kind: 'enter', messages };
    });
    hooks.on('agent/request-error', async ({ agent, signal }, next) => {
      const proposed = await next();
      await pause(signal);
      const of = this.#of(agent.id);
      const roll = dice.int(10);
      if (roll === 0) return this.#fails(agent, 'HOOK');
      const decision =
        roll === 1
          ? ({ kind: 'fail' } as const)
          : roll < 4
            ? ({ kind: 'retry', delayMs: dice.int(3_000) } as const)
            : proposed;
      of.retry = decision.kind === 'fail' ? 'none' : decision.delayMs;
      return decision;
    });
    hooks.on('agent/turn-stopping', async ({ agent, signal }) => {
      await pause(signal);
      if (!dice.chance(0.04)) return;
      const { maxPending = Infinity } = this.#oracle.plan;
      const { nextTurn, nextStep } = agent.inbox;
      if (nextTurn.length + nextStep.length >= maxPending) return;
      agent.inject(createUserMessage('One more thing.'));
    });
  }

  /** A model on main is asked for this agent. */
  asked(
    id: string,
    { provider, model, temperature, maxTokens, stop }: Partial<ModelRequest>,
  ): void {
    const { config } = this.#of(id as SessionId);
    const given = { provider, model, temperature, maxTokens, stop };
    const known = Object.entries(given).filter(([, value]) => value !== undefined);
    const is = Object.fromEntries(known);
    if (config === undefined || isDeepStrictEqual(is, { ...(config as object) })) return;
    this.#oracle.say(`${id} is asked with ${show(is)}, and ${show(config)} was decided`);
  }

  #config(agent: Agent, config: RequestConfig): RequestConfig {
    const dice = this.#dice;
    const of = this.#of(agent.id);
    const decide = (decision: RequestConfig): RequestConfig => {
      of.config = decision;
      return decision;
    };
    const roll = dice.int(40);
    switch (roll) {
      case 0:
        return this.#fails(agent, 'HOOK');
      case 1:
        return this.#refused(agent, 'NO_ADAPTER', { ...config, provider: 'nobody' });
      case 2:
        return this.#refused(agent, 'INVALID_ARGUMENT', { ...config, maxTokens: 0 });
      case 3:
        return this.#refused(agent, 'INVALID_ARGUMENT', { ...config, model: '' });
      case 4:
        return this.#refused(agent, 'INVALID_ARGUMENT', { ...config, loud: true } as never);
      case 5:
        return decide({ ...config, provider: SECOND, model: 'other' });
      case 6:
        return decide({ ...config, maxTokens: 1 + dice.int(99), temperature: 0.5 });
      case 7:
        return decide({ ...config, stop: ['END'] });
      case 8:
        return decide(MODEL);
      default:
        return decide(config);
    }
  }

  /** No model may be asked with that. */
  #refused(agent: Agent, code: string, decision: RequestConfig): RequestConfig {
    this.#of(agent.id).config = 'none';
    this.#oracle.causes.failed(agent.id, code);
    return decision;
  }

  #fails(agent: Agent, code: string): never {
    this.#of(agent.id).config = 'none';
    this.#oracle.causes.failed(agent.id, code);
    throw Object.assign(new Error('A hook would not.'), { code });
  }

  #event(session: Session, event: SessionEvent): void {
    const { id } = session;
    const of = this.#of(id);
    switch (event.type) {
      case 'request/header':
        this.#asked.set(session, event.data.header.config);
        if (of.config !== undefined && !isDeepStrictEqual(event.data.header.config, of.config))
          this.#oracle.say(`the log of ${id} has other words for a request than were decided`);
        break;
      case 'user/message': {
        const due = of.told?.shift();
        if (of.told !== undefined && due !== event.data.id)
          this.#oracle.say(`${id} is told ${event.data.id}, and ${String(due)} was decided`);
        break;
      }
      case 'step/end':
        if ((of.told?.length ?? 0) > 0) this.#oracle.say(`${id} was not told ${of.told?.join()}`);
        delete of.told;
        break;
      case 'llm/retry':
        if (of.retry !== undefined && of.retry !== event.data.delayMs)
          this.#oracle.say(`${id} tries again, and ${of.retry} was decided`);
        delete of.retry;
        break;
      case 'turn/end': {
        const { reason } = event.data;
        const isWanted = of.isRejected === true && reason.kind === 'blocked';
        if (reason.kind === 'blocked' && (!isWanted || reason.reason !== REASON))
          this.#oracle.say(`turn ${event.data.turn} of ${id} was blocked by nobody`);
        if (reason.kind === 'completed' && (of.isRejected === true || of.config === 'none'))
          this.#oracle.say(`turn ${event.data.turn} of ${id} went on although a hook would not`);
        this.#decided.delete(id);
        break;
      }
      default:
    }
  }

  #of(id: SessionId): Decided {
    let decided = this.#decided.get(id);
    if (decided === undefined) this.#decided.set(id, (decided = {}));
    return decided;
  }

  #say({ id }: Agent, what: string): void {
    this.#oracle.say(`${id} ${what}`);
  }
}

const show = (value: unknown): string => JSON.stringify(value);
