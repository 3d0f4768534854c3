/**
 * What can be asked of a harness from outside: one implementation for every door. Parameters are
 * checked before anything happens; what is asked for goes on until its connection is closed, and
 * what was told stays told.
 */
import {
  ArgumentError,
  HarnessError,
  ProtocolError,
  SubagentError,
} from '../../protocol/errors.ts';
import { printed, toErrorRecord } from '../../protocol/error-record.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { newId } from '../base/ids.ts';
import type { Harness } from '../harness.ts';
import type { Following } from '../session/follow.ts';
import type { Session } from '../session/session.ts';
import { validateJson } from '../tools/json-schema.ts';
import { boardOf, sessionOf } from './board.ts';
import type { Board } from './board.ts';
import { metricsOf } from './metrics.ts';
import type {
  OperationFailure,
  OperationName,
  OperationParams,
  OperationResult,
} from './operation-map.ts';
import { operationSchemas } from './operation-schemas.ts';
import { Prompted } from './prompted.ts';
import { listRows } from './rows.ts';
import type { Tell } from './tell.ts';
import {
  drain,
  headerAnywhere,
  interrupt,
  lineOf,
  openRoot,
  tell,
  tellRoot,
  userMessage,
} from './telling.ts';
import type { RootOptions } from './telling.ts';
import { TreeWatch } from './tree-watch.ts';
import { VERSION } from './version.ts';

export interface OperationsOptions {
  readonly harness: Harness;
  /** Ends the server. Absent: `shutdown` is refused. */
  onShutdown?(): void;
}

/** The version of this protocol, and the only one that is spoken. */
const PROTOCOL_VERSION = 1;
const DEFAULT_PAGE = 256;
const MAX_PAGE = 1_000;
/** Followings and watches that one connection may have. */
const MAX_OPEN = 256;

/** What one connection may ask, and what is open on its behalf. */
export class Operations {
  readonly #board: Board;
  readonly #onShutdown: (() => void) | undefined;
  readonly #tell: Tell;
  readonly #tooSlow: () => void;
  readonly #ended = new AbortController();
  readonly #followings = new Map<string, Following>();
  readonly #watches = new Map<string, TreeWatch>();
  readonly #prompted = new Map<Session, Prompted>();
  #rootOptions: RootOptions = {};

  /** @param tooSlow the other end reads so slowly that its connection has to be given up */
  constructor({ harness, onShutdown }: OperationsOptions, told: Tell, tooSlow: () => void) {
    this.#board = boardOf(harness);
    this.#onShutdown = onShutdown;
    this.#tell = told;
    this.#tooSlow = tooSlow;
  }

  /**
   * @throws {ArgumentError} (rejects) for parameters that are not what they must be
   * @throws {ProtocolError} (rejects) `UNKNOWN_OPERATION`, `PROTOCOL_VERSION`
   * @throws {HarnessError} (rejects) as what is asked for
   */
  async call<M extends OperationName>(
    method: M,
    params: OperationParams<M>,
    signal?: AbortSignal,
  ): Promise<OperationResult<M>> {
    if (!Object.hasOwn(operationSchemas, method)) {
      const known = Object.keys(operationSchemas).join(', ');
      const text = `There is no operation "${printed(method).slice(0, 100)}". There are: ${known}.`;
      throw new ProtocolError('UNKNOWN_OPERATION', text);
    }
    const problems = validateJson(operationSchemas[method], params);
    if (problems.length > 0) {
      throw new ArgumentError(`"${method}" cannot be asked so: ${problems.join('; ')}.`);
    }
    this.#ended.signal.throwIfAborted();
    const ended = signal ?? this.#ended.signal;
    const operation = this.#operations[method] as (
      params: OperationParams<M>,
      signal: AbortSignal,
    ) => OperationResult<M> | Promise<OperationResult<M>>;
    return operation(params, ended);
  }

  /** Everything that is open is let go of; what was told goes on. Idempotent. */
  async close(): Promise<void> {
    this.#ended.abort(new ProtocolError('CONNECTION_CLOSED', 'The connection was closed.'));
    for (const watch of this.#watches.values()) watch.close();
    for (const prompted of this.#prompted.values()) prompted.close();
    this.#watches.clear();
    this.#prompted.clear();
    const followings = [...this.#followings.values()];
    this.#followings.clear();
    await Promise.all(followings.map((following) => following.return()));
  }

  readonly #operations: {
    readonly [M in OperationName]: (
      params: OperationParams<M>,
      signal: AbortSignal,
    ) => OperationResult<M> | Promise<OperationResult<M>>;
  } = {
    initialize: ({ protocolVersion = PROTOCOL_VERSION, ...options }) => {
      if (protocolVersion !== PROTOCOL_VERSION) {
        throw new ProtocolError(
          'PROTOCOL_VERSION',
          `Version ${protocolVersion} of the protocol is not spoken here; version ${PROTOCOL_VERSION} is.`,
        );
      }
      const { provider, maxTokens } = options;
      if (provider !== undefined && this.#board.harness.models.resolve(provider) === undefined) {
        throw new ArgumentError(`No model provider is named "${provider}".`);
      }
      if (provider === undefined && (options.model !== undefined || maxTokens !== undefined)) {
        throw new ArgumentError('"model" and "maxTokens" need the "provider" that they are for.');
      }
      if (maxTokens !== undefined && !(maxTokens > 0)) {
        throw new ArgumentError('"maxTokens" takes a positive number.');
      }
      this.#rootOptions = options;
      const serverInfo = { name: 'subagent-runtime', version: VERSION };
      return { serverInfo, protocolVersion: PROTOCOL_VERSION, pid: process.pid };
    },
    'session/prompt': async ({ sessionId, contentBlocks }, signal) => {
      const message = userMessage(contentBlocks);
      const board = this.#board;
      const line = await lineOf(board, sessionId, signal).catch((error: unknown) => {
        if (error instanceof HarnessError && error.code === 'SESSION_NOT_FOUND') return undefined;
        throw error;
      });
      if (line !== undefined && line.length > 1) {
        return tell(board, sessionId, message, signal);
      }
      const told = board.roots.tell(sessionId);
      try {
        const agent = await openRoot(board, sessionId, this.#rootOptions, signal);
        // Before it is told: its own message is the first event that this connection sees.
        this.#listenTo(agent.session);
        return await tellRoot(board, agent, message);
      } finally {
        told();
      }
    },
    'session/cancel': async ({ sessionId }, signal) => {
      const agent = this.#board.harness.agents.get(sessionId as SessionId);
      const isRoot = agent !== undefined && agent.session.header.parentSession === undefined;
      if (isRoot) agent.cancel({ kind: 'user' });
      else await interrupt(this.#board, sessionId, signal);
      return {};
    },
    'session/send': ({ sessionId, text }, signal) =>
      tell(this.#board, sessionId, userMessage(text), signal),
    'session/interrupt': async ({ sessionId }, signal) => ({
      wasRunning: await interrupt(this.#board, sessionId, signal),
    }),
    'session/drain': async ({ sessionId }, signal) => ({
      ended: await drain(this.#board, sessionId, signal),
    }),
    'session/close': async ({ sessionId }, signal) => {
      await headerAnywhere(this.#board, sessionId, signal);
      return { wasLive: await this.#board.roots.close(sessionId, signal) };
    },
    'session/list': ({ rootId }, signal) => listRows(this.#board, rootId, signal),
    'session/find': async ({ sessionId }, signal) => {
      const [rootId = sessionId, ...below] = await lineOf(this.#board, sessionId, signal);
      const parentId = [rootId, ...below].at(-2);
      const isLive = (id: string): boolean => sessionOf(this.#board.harness, id) !== undefined;
      return {
        live: isLive(sessionId),
        rootId,
        isRootLive: isLive(rootId),
        ...(parentId === undefined ? {} : { parentId }),
      };
    },
    'session/read': async ({ sessionId, from = 0, limit = DEFAULT_PAGE }, signal) => {
      counted('from', from);
      counted('limit', limit);
      if (limit < 1 || limit > MAX_PAGE) {
        throw new ArgumentError(`"limit" takes a number from 1 to ${MAX_PAGE}.`);
      }
      const { harness } = this.#board;
      const live = sessionOf(harness, sessionId);
      const id = sessionId as SessionId;
      const events =
        live?.eventsFrom(from, from + limit) ??
        (await harness.sessionPersistence.readFrom(id, from, signal, limit));
      return { events, ...(events.length < limit ? {} : { next: from + limit }) };
    },
    'session/follow': async ({ sessionId, from = 0, forever = false }, signal) => {
      counted('from', from);
      this.#assertRoom();
      await headerAnywhere(this.#board, sessionId, signal);
      this.#ended.signal.throwIfAborted();
      const options = { from, forever, signal: this.#ended.signal };
      const following = this.#board.harness.sessions.follow(sessionId as SessionId, options);
      const followId = newId();
      this.#followings.set(followId, following);
      // In a turn of its own: the answer goes out before all that is told.
      setImmediate(() => void this.#follow(sessionId, followId, following));
      return { followId };
    },
    'session/unfollow': async ({ followId }) => {
      const following = this.#followings.get(followId);
      this.#followings.delete(followId);
      await following?.return();
      return {};
    },
    'tree/watch': async ({ rootId }) => {
      this.#assertRoom();
      const watchId = newId();
      const watch = new TreeWatch(this.#board, watchId, rootId, this.#tell);
      this.#watches.set(watchId, watch);
      try {
        await watch.begin();
      } catch (error) {
        watch.close();
        this.#watches.delete(watchId);
        throw error;
      }
      return { watchId };
    },
    'tree/unwatch': ({ watchId }) => {
      this.#watches.get(watchId)?.close();
      this.#watches.delete(watchId);
      return {};
    },
    metrics: () => metricsOf(this.#board),
    shutdown: () => {
      if (this.#onShutdown === undefined) {
        throw new SubagentError('UNAUTHORIZED', 'This program is not ended from outside.');
      }
      this.#onShutdown();
      return {};
    },
  };

  async #follow(sessionId: string, followId: string, following: Following): Promise<void> {
    let error: OperationFailure | undefined;
    const isRead = this.#board.roots.use(sessionId);
    try {
      for await (const event of following) {
        await this.#tell('session.event', { sessionId, followId, event });
      }
    } catch (thrown) {
      error = failureOf(thrown);
    }
    isRead();
    this.#followings.delete(followId);
    if (this.#ended.signal.aborted) return;
    await this.#tell('follow.end', { sessionId, followId, ...(error && { error }) });
  }

  /** One for each life of a root: it may have been ended and opened again. */
  #listenTo(session: Session): void {
    for (const [other, prompted] of this.#prompted) {
      if (other.id !== session.id || other === session) continue;
      prompted.close();
      this.#prompted.delete(other);
    }
    if (this.#prompted.has(session)) return;
    const prompted = new Prompted(this.#board, session, this.#tell, this.#tooSlow);
    this.#prompted.set(session, prompted);
  }

  #assertRoom(): void {
    if (this.#followings.size + this.#watches.size < MAX_OPEN) return;
    throw new ArgumentError(`One connection follows and watches at most ${MAX_OPEN} at a time.`);
  }
}

/** An error as data. What has no code of ours is nobody's to act on. */
export function failureOf(error: unknown): OperationFailure {
  const { message } = toErrorRecord(error);
  return { code: error instanceof HarnessError ? error.code : 'INTERNAL', message };
}

function counted(key: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 0) return;
  throw new ArgumentError(`"${key}" takes a number of events.`);
}
