import type { Clock } from '../base/clock.ts';
import type { HostStreamRequest } from './host-stream.ts';
import { systemClock } from '../base/clock.ts';
import { HostStream } from './host-stream.ts';

export type { HostStreamRequest } from './host-stream.ts';

/** The open model streams of one agent, as far as they run on main. */
export class ModelGateway {
  readonly #clock: Clock;
  readonly #streams = new Map<HostStream, Promise<void>>();

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  get openStreams(): number {
    return this.#streams.size;
  }

  /**
   * Run one request. Resolves when its finish was sent: a model's failure is a finish, not a
   * rejection. Rejects with what `onPart` or `ready` threw; the receiver gets an error finish.
   */
  async open(request: HostStreamRequest): Promise<void> {
    const stream = new HostStream(request, this.#clock);
    const running = stream.run();
    this.#streams.set(stream, running);
    try {
      await running;
    } finally {
      this.#streams.delete(stream);
    }
  }

  /** End every stream in this tick. Resolves when nothing of them can happen any more. */
  async abortAll(message?: string): Promise<void> {
    for (const stream of this.#streams.keys()) stream.abort(message);
    await Promise.allSettled(this.#streams.values());
  }
}
