/**
 * What is open in one agent's log, on main: the turn, its step, its model streams and the first
 * cause that told it to stop. It turns the thread's words into session events and refuses those
 * that do not fit. It knows no thread; the thread may die and the turn is still closed here.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ProtocolError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import { MessageId, StreamId } from '../../protocol/ids.ts';
import type { Failure, ModelPart, ModelRequest, RetryPolicy } from '../../protocol/model.ts';
import type {
  CancelCause,
  RequestHeader,
  SubagentDescriptor,
  TurnEndReason,
} from '../../protocol/session-events.ts';
import type { WorkerEvent, WorkerEventOf } from '../../protocol/to-main.ts';
import { newId } from '../base/ids.ts';
import { closeOpenCalls, closeOpenTurn } from '../session/repair.ts';
import type { Session } from '../session/session.ts';
import { OpenTurn } from './open-turn.ts';
import type { FailedRequest } from './open-turn.ts';

const UNANSWERED = {
  code: 'TOOL_OUTCOME_UNKNOWN',
  message: 'The agent ended before this call was answered; what it did is unknown.',
};

export interface ConversationOptions {
  readonly session: Session;
  readonly descriptor: SubagentDescriptor | undefined;
  /** What a limit means in words, for a turn that was told to stop for it and not why. */
  describeLimit(limit: string): string;
}

export class Conversation {
  readonly #options: ConversationOptions;
  readonly #session: Session;
  #open: OpenTurn | undefined;
  #isDescribed = false;
  /** In this life of the agent; what the log inherited does not count. */
  #hasRequested = false;
  #streams = 0;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#session = options.session;
  }

  get open(): OpenTurn | undefined {
    return this.#open;
  }

  openTurn(): OpenTurn {
    const number = this.#session.lastTurn + 1;
    const turn = new OpenTurn(number);
    // Open before it is told, so that a listener can stop it.
    this.#open = turn;
    try {
      this.#session.append('turn/start', { turn: number });
    } catch (error) {
      this.#open = undefined;
      throw error;
    }
    return turn;
  }

  /** The next step of the open turn, with what it is told. */
  openStep(turn: OpenTurn, messages: readonly UserMessage[]): void {
    const { descriptor } = this.#options;
    if (descriptor !== undefined && !this.#isDescribed) {
      this.#session.append('subagent/descriptor', descriptor);
    }
    this.#isDescribed = true;
    turn.nextStep();
    this.#session.append('step/start', { turn: turn.number, step: turn.step });
    for (const message of messages) this.#session.append('user/message', message);
  }

  /** A step that was never told to the thread. */
  closeStep(turn: OpenTurn): void {
    this.#session.append('step/end', { turn: turn.number, step: turn.step });
  }

  /** The open turn, if this is a step of it; anything else is out of phase. */
  expectStep(turn: number, step: number): OpenTurn {
    const open = this.#session.open;
    if (this.#open === undefined || open?.turn !== turn || open.step !== step) {
      throw new ProtocolError(
        'PROTOCOL_VIOLATION',
        `A thread speaks of step ${turn}.${step}, which is not open.`,
      );
    }
    return this.#open;
  }

  /** What the last request of this life was asked with. */
  get lastConfig(): RequestHeader['config'] | undefined {
    return this.#hasRequested ? this.#session.lastHeader()?.config : undefined;
  }

  /** Write down what the next request is made of, and the request itself. */
  openRequest(turn: OpenTurn, config: RequestHeader['config']): ModelRequest {
    const system = turn.system();
    const tools = turn.tools.length === 0 ? undefined : turn.tools;
    const header: RequestHeader = {
      config,
      ...(system === undefined ? {} : { system }),
      ...(tools === undefined ? {} : { tools }),
    };
    const last = this.#session.lastHeader();
    if (!this.#hasRequested || JSON.stringify(last) !== JSON.stringify(header)) {
      const reason = this.#hasRequested ? 'change' : last === undefined ? 'initial' : 'resume';
      this.#session.append('request/header', { header, reason });
    }
    this.#hasRequested = true;
    const { provider, model } = config;
    const context = this.#session.lastContext();
    if (context?.provider !== provider || context.model !== model) {
      this.#session.append('request/context', { provider, model });
    }
    return {
      ...config,
      messages: this.#session.deriveMessages(),
      ...(system === undefined ? {} : { system }),
      ...(tools === undefined ? {} : { tools }),
      sessionId: this.#session.id,
    };
  }

  /**
   * The next attempt at the open step's request. One that is not the first follows one that
   * failed, which is returned; it is dealt with from here on, and followed only once.
   */
  expectAttempt(turn: OpenTurn, attempt: number): FailedRequest | undefined {
    const failed = failureOfLast(turn);
    if (attempt !== turn.attempts + 1 || (attempt > 1 && failed === undefined)) {
      refuse(`attempt ${attempt} of step ${turn.number}.${turn.step}, which is not its next`);
    }
    turn.attempts = attempt;
    turn.lastStream = undefined;
    return failed;
  }

  /** A call that the open step's message asks for, and that was not made yet. */
  expectCall({ turn, step, callId }: ToolCallRequest): OpenTurn {
    const open = this.expectStep(turn, step);
    if (this.#session.open?.unstarted.has(callId) !== true) {
      refuse(`the tool call "${callId}", which no model asks for now`);
    }
    return open;
  }

  openStream(
    turn: OpenTurn,
    { provider, model }: ModelRequest,
    from: { readonly isFromThread: boolean; readonly retryPolicy: RetryPolicy },
  ): StreamId {
    const stream = StreamId(`m${++this.#streams}`);
    const open = { seqs: [], provider, model, ...from, finish: undefined, isSpent: false };
    turn.streams.set(stream, open);
    turn.lastStream = open;
    return stream;
  }

  /** One part of a stream that main holds. After the turn was told to stop none is kept. */
  chunk(turn: OpenTurn, stream: StreamId, chunk: ModelPart): void {
    const place = turn.streams.get(stream);
    if (place === undefined || turn !== this.#open || turn.signal.aborted) return;
    if (this.#session.open?.step !== turn.step) return;
    const data = { turn: turn.number, step: turn.step, chunk };
    if (chunk.type === 'finish') place.finish = chunk.reason;
    try {
      place.seqs.push(this.#session.append('assistant/chunk', data).seq);
    } catch (error) {
      // What cannot be logged ends the stream: its reader is told of a failure, and asks on.
      const { code, message } = toErrorRecord(error);
      place.finish ??= { kind: 'error', failure: { code, message } };
      throw error;
    }
  }

  /**
   * What the thread tells becomes an event of the log.
   * @returns how the turn ended, when this ended it
   * @throws {ProtocolError} when it does not fit what is open
   */
  event(event: WorkerEvent): TurnEndReason | undefined {
    switch (event.type) {
      case 'assistant/chunk': {
        const { turn, step, stream, chunk } = event.data;
        const place = this.expectStep(turn, step).streams.get(stream);
        if (place?.isFromThread !== true) refuse('parts of a stream that is not its own');
        if (this.#open?.isFull === true) {
          if (chunk.type === 'finish') place.finish ??= chunk.reason;
          return undefined;
        }
        place.seqs.push(this.#session.append('assistant/chunk', { turn, step, chunk }).seq);
        if (chunk.type === 'finish') place.finish ??= chunk.reason;
        return undefined;
      }
      case 'assistant/message':
        this.#assistantMessage(event.data);
        return undefined;
      case 'step/end':
        this.expectStep(event.data.turn, event.data.step);
        closeOpenCalls(this.#session, UNANSWERED);
        this.#session.append('step/end', event.data);
        return undefined;
      case 'turn/end':
        return this.#turnEnd(event.data);
      default:
        return event satisfies never;
    }
  }

  /** The thread is gone: close what it left open, with the true reason. */
  close(reason: TurnEndReason): void {
    if (this.#open === undefined) return;
    this.#open.cancel({ kind: 'disposed' });
    closeOpenTurn(this.#session, reason, UNANSWERED);
    this.#open = undefined;
  }

  /** How a turn that was told to stop is written down. */
  #reasonOf({ excess }: OpenTurn, cause: CancelCause): TurnEndReason {
    if (cause.kind !== 'limit') return { kind: 'aborted', reason: cause };
    const calls = [...(this.#session.open?.unanswered.values() ?? [])].map(({ name }) => name);
    const running = calls.length === 0 ? '' : ` It was waiting for: ${calls.join(', ')}.`;
    const message = `${excess ?? this.#options.describeLimit(cause.limit)}${running}`;
    return { kind: 'error', error: { code: 'LIMIT_EXCEEDED', message } };
  }

  /** How a turn ends whose thread is gone, unless it was told to stop before. */
  reasonOfDeath(turn: OpenTurn, error: HarnessError | undefined): TurnEndReason {
    if (turn.cause !== undefined) return this.#reasonOf(turn, turn.cause);
    const code = error?.code ?? 'WORKER_EXITED';
    const message = error?.message ?? 'The thread ended while its turn was open.';
    return { kind: 'error', error: { code, message } };
  }

  #assistantMessage(data: WorkerEventOf<'assistant/message'>['data']): void {
    const { turn, step, stream, parts, message, usage, interrupted } = data;
    const place = this.expectStep(turn, step).streams.get(stream);
    if (place === undefined || place.isSpent) refuse('a message of a stream that is not open');
    place.isSpent = true;
    // Who said it is what main asked, whatever the thread says; and it gets its id here.
    const { provider, model } = place;
    this.#session.append(
      'assistant/message',
      {
        turn,
        step,
        message: {
          ...message,
          id: MessageId(newId()),
          source: { ...message.source, kind: 'model', provider, model },
        },
        ...(usage === undefined ? {} : { usage }),
        ...(interrupted === undefined ? {} : { interrupted }),
      },
      { sources: place.seqs.slice(0, parts) },
    );
  }

  #turnEnd({ turn, reason }: WorkerEventOf<'turn/end'>['data']): TurnEndReason {
    const open = this.#open;
    if (open?.number !== turn || this.#session.open?.step !== undefined) {
      refuse(`the end of turn ${turn}, which it does not stand at`);
    }
    const told = this.#endReason(open, reason);
    // A limit holds from the tick in which it was passed, whatever was on its way by then.
    const { cause } = open;
    const end = cause?.kind === 'limit' ? this.#reasonOf(open, cause) : told;
    this.#session.append('turn/end', { turn, reason: end });
    this.#open = undefined;
    return end;
  }

  #endReason(open: OpenTurn, reason: WorkerEventOf<'turn/end'>['data']['reason']): TurnEndReason {
    switch (reason.kind) {
      case 'completed':
      case 'max-tokens':
        return { kind: reason.kind };
      case 'blocked':
        if (open.block === undefined) refuse('a refusal that nobody decided');
        return { kind: 'blocked', ...open.block };
      case 'aborted':
        if (open.cause === undefined) refuse('an abort that nobody asked for');
        return this.#reasonOf(open, open.cause);
      case 'error':
        return { kind: 'error', error: failureOf(reason.error) };
      default:
        return reason satisfies never;
    }
  }
}

function failureOfLast({ attempts, lastStream }: OpenTurn): FailedRequest | undefined {
  if (lastStream === undefined || lastStream.isSpent) return undefined;
  const { finish, provider, retryPolicy } = lastStream;
  if (finish?.kind !== 'error' && finish?.kind !== 'aborted') return undefined;
  return { attempt: attempts, provider, retryPolicy, failure: finish.failure };
}

function failureOf(error: Failure | undefined): Failure {
  return error ?? { code: 'UNKNOWN', message: 'The turn failed without saying why.' };
}

function refuse(what: string): never {
  throw new ProtocolError('PROTOCOL_VIOLATION', `A thread tells of ${what}.`);
}
