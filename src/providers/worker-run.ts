/**
 * Drives one published child through its one prompt and reads the result from its log. Owns the
 * child's handle; the child's thread is the host's. All of it is on main.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { TurnEndReason } from '../../protocol/session-events.ts';
import type { Agent, AgentEvents, AgentFailure, AgentHandle } from '../agent/agent.ts';
import { deferred, listenForAbort } from '../base/deferred.ts';
import type { Emitter } from '../base/emitter.ts';
import { foldConsumedWork, oneShotStopReason } from '../session/consumed-work.ts';
import { finalOutput } from '../session/output.ts';
import type { SubagentResult, SubagentRun, SubagentStopReason } from '../subagents/provider.ts';
import { boundDiagnostic } from '../subagents/diagnostic.ts';
import type { StructuredCapture } from '../subagents/structured.ts';

export interface WorkerRunOptions {
  /** The run takes it over. */
  readonly handle: AgentHandle;
  readonly prompt: UserMessage;
  /** Aborting stops the child with cause `parent`. */
  readonly signal: AbortSignal;
  /** Present when the child has to hand in a structured value. */
  readonly capture: StructuredCapture | undefined;
  readonly observers: Pick<Emitter<AgentEvents>, 'on'>;
}

export class WorkerRun implements SubagentRun {
  readonly id: SessionId;
  readonly localAgent: Agent;
  readonly result: Promise<SubagentResult>;
  readonly #handle: AgentHandle;
  readonly #letGo: () => void = () => {};
  readonly #capture: StructuredCapture | undefined;
  /** The last failure that was told of the child itself; its turns' are in the log. */
  #failure: AgentFailure | undefined;
  #cancelled = false;
  #settled = false;
  #disposal: Promise<void> | undefined;

  constructor({ handle, prompt, signal, capture, observers }: WorkerRunOptions) {
    this.id = handle.agent.id;
    this.localAgent = handle.agent;
    this.#handle = handle;
    this.#capture = capture;
    // An abort may have come between the child's publication and this line. No listener was
    // there to hear it, and the child was told nothing: it stays that way.
    if (signal.aborted) {
      this.#settled = true;
      this.result = Promise.resolve({ output: [], stopReason: 'aborted' });
      return;
    }
    this.#letGo = listenForAbort(signal, () => this.#cancel());
    this.result = this.#drive(prompt, observers);
    // Whoever holds the run reads it from the promise; nobody has to.
    this.result.catch(() => {});
  }

  dispose(): Promise<void> {
    if (this.#disposal === undefined) {
      const { promise, resolve } = deferred<void>();
      // Set before the child is stopped: who is told of that may come here again.
      this.#disposal = promise;
      resolve(this.#release());
    }
    return this.#disposal;
  }

  async #drive(
    prompt: UserMessage,
    observers: WorkerRunOptions['observers'],
  ): Promise<SubagentResult> {
    const ignore = observers.on('agent/error', ({ agent, error }) => {
      if (agent === this.localAgent) this.#failure = error;
    });
    try {
      this.localAgent.followup(prompt);
      await this.localAgent.whenIdle();
      return this.#read();
    } catch (error) {
      // Its owner ended it between its publication and this run: like an abort that came then.
      const isEnded = error instanceof SubagentError && error.code === 'DRAINING';
      if (isEnded) return { output: [], stopReason: 'aborted' };
      throw error;
    } finally {
      this.#settled = true;
      this.#letGo();
      ignore();
    }
  }

  #cancel(): void {
    this.#cancelled = true;
    if (!this.#settled) this.localAgent.cancel({ kind: 'parent' });
  }

  async #release(): Promise<void> {
    this.#letGo();
    this.#cancel();
    const [disposal] = await Promise.allSettled([this.#handle.dispose(), this.result]);
    if (disposal.status === 'rejected') throw disposal.reason;
  }

  /** The result, from what the child itself has logged. */
  #read(): SubagentResult {
    const { session } = this.localAgent;
    const events = session.eventsFrom(session.firstLiveSeq);
    const output = [...(finalOutput(events) ?? [])];
    const { end, droppedUnrun } = foldConsumedWork(events);
    let stopReason: SubagentStopReason = oneShotStopReason(events);
    // A prompt that was taken back, or still waits: the child was ended before anything ran.
    const isUnrun = end === undefined && (droppedUnrun || this.localAgent.inbox.hasPending);
    const untold = isUnrun && this.#failure === undefined;
    if (stopReason !== 'completed' && (this.#cancelled || untold)) stopReason = 'aborted';
    let failure = end?.data.reason.kind === 'error' ? end.data.reason.error : this.#failure;

    const captured = this.#capture?.captured;
    if (this.#capture !== undefined && captured === undefined && stopReason === 'completed') {
      stopReason = this.#cancelled ? 'aborted' : 'error';
      failure = NOTHING_HANDED_IN;
    }
    return {
      output,
      ...(captured === undefined ? {} : { structured: captured.value }),
      stopReason,
      ...diagnosticOf(stopReason, end?.data.reason, failure),
    };
  }
}

const UNFINISHED: AgentFailure = {
  code: 'NOT_FINISHED',
  message: 'The child ended before its turn was finished.',
};

const NOTHING_HANDED_IN: AgentFailure = {
  code: 'NO_STRUCTURED_OUTPUT',
  message: 'The child finished without handing in a valid structured result.',
};

/** What a failure or a refusal says of itself; anything else needs no explanation. */
function diagnosticOf(
  stopReason: SubagentStopReason,
  ended: TurnEndReason | undefined,
  failure: AgentFailure | undefined,
): { diagnostic?: string } {
  if (stopReason === 'refusal' && ended?.kind === 'blocked' && ended.reason !== undefined) {
    return { diagnostic: boundDiagnostic(`BLOCKED: ${ended.reason}`) };
  }
  if (stopReason !== 'error') return {};
  const { code, message } = failure ?? UNFINISHED;
  return { diagnostic: boundDiagnostic(`${code}: ${message}`) };
}
