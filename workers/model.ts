import type { Message } from '../protocol/content.ts';
import type { HostServices, ModelCallReply, ModelCallRequest } from '../protocol/host-services.ts';
import type { StreamId } from '../protocol/ids.ts';
import { streamModel } from '../protocol/model-stream.ts';
import type { ModelAdapter, ModelPart, ModelRequest } from '../protocol/model.ts';
import type { WorkerEvent } from '../protocol/to-main.ts';
import type { ToWorkerOf } from '../protocol/to-worker.ts';
import { valueOf } from './services.ts';

/** One request on its way: who answers, and its parts in batches as they came. */
export interface ModelAnswer {
  readonly stream: StreamId;
  readonly provider: string;
  readonly model: string;
  /**
   * Ends after the batch with the `finish`, which an abort brings as well, or when the port closes.
   * A batch counts as consumed when the next one is asked for.
   */
  readonly parts: AsyncIterable<readonly ModelPart[]>;
}

export interface AgentModelOptions {
  readonly services: Pick<HostServices, 'openModel'>;
  /** The model given as a module, if the agent's model is one. */
  readonly adapter: ModelAdapter | undefined;
  readonly events: {
    post(event: WorkerEvent): void;
    ready(): Promise<void> | undefined;
  };
  /** One `parts` frame is dealt with. */
  takeParts(): void;
}

/** One model for the loop, wherever it runs: a stream held by main, or a module run here. */
export class AgentModel {
  readonly #options: AgentModelOptions;
  /** What the module was shown so far; empty while main holds the streams. */
  readonly #history: Message[] = [];
  /** Parts that came before the reply that names their stream was read. */
  #early: ToWorkerOf<'parts'>[] | undefined;
  #stream: HostStream | undefined;

  constructor(options: AgentModelOptions) {
    this.#options = options;
  }

  /**
   * Ask for one model request. Its stream must be read, or iterated and left. `undefined`: main
   * makes it no more.
   */
  async open(request: ModelCallRequest, signal: AbortSignal): Promise<ModelAnswer | undefined> {
    this.#early = [];
    let reply: ModelCallReply | undefined;
    try {
      reply = valueOf(await this.#options.services.openModel(request));
    } finally {
      const early = this.#early ?? [];
      this.#early = undefined;
      if (reply?.route === 'host') {
        this.#stream = new HostStream(reply.stream, () => this.#options.takeParts());
      }
      for (const frame of early) this.deliver(frame);
    }
    switch (reply.route) {
      case 'none':
        return undefined;
      case 'here': {
        const { stream } = reply;
        const { provider, model } = reply.request;
        const full = { ...reply.request, messages: this.#remember(reply) };
        return { stream, provider, model, parts: this.#run(full, request, stream, signal) };
      }
      case 'host': {
        const { stream, provider, model } = reply;
        return { stream, provider, model, parts: this.#stream?.read() ?? noParts() };
      }
      default:
        return reply satisfies never;
    }
  }

  /** Hand in one frame of parts. Those of a stream that has ended are passed over. */
  deliver(frame: ToWorkerOf<'parts'>): void {
    if (this.#early !== undefined) this.#early.push(frame);
    else if (this.#stream?.id === frame.stream) this.#stream.push(frame.parts);
    else this.#options.takeParts();
  }

  /** The port to main is closed: a stream that is being read ends with what has come. */
  close(): void {
    this.#stream?.close();
  }

  #remember(reply: Extract<ModelCallReply, { route: 'here' }>): readonly Message[] {
    this.#history.length = reply.knownMessages;
    for (const message of reply.request.messages) this.#history.push(message);
    return [...this.#history];
  }

  async *#run(
    request: ModelRequest,
    { turn, step }: ModelCallRequest,
    stream: StreamId,
    signal: AbortSignal,
  ): AsyncGenerator<readonly ModelPart[]> {
    if (signal.aborted) return;
    for await (const chunk of streamModel(this.#options.adapter, request, signal)) {
      // The end that a cancellation brings is no word of the model; main keeps none, either.
      if (!signal.aborted) {
        const data = { turn, step, stream, chunk };
        this.#options.events.post({ type: 'assistant/chunk', data });
      }
      yield [chunk];
      // No credit: the module is not asked for its next part until main has taken some.
      const credit = this.#options.events.ready();
      if (credit !== undefined) await untilAborted(credit, signal);
    }
  }
}

/** The worker's end of one stream that main holds. */
class HostStream {
  readonly id: StreamId;
  readonly #take: () => void;
  readonly #batches: (readonly ModelPart[])[] = [];
  #isOver = false;
  #arrived: (() => void) | undefined;

  constructor(id: StreamId, take: () => void) {
    this.id = id;
    this.#take = take;
  }

  push(parts: readonly ModelPart[]): void {
    if (this.#isOver) return this.#take();
    this.#batches.push(parts);
    this.#arrived?.();
  }

  /** Nothing more can come. */
  close(): void {
    this.#isOver = true;
    this.#arrived?.();
  }

  /** To the finish, which main sends in the tick of an abort, too; or until nothing can come. */
  async *read(): AsyncGenerator<readonly ModelPart[]> {
    try {
      for (;;) {
        for (let parts = this.#batches.shift(); parts; parts = this.#batches.shift()) {
          try {
            yield parts;
          } finally {
            this.#take();
          }
          if (parts.some((part) => part.type === 'finish')) return;
        }
        if (this.#isOver) return;
        await new Promise<void>((resolve) => (this.#arrived = resolve));
      }
    } finally {
      this.#isOver = true;
      for (const _ of this.#batches.splice(0)) this.#take();
    }
  }
}

async function* noParts(): AsyncGenerator<readonly ModelPart[]> {}

/** Wait for `promise`, but not beyond an abort of `signal`. */
function untilAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done);
      resolve();
    };
    if (signal.aborted) return done();
    signal.addEventListener('abort', done, { once: true });
    void promise.then(done, done);
  });
}
