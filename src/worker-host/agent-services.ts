/**
 * What one residency's loop may ask, answered on main for exactly one agent: no argument names
 * the caller. A residency that is being ended gets no new work, so every await is followed by
 * a look at whether it still may act.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { fail, succeed } from '../../protocol/error-record.ts';
import type { Outcome } from '../../protocol/error-record.ts';
import { ProtocolError } from '../../protocol/errors.ts';
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
import type { ToolDesk } from '../tools/desk.ts';
import { askHooks } from './ask-hooks.ts';
import { ModelCalls } from './model-calls.ts';
import type { ModelCallParts } from './model-calls.ts';
import type { OpenTurn } from './open-turn.ts';
import { decideStep } from './pre-step.ts';
import type { Residency } from './residency.ts';
import type { ServedAgent } from './served-agent.ts';

export class AgentServices implements HostServices {
  readonly #agent: ServedAgent;
  readonly #residency: Residency;
  readonly #desk: ToolDesk;
  readonly #models: ModelCalls;
  #isClaiming = false;

  constructor(parts: ModelCallParts & { readonly desk: ToolDesk }) {
    this.#agent = parts.agent;
    this.#residency = parts.residency;
    this.#desk = parts.desk;
    this.#models = new ModelCalls(parts);
  }

  claim(boundary: ClaimBoundary, concluded: boolean): Promise<Outcome<ClaimReply>> {
    return this.#answer(async () => {
      if (this.#isClaiming) {
        throw new ProtocolError('PROTOCOL_VIOLATION', 'Two claims are open at once.');
      }
      this.#isClaiming = true;
      try {
        return await (boundary === 'turn' ? this.#claimTurn() : this.#claimStep(concluded));
      } finally {
        this.#isClaiming = false;
      }
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
      return await this.#desk.finish(callId, outcome);
    });
  }

  openModel(request: ModelCallRequest): Promise<Outcome<ModelCallReply>> {
    return this.#answer(() => this.#models.open(request));
  }

  async #claimTurn(): Promise<ClaimReply> {
    if (this.#agent.conversation.open !== undefined) outOfPhase('turn');
    const answered = this.#residency.claiming();
    // A message can be claimed only when its insertion is committed.
    await this.#agent.accepted();
    answered();
    this.#assertLive();
    // A thread that is leaving opens nothing; the agent's phase is not its to end.
    if (!this.#residency.takesTurns) return { kind: 'idle' };
    const taken = this.#agent.takeTurn();
    if (taken === undefined) return { kind: 'idle' };
    return this.#enter(taken.turn, taken.messages, false);
  }

  async #claimStep(concluded: boolean): Promise<ClaimReply> {
    const { conversation, session } = this.#agent;
    const turn = conversation.open;
    if (turn === undefined || session.open?.step !== undefined) return outOfPhase('step');
    await this.#agent.accepted();
    this.#assertLive();
    this.#assertOpen(turn);
    if (turn.signal.aborted) return aborted(turn);
    const { meter } = this.#agent;
    if (!meter.hasStepLeft(turn)) {
      if (concluded) return this.#lastStep(turn);
      meter.outOfSteps();
      return aborted(turn);
    }
    const messages = this.#agent.takeStep(turn);
    if (messages.length > 0 || !concluded) return this.#enter(turn, messages, concluded);
    const given = await this.#lastChance(turn);
    return 'kind' in given ? given : this.#enter(turn, given, concluded);
  }

  /**
   * A concluded step, and nothing waits: hooks get their last chance to give the turn more to do.
   * @returns what they gave it, or how the turn ends without
   */
  async #lastChance(turn: OpenTurn): Promise<ClaimReply | readonly UserMessage[]> {
    const failed = await this.#askLastChance(turn);
    if (failed !== undefined) return failed;
    // The look and the answer are one tick: what comes later opens a turn of its own.
    const messages = this.#agent.takeStep(turn);
    return messages.length === 0 ? { kind: 'close', turn: turn.number } : messages;
  }

  async #askLastChance(turn: OpenTurn): Promise<ClaimReply | undefined> {
    const parts = { agent: this.#agent, residency: this.#residency, turn };
    try {
      await askHooks('agent/turn-stopping', parts, {}, () => {});
      // What was accepted meanwhile can be claimed once it is committed.
      await this.#agent.accepted();
      this.#assertRunning(turn);
    } catch (error) {
      return this.#failed(turn, error);
    }
    this.#assertOpen(turn);
    return undefined;
  }

  /**
   * The last step that the turn may take, and it concluded. What waits gets a turn of its own, as
   * if it came a moment later; only what hooks give this one to do now is beyond its limit.
   */
  async #lastStep(turn: OpenTurn): Promise<ClaimReply> {
    const { agent, meter } = this.#agent;
    const waiting = agent.inbox.nextStep.length;
    const failed = await this.#askLastChance(turn);
    if (failed !== undefined) return failed;
    if (agent.inbox.nextStep.length <= waiting) return { kind: 'close', turn: turn.number };
    meter.outOfSteps();
    return aborted(turn);
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
    this.#assertOpen(turn);
    turn.isDeciding = false;
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
    turn.isDeciding = false;
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
    this.#residency.signal.throwIfAborted();
  }

  #assertRunning(turn: OpenTurn): void {
    this.#assertLive();
    turn.signal.throwIfAborted();
  }

  /** A thread that ended its turn while it asks what comes next in it is out of phase. */
  #assertOpen(turn: OpenTurn): void {
    if (this.#agent.conversation.open !== turn) outOfPhase('step');
  }
}

function outOfPhase(boundary: ClaimBoundary): never {
  throw new ProtocolError('PROTOCOL_VIOLATION', `A claim of a ${boundary} is out of phase.`);
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
