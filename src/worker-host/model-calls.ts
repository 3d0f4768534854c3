/**
 * The model requests of one thread: whether each is made, with what and of whom, and where its
 * parts come from. The thread asks for one attempt after the other and reads the answers.
 */
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { ModelCallReply, ModelCallRequest } from '../../protocol/host-services.ts';
import type { StreamId } from '../../protocol/ids.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import type { ModelGateway } from '../models/gateway.ts';
import type { HostRoute, ModelRoute } from '../models/routes.ts';
import type { OpenTurn } from './open-turn.ts';
import { decideRequest } from './requests.ts';
import type { Residency } from './residency.ts';
import { awaitRetry } from './retries.ts';
import type { ServedAgent } from './served-agent.ts';

export interface ModelCallParts {
  readonly agent: ServedAgent;
  readonly residency: Residency;
  readonly gateway: ModelGateway;
  readonly clock: Clock;
  readonly logger: Logger;
  /** In [0, 1). */
  random(): number;
  /** The model that goes by a name now. */
  routeOf(provider: string): ModelRoute | undefined;
}

export class ModelCalls {
  readonly #parts: ModelCallParts;

  constructor(parts: ModelCallParts) {
    this.#parts = parts;
  }

  /**
   * Rejects with what a hook throws, and when the turn or the thread ends meanwhile.
   * @throws {ProtocolError} (rejects) when this request is not the next of an open step
   */
  async open({ turn: number, step, attempt }: ModelCallRequest): Promise<ModelCallReply> {
    const { agent, residency, routeOf } = this.#parts;
    const { conversation } = agent;
    const turn = conversation.expectStep(number, step);
    const failed = conversation.expectAttempt(turn, attempt);
    if (failed !== undefined) {
      const parts = { ...this.#parts, assertRunning: this.#assertRunning.bind(this) };
      if (!(await awaitRetry(parts, turn, failed))) return { route: 'none' };
      this.#assertRunning(turn, step);
    }
    // Nobody is asked about a request that cannot be put together.
    turn.system();
    const { config, route } = await decideRequest(agent, residency, turn, routeOf);
    this.#assertRunning(turn, step);
    // No await from here on: what is written down is what is asked.
    const request = conversation.openRequest(turn, config);
    const { provider, model } = request;
    const isFromThread = route.kind === 'module';
    const retryPolicy = (isFromThread ? residency.retryPolicy : undefined) ?? route.retryPolicy;
    const stream = conversation.openStream(turn, request, { isFromThread, retryPolicy });
    if (route.kind === 'module') {
      const { knownMessages } = residency;
      residency.knownMessages = request.messages.length;
      const messages = request.messages.slice(knownMessages);
      return { route: 'here', stream, knownMessages, request: { ...request, messages } };
    }
    // In a later macrotask than the reply, which the parts must not overtake.
    setImmediate(() => this.#stream(route, request, turn, stream));
    return { route: 'host', stream, provider, model };
  }

  #stream(route: HostRoute, request: ModelRequest, turn: OpenTurn, stream: StreamId): void {
    const { agent, residency, gateway, logger } = this.#parts;
    const { link } = residency;
    gateway
      .open({
        route,
        request,
        signal: turn.signal,
        stream,
        onPart: (part, bytes) => {
          agent.conversation.chunk(turn, stream, part);
          if (agent.conversation.open === turn) agent.meter.added(bytes);
        },
        send: (parts, bytes) => link.sendParts(stream, parts, bytes),
        ready: () => link.credit(),
      })
      // The thread got an error finish; what could not be logged is for whoever looks.
      .catch((error: unknown) => {
        const fields = { agent: agent.id, error: toErrorRecord(error) };
        logger.warn(fields, 'A model stream could not be logged.');
      });
  }

  /** A thread that ended its step while it asks in it is out of phase. */
  #assertRunning(turn: OpenTurn, step: number): void {
    this.#parts.residency.signal.throwIfAborted();
    turn.signal.throwIfAborted();
    this.#parts.agent.conversation.expectStep(turn.number, step);
  }
}
