/**
 * What one residency's loop may ask, answered on main for exactly one agent: no argument names
 * the caller. A residency that is being ended gets no new work, so every await is followed by
 * a look at whether it still may act.
 */
import { fail, succeed, toErrorRecord } from '../../protocol/error-record.ts';
import type { Outcome } from '../../protocol/error-record.ts';
import { ArgumentError, HarnessError, ProtocolError } from '../../protocol/errors.ts';
import type {
  ClaimBoundary,
  ClaimReply,
  HostServices,
  ModelCallReply,
  ModelCallRequest,
  ToolCallReply,
  ToolCallRequest,
  ToolOutcome,
  ToolSettled,
} from '../../protocol/host-services.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { Logger } from '../base/logger.ts';
import type { ModelGateway } from '../models/gateway.ts';
import type { ModelRoute } from '../models/routes.ts';
import type { ToolDesk } from '../tools/desk.ts';
import type { AgentOptions } from '../agent/agent.ts';
import type { Conversation, OpenTurn } from './conversation.ts';
import type { Residency } from './residency.ts';
import type { Session } from '../session/session.ts';
import type { UserMessage } from '../../protocol/content.ts';
import type { ToolSpec } from '../../protocol/tool.ts';

/** What the services need of their agent; all of it decided on main. */
export interface ServedAgent {
  readonly id: string;
  readonly session: Session;
  readonly options: AgentOptions;
  readonly route: ModelRoute | undefined;
  readonly conversation: Conversation;
  /** Resolves when every accepted message is committed or withdrawn. */
  accepted(): Promise<void>;
  /** Decide, in this tick, whether a turn opens; if not, the agent is idle from this line on. */
  takeTurn(): { turn: OpenTurn; messages: readonly UserMessage[] } | undefined;
  /** What joins the open turn at its next step. */
  takeStep(turn: OpenTurn): readonly UserMessage[];
  /** System text and tools for the next step. */
  compose(turn: OpenTurn): Promise<{ system: string | undefined; tools: readonly ToolSpec[] }>;
}

export class AgentServices implements HostServices {
  readonly #agent: ServedAgent;
  readonly #residency: Residency;
  readonly #desk: ToolDesk;
  readonly #gateway: ModelGateway;
  readonly #logger: Logger;

  constructor(parts: {
    readonly agent: ServedAgent;
    readonly residency: Residency;
    readonly desk: ToolDesk;
    readonly gateway: ModelGateway;
    readonly logger: Logger;
  }) {
    this.#agent = parts.agent;
    this.#residency = parts.residency;
    this.#desk = parts.desk;
    this.#gateway = parts.gateway;
    this.#logger = parts.logger;
  }

  claim(boundary: ClaimBoundary, concluded: boolean): Promise<Outcome<ClaimReply>> {
    return this.#answer(async () => {
      const { conversation } = this.#agent;
      if ((boundary === 'turn') !== (conversation.open === undefined)) {
        throw new ProtocolError('PROTOCOL_VIOLATION', `A claim of a ${boundary} is out of phase.`);
      }
      // A message can be claimed only when its insertion is committed.
      await this.#agent.accepted();
      this.#assertLive();
      if (boundary === 'turn') {
        // A thread that is leaving opens nothing; the agent's phase is not its to end.
        if (!this.#residency.takesTurns) return { kind: 'idle' };
        const taken = this.#agent.takeTurn();
        if (taken === undefined) return { kind: 'idle' };
        return this.#enter(taken.turn, taken.messages);
      }
      const turn = conversation.open;
      if (turn === undefined || this.#agent.session.open?.step !== undefined) {
        throw new ProtocolError('PROTOCOL_VIOLATION', 'A claim of a step is out of phase.');
      }
      if (turn.signal.aborted) return aborted(turn);
      const messages = this.#agent.takeStep(turn);
      if (messages.length === 0 && concluded) return { kind: 'close', turn: turn.number };
      return this.#enter(turn, messages);
    });
  }

  callTool(request: ToolCallRequest): Promise<Outcome<ToolCallReply>> {
    return this.#answer(async () => {
      const turn = this.#agent.conversation.expectCall(request);
      return this.#desk.call(request, turn.signal);
    });
  }

  finishTool(callId: CallId, outcome: ToolOutcome): Promise<Outcome<ToolSettled>> {
    return this.#answer(async () => {
      try {
        return await this.#desk.finish(callId, outcome);
      } catch (error) {
        if (!(error instanceof ArgumentError)) throw error;
        throw new ProtocolError('PROTOCOL_VIOLATION', error.message);
      }
    });
  }

  openModel(request: ModelCallRequest): Promise<Outcome<ModelCallReply>> {
    return this.#answer(async () => {
      const { conversation, options, route, id } = this.#agent;
      const turn = conversation.expectStep(request.turn, request.step);
      conversation.expectAttempt(turn, request.attempt);
      const { provider, model, maxTokens } = options;
      if (provider === undefined || model === undefined || route === undefined) {
        throw new ArgumentError(
          `The agent "${id}" has no model to ask: set its provider and model.`,
        );
      }
      const built = conversation.openRequest({
        provider,
        model,
        ...(maxTokens === undefined ? {} : { maxTokens }),
      });
      const stream = conversation.openStream(turn, built, route.kind === 'module');
      if (route.kind === 'module') {
        const knownMessages = this.#residency.knownMessages;
        this.#residency.knownMessages = built.messages.length;
        const messages = built.messages.slice(knownMessages);
        return { route: 'here', stream, knownMessages, request: { ...built, messages } };
      }
      const { link } = this.#residency;
      // In a later macrotask than the reply, which the parts must not overtake.
      setImmediate(() => {
        this.#gateway
          .open({
            route,
            request: built,
            signal: turn.signal,
            stream,
            onPart: (part) => conversation.chunk(turn, stream, part),
            send: (parts, bytes) => link.sendParts(stream, parts, bytes),
            ready: () => link.credit(),
          })
          // The thread got an error finish; what could not be logged is for whoever looks.
          .catch((error: unknown) => {
            const fields = { agent: id, error: toErrorRecord(error) };
            this.#logger.warn(fields, 'A model stream could not be logged.');
          });
      });
      return { route: 'host', stream };
    });
  }

  async #enter(turn: OpenTurn, messages: readonly UserMessage[]): Promise<ClaimReply> {
    const { conversation, session } = this.#agent;
    try {
      const { system, tools } = await this.#agent.compose(turn);
      turn.system = system;
      turn.tools = tools;
    } catch (error) {
      this.#assertLive();
      if (turn.signal.aborted) return aborted(turn);
      return ended(turn, error);
    }
    this.#assertLive();
    if (turn.signal.aborted) return aborted(turn);
    conversation.openStep(turn, messages);
    // The step is open in the log from here on: whatever happens, the loop closes it, so the
    // answer is `enter` even if the turn was told to stop meanwhile.
    try {
      await session.committed();
    } catch (error) {
      // What cannot be kept is not run: the step ends here, before the loop hears of it.
      this.#assertLive();
      conversation.closeStep(turn);
      return ended(turn, error);
    }
    this.#assertLive();
    return { kind: 'enter', turn: turn.number, step: turn.step };
  }

  /** Outcomes cross the wall; a protocol violation ends the thread instead. */
  async #answer<T>(work: () => Promise<T>): Promise<Outcome<T>> {
    try {
      this.#assertLive();
      return succeed(await work());
    } catch (error) {
      if (error instanceof ProtocolError) this.#residency.kill(error);
      return fail(error);
    }
  }

  #assertLive(): void {
    if (!this.#residency.isLive) {
      throw new HarnessError('WORKER_EXITED', 'This thread is being ended; it gets no more work.');
    }
  }
}

const aborted = (turn: OpenTurn): ClaimReply => ({
  kind: 'end',
  turn: turn.number,
  reason: { kind: 'aborted', reason: turn.cause ?? { kind: 'disposed' } },
});

function ended(turn: OpenTurn, thrown: unknown): ClaimReply {
  const outcome = fail(thrown);
  const { code, message } = outcome.ok ? { code: 'UNKNOWN', message: '' } : outcome.error;
  return { kind: 'end', turn: turn.number, reason: { kind: 'error', error: { code, message } } };
}
