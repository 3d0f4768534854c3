/**
 * What is open in one agent's log, on main: the turn, its step, its model streams and the first
 * cause that told it to stop. It turns the thread's words into session events and refuses those
 * that do not fit. It knows no thread; the thread may die and the turn is still closed here.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { ProtocolError } from '../../protocol/errors.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import { MessageId, StreamId } from '../../protocol/ids.ts';
import type { Failure, ModelPart, ModelRequest } from '../../protocol/model.ts';
import type {
  CancelCause,
  RequestHeader,
  SubagentDescriptor,
  TurnEndReason,
} from '../../protocol/session-events.ts';
import type { WorkerEvent, WorkerEventOf } from '../../protocol/to-main.ts';
import type { ToolSpec } from '../../protocol/tool.ts';
import { newId } from '../base/ids.ts';
import { closeOpenCalls, closeOpenTurn } from '../session/repair.ts';
import type { Session } from '../session/session.ts';

const UNANSWERED = {
  code: 'TOOL_OUTCOME_UNKNOWN',
  message: 'The agent ended before this call was answered; what it did is unknown.',
};

/** A model stream of the open step: the events its parts became. */
interface OpenStream {
  readonly seqs: number[];
  readonly provider: string;
  readonly model: string;
  /** True while its parts come from the thread. */
  readonly isFromThread: boolean;
  /** It became a message; it becomes no other. */
  isSpent: boolean;
}

export class OpenTurn {
  readonly number: number;
  readonly #controller = new AbortController();
  readonly streams = new Map<StreamId, OpenStream>();
  step = 0;
  /** Model requests of the open step, and the retries that were announced before them. */
  attempts = 0;
  retries = 0;
  /** The last retry that was announced. */
  announced = 0;
  system: string | undefined;
  tools: readonly ToolSpec[] = [];
  #cause: CancelCause | undefined;

  constructor(number: number) {
    this.number = number;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get cause(): CancelCause | undefined {
    return this.#cause;
  }

  /** False when it was told before: the first cause wins. */
  cancel(cause: CancelCause): boolean {
    if (this.#cause !== undefined) return false;
    this.#cause = cause;
    this.#controller.abort(new DOMException(`Cancelled: ${cause.kind}.`, 'AbortError'));
    return true;
  }
}

export interface ConversationOptions {
  readonly session: Session;
  readonly descriptor: SubagentDescriptor | undefined;
  /** What a limit means in words, for the turn that exceeded it. */
  describeLimit(limit: string): string;
}

export class Conversation {
  readonly #options: ConversationOptions;
  readonly #session: Session;
  #open: OpenTurn | undefined;
  #isDescribed = false;
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
    turn.step++;
    turn.attempts = 0;
    turn.retries = 0;
    turn.announced = 0;
    turn.streams.clear();
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

  /** Write down what the next request is made of, and the request itself. */
  openRequest(config: RequestHeader['config']): ModelRequest {
    const turn = this.#open;
    const header: RequestHeader = {
      config,
      ...(turn?.system === undefined ? {} : { system: turn.system }),
      ...(turn === undefined || turn.tools.length === 0 ? {} : { tools: turn.tools }),
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
    const { system, tools } = header;
    return {
      ...config,
      messages: this.#session.deriveMessages(),
      ...(system === undefined ? {} : { system }),
      ...(tools === undefined ? {} : { tools }),
      sessionId: this.#session.id,
    };
  }

  /** The next request of the open step: the first, or one whose retry was announced. */
  expectAttempt(turn: OpenTurn, attempt: number): void {
    if (attempt !== turn.attempts + 1 || attempt !== turn.retries + 1) {
      refuse(`attempt ${attempt} of step ${turn.number}.${turn.step}, which is not its next`);
    }
    turn.attempts = attempt;
  }

  /** A call that the open step's message asks for, and that was not made yet. */
  expectCall({ turn, step, callId }: ToolCallRequest): OpenTurn {
    const open = this.expectStep(turn, step);
    if (this.#session.open?.unstarted.has(callId) !== true) {
      refuse(`the tool call "${callId}", which no model asks for now`);
    }
    return open;
  }

  openStream(turn: OpenTurn, request: ModelRequest, isFromThread: boolean): StreamId {
    const stream = StreamId(`m${++this.#streams}`);
    const { provider, model } = request;
    turn.streams.set(stream, { seqs: [], provider, model, isFromThread, isSpent: false });
    return stream;
  }

  /** One part of a stream that main holds. After the turn was told to stop none is kept. */
  chunk(turn: OpenTurn, stream: StreamId, chunk: ModelPart): void {
    const place = turn.streams.get(stream);
    if (place === undefined || turn !== this.#open || turn.signal.aborted) return;
    if (this.#session.open?.step !== turn.step) return;
    const data = { turn: turn.number, step: turn.step, chunk };
    place.seqs.push(this.#session.append('assistant/chunk', data).seq);
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
        place.seqs.push(this.#session.append('assistant/chunk', { turn, step, chunk }).seq);
        return undefined;
      }
      case 'assistant/message':
        this.#assistantMessage(event.data);
        return undefined;
      case 'llm/retry':
      case 'llm/retry-started':
        this.expectStep(event.data.turn, event.data.step);
        this.#expectRetry(event);
        if (event.type === 'llm/retry') {
          this.#session.append('llm/retry', event.data);
          return undefined;
        }
        this.#session.append('llm/retry-started', event.data);
        if (this.#open !== undefined) this.#open.retries++;
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
  reasonOf(cause: CancelCause): TurnEndReason {
    if (cause.kind !== 'limit') return { kind: 'aborted', reason: cause };
    const calls = [...(this.#session.open?.unanswered.values() ?? [])].map(({ name }) => name);
    const running = calls.length === 0 ? '' : ` It was waiting for: ${calls.join(', ')}.`;
    const message = `${this.#options.describeLimit(cause.limit)}${running}`;
    return { kind: 'error', error: { code: 'LIMIT_EXCEEDED', message } };
  }

  /** A retry is announced once after its failed request, and started once after that. */
  #expectRetry({ type, data }: WorkerEventOf<'llm/retry' | 'llm/retry-started'>): void {
    const turn = this.#open;
    if (turn === undefined) return;
    const isStart = type === 'llm/retry-started';
    const isDue =
      data.retry === turn.attempts &&
      data.retry === turn.retries + 1 &&
      turn.announced === (isStart ? data.retry : data.retry - 1);
    if (!isDue) refuse(`retry ${data.retry} of step ${data.turn}.${data.step}, which is not due`);
    turn.announced = data.retry;
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
    const end = this.#endReason(open, reason);
    this.#session.append('turn/end', { turn, reason: end });
    this.#open = undefined;
    return end;
  }

  #endReason(open: OpenTurn, reason: WorkerEventOf<'turn/end'>['data']['reason']): TurnEndReason {
    switch (reason.kind) {
      case 'completed':
      case 'max-tokens':
      case 'blocked':
        return { kind: reason.kind };
      case 'aborted':
        if (open.cause === undefined) refuse('an abort that nobody asked for');
        return this.reasonOf(open.cause);
      case 'error':
        return { kind: 'error', error: failureOf(reason.error) };
      default:
        return reason satisfies never;
    }
  }
}

function failureOf(error: Failure | undefined): Failure {
  return error ?? { code: 'UNKNOWN', message: 'The turn failed without saying why.' };
}

function refuse(what: string): never {
  throw new ProtocolError('PROTOCOL_VIOLATION', `A thread tells of ${what}.`);
}
