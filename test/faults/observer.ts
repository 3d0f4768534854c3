/** Asks a ground, from another process, whether it is alive, and keeps the worst it was told. */
import { Agent, get } from 'node:http';
import type { Probing } from './observation.ts';

const EVERY_MS = 50;
/** A probe that is answered later than this is not answered. */
const PATIENCE_MS = 3_000;

export class Observer {
  readonly #port: number;
  // One connection, so that the ground's descriptors stay what they are.
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  #asked = 0;
  #unanswered = 0;
  #worstMs = 0;
  #since: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(port: number) {
    this.#port = port;
    this.#next(0);
  }

  /** From here on it counts for the next fault. */
  begin(): void {
    this.#asked = 0;
    this.#unanswered = 0;
    this.#worstMs = 0;
  }

  get seen(): Probing {
    // One that is under way may be the worst.
    const waiting = this.#since === undefined ? 0 : performance.now() - this.#since;
    return {
      asked: this.#asked,
      unanswered: this.#unanswered,
      worstMs: Math.max(this.#worstMs, waiting),
    };
  }

  close(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#agent.destroy();
  }

  #next(ms: number): void {
    if (!this.#isOver) this.#timer = setTimeout(() => this.#ask(), ms);
  }

  #ask(): void {
    this.#asked++;
    const since = performance.now();
    this.#since = since;
    let isDone = false;
    const done = (isAnswered: boolean): void => {
      if (isDone) return;
      isDone = true;
      this.#since = undefined;
      const ms = performance.now() - since;
      this.#worstMs = Math.max(this.#worstMs, ms);
      if (!isAnswered) this.#unanswered++;
      this.#next(Math.max(0, EVERY_MS - ms));
    };
    const request = get({ port: this.#port, host: '127.0.0.1', agent: this.#agent }, (response) => {
      response.resume();
      response.on('end', () => done(response.statusCode === 200));
      response.on('error', () => done(false));
    });
    request.setTimeout(PATIENCE_MS, () => request.destroy());
    request.on('error', () => done(false));
    request.on('close', () => done(false));
  }
}
