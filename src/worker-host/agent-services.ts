/**
 * What one residency's loop may ask, answered on main for exactly one agent: no argument names
 * the caller. A residency that is being ended gets no new work, so every await is followed by
 * a look at whether it still may act.
 */
import { fail, succeed, toErrorRecord } from '../../protocol/error-record.ts';
import type { Outcome } from '../../protocol/error-record.ts';
import { ArgumentError, ProtocolError, WorkerError } from '../../protocol/errors.ts';
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

export class AgentServices implements HostServices {
  readonly #agent: ServedAgent;
  readonly #residency: Residency;
  readonly #desk: ToolDesk;
  readonly #models: ModelCalls;

  constructor(parts: ModelCallParts & { readonly desk: ToolDesk }) {
    this.#agent = parts.agent;
    this.#residency = parts.residency;
    this.#desk = parts.desk;
    this.#models = new ModelCalls(parts);
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
        return this.#enter(taken.turn, taken.messages, false);
      }
      const turn = conversation.open;
      if (turn === undefined || this.#agent.session.open?.step !== undefined) {
        throw new ProtocolError('PROTOCOL_VIOLATION', 'A claim of a step is out of phase.');
      }
      if (turn.signal.aborted) return aborted(turn);
      let messages = this.#agent.takeStep(turn);
      if (messages.length === 0 && concluded) {
        const given = await this.#lastChance(turn);
        if ('kind' in given) return given;
        messages = given;
      }
      return this.#enter(turn, messages, concluded);
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
    return this.#answer(() => this.#models.open(request));
  }

  /**
   * A concluded step, and nothing waits: hooks get their last chance to give the turn more to do.
   * @returns what they gave it, or how the turn ends without
   */
  async #lastChance(turn: OpenTurn): Promise<ClaimReply | readonly UserMessage[]> {
    const { hooks, agent } = this.#agent;
    try {
      await whileRunning(turn, this.#residency, async () => {
        const context = { agent, turn: turn.number, signal: turn.signal };
        await hooks.run('agent/turn-stopping', context, () => {});
        // What was accepted meanwhile can be claimed once it is committed.
        await this.#agent.accepted();
      });
      this.#assertRunning(turn);
    } catch (error) {
      return this.#failed(turn, error);
    }
    // The look and the answer are one tick: what comes later opens a turn of its own.
    const messages = this.#agent.takeStep(turn);
    return messages.length === 0 ? { kind: 'close', turn: turn.number } : messages;
  }

  async #enter(
    turn: OpenTurn,
    claimed: readonly UserMessage[],
    concluded: boolean,
  ): Promise<ClaimReply> {
    const { conversation, session } = this.#agent;
    const { number } = turn;
    let decision: Awaited<ReturnType<typeof decideStep>>;
    try {
      decision = await decideStep(this.#agent, this.#residency, turn, claimed);
      this.#assertRunning(turn);
    } catch (error) {
      return this.#failed(turn, error);
    }
    if (decision.kind === 'reject') {
      const { reason } = decision;
      turn.block = reason === undefined ? {} : { reason };
      return { kind: 'end', turn: number, reason: { kind: 'blocked' } };
    }
    const { messages } = decision;
    if (messages.length === 0) {
      // Nothing to be told: a turn that has not begun is over, and one that is done ends.
      if (turn.step === 0) return { kind: 'end', turn: number, reason: { kind: 'completed' } };
      if (concluded) return { kind: 'close', turn: number };
    }
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
    return { kind: 'enter', turn: number, step: turn.step };
  }

  /** The end of a turn for what was thrown in it, unless it was told to stop. */
  #failed(turn: OpenTurn, error: unknown): ClaimReply {
    this.#assertLive();
    return turn.signal.aborted ? aborted(turn) : ended(turn, error);
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
      throw new WorkerError('WORKER_EXITED', 'This thread is being ended; it gets no more work.');
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
