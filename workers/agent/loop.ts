/**
 * The agent's loop: a plain function of what it is given. Main opens turns and steps and writes
 * what goes into them; the loop runs them and writes their ends.
 */
import type { ClaimReply, HostServices } from '../../protocol/host-services.ts';
import type { TurnEndReason } from '../../protocol/session-events.ts';
import type { WorkerTurnEnd } from '../../protocol/to-main.ts';
import { valueOf } from '../services.ts';
import { turnErrorOf } from './failure.ts';
import type { TurnCancellation, TurnCancellations } from './interrupt.ts';
import { runStep } from './step.ts';
import type { StepParts } from './step.ts';

/**
 * There is, or was, something to claim. A level, not an edge: one bit, which every wake sets
 * and the claim clears, so that a wake is never lost and never counted.
 */
export class Wake {
  #isRaised = false;
  #isOver = false;
  #notify: (() => void) | undefined;

  /** True once no further turn is to be claimed. */
  get isOver(): boolean {
    return this.#isOver;
  }
  raise(): void {
    this.#isRaised = true;
    this.#notify?.();
  }
  lower(): void {
    this.#isRaised = false;
  }
  /** No further turn: whoever waits is let go. */
  finish(): void {
    this.#isOver = true;
    this.#notify?.();
  }
  /** Until the bit is set, or all is over. At once when it is so already. */
  async raised(): Promise<void> {
    if (this.#isRaised || this.#isOver) return;
    await new Promise<void>((resolve) => (this.#notify = resolve));
    this.#notify = undefined;
  }
}

export interface LoopParts extends StepParts {
  readonly services: Pick<HostServices, 'claim'>;
  readonly wake: Wake;
  readonly cancellations: TurnCancellations;
}

/**
 * Claim turns and run them, whenever woken, until `wake` is finished. A turn that is open then
 * is ended first.
 *
 * @throws when a turn could not be claimed: there is nothing left to do for this loop.
 */
export async function runLoop(parts: LoopParts): Promise<void> {
  const { services, wake } = parts;
  await wake.raised();
  while (!wake.isOver) {
    wake.lower();
    const reply = valueOf(await services.claim('turn', false));
    if (reply.kind === 'idle') await wake.raised();
    else await runTurn(reply, parts);
  }
}

type TurnReply = Exclude<ClaimReply, { kind: 'idle' }>;

/** Run one open turn to its `turn/end`, whatever is thrown in it. */
async function runTurn(first: TurnReply, parts: LoopParts): Promise<void> {
  const { turn } = first;
  const cancellation = parts.cancellations.begin(turn);
  let reason: WorkerTurnEnd;
  try {
    reason = await runSteps(first, cancellation, parts);
  } catch (thrown) {
    reason = cancellation.isRaised()
      ? { kind: 'aborted' }
      : { kind: 'error', error: turnErrorOf(thrown) };
  }
  parts.cancellations.end();
  parts.post({ type: 'turn/end', data: { turn, reason } });
}

async function runSteps(
  first: TurnReply,
  cancellation: TurnCancellation,
  parts: LoopParts,
): Promise<WorkerTurnEnd> {
  const { turn } = first;
  let wasCutOff = false;
  let reply: ClaimReply = first;
  for (;;) {
    switch (reply.kind) {
      case 'end':
        return endOf(reply.reason);
      case 'close':
        cancellation.throwIfRaised();
        return { kind: wasCutOff ? 'max-tokens' : 'completed' };
      case 'enter':
        break;
      case 'idle':
        throw new TypeError(`An open turn (${turn}) was called idle.`);
      default:
        reply satisfies never;
    }
    const end = await runStep({ turn, step: reply.step }, cancellation, parts);
    wasCutOff ||= end === 'max-tokens';
    cancellation.throwIfRaised();
    reply = valueOf(await parts.services.claim('step', end !== 'continues'));
  }
}

/** Who stopped the turn, and why, is main's to say. */
function endOf(reason: TurnEndReason): WorkerTurnEnd {
  switch (reason.kind) {
    case 'completed':
    case 'max-tokens':
    case 'blocked':
      return { kind: reason.kind };
    case 'aborted':
    case 'interrupted':
      return { kind: 'aborted' };
    case 'error':
      return { kind: 'error', error: reason.error };
    // Open for new kinds: an unknown one is a failure.
    default: {
      const { kind } = reason as { readonly kind: string };
      return { kind: 'error', error: { message: `The turn ended: ${kind}.`, code: 'UNKNOWN' } };
    }
  }
}
