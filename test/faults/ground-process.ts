/** A ground as whoever watches it has it: told of faults, asked from outside, ended in the end. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ProcessEnd } from './kinds.ts';
import { SLACK } from './limits.ts';
import type { Cell } from './moments.ts';
import type { Observation, Probing } from './observation.ts';
import { Observer } from './observer.ts';

/** How a ground came to its end. */
export interface GroundEnd extends ProcessEnd {
  readonly stderr: string;
  /** Of the harness, when it was asked to go. */
  readonly disposeMs: number | undefined;
}

export type Played =
  | { readonly seen: Observation; readonly probing: Probing }
  | { readonly failed: string; readonly probing: Probing };

type Line =
  | { readonly type: 'up'; readonly port: number; readonly folder: string }
  | { readonly type: 'begun'; readonly number: number }
  | { readonly type: 'seen'; readonly number: number; readonly seen: Observation }
  | { readonly type: 'failed'; readonly number: number; readonly error: string }
  | { readonly type: 'disposed'; readonly ms: number; readonly uncaught: readonly string[] };

/** Built by `tsc -b test`, whoever asks for it. */
const program = (): string => {
  const built = new URL('ground.js', import.meta.url);
  const isBuilt = import.meta.url.includes('/dist/test/');
  return fileURLToPath(isBuilt ? built : new URL('../../dist/test/faults/ground.js', built));
};
/** Longer than any fault takes: by then the ground hangs. */
const FAULT_MS = 75_000 * SLACK;
/** From the end of its input to the end of a process that is asked to go. */
const LEAVE_MS = 6_000;
const STDERR_CHARS = 4_000;
/** Descriptors of a ground, so that a fault can use them up. */
const DESCRIPTORS = 1_024;

export class GroundProcess {
  readonly #process: ChildProcess;
  readonly #ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #waiting: ((line: Line | undefined) => void)[] = [];
  readonly #lines: Line[] = [];
  #observer: Observer | undefined;
  #folder: string | undefined;
  #stderr = '';
  #isKilled = false;
  #isOver = false;

  constructor() {
    const command = `ulimit -n ${DESCRIPTORS}; exec "$0" "$1"`;
    this.#process = spawn('/bin/sh', ['-c', command, process.execPath, program()], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#process.stdin?.on('error', () => {});
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_CHARS);
    });
    createInterface({ input: this.#process.stdout! }).on('line', (line) => this.#take(line));
    this.#ended = new Promise((resolve) => {
      this.#process.on('exit', (code, signal) => {
        this.#isOver = true;
        for (const wait of this.#waiting.splice(0)) wait(undefined);
        resolve({ code, signal });
      });
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** @throws when it does not come up */
  async up(): Promise<void> {
    const line = await this.#next(FAULT_MS);
    if (line?.type !== 'up') throw new Error(`The ground did not come up: ${this.#stderr}`);
    this.#folder = line.folder;
    this.#observer = new Observer(line.port);
  }

  /** Have one fault happen; what was seen, or how the ground failed to tell. */
  async play(cell: Cell, number: number): Promise<Played> {
    this.#observer?.begin();
    this.#process.stdin?.write(`${JSON.stringify({ cell, number })}\n`);
    for (;;) {
      const line = await this.#next(FAULT_MS);
      const probing = this.#observer?.seen ?? { asked: 0, unanswered: 0, worstMs: 0 };
      if (line === undefined) {
        const what = this.#isOver
          ? 'The ground died'
          : `The ground said nothing for ${FAULT_MS} ms`;
        return { failed: `${what}. ${this.#stderr}`.trim(), probing };
      }
      if (line.type === 'seen') return { seen: line.seen, probing };
      if (line.type === 'failed') return { failed: line.error, probing };
    }
  }

  /** Ask it to go, and kill it when it does not. */
  async end(): Promise<GroundEnd> {
    this.#process.stdin?.end();
    const timer = setTimeout(() => this.kill(), LEAVE_MS);
    const { code, signal } = await this.#ended;
    clearTimeout(timer);
    this.#observer?.close();
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
    const disposed = this.#lines.find((line) => line.type === 'disposed');
    const disposeMs = disposed?.type === 'disposed' ? disposed.ms : undefined;
    const stderr = this.#stderr;
    if (this.#isKilled) return { hangs: true, stderr, disposeMs };
    return signal === null ? { code: code ?? 0, stderr, disposeMs } : { signal, stderr, disposeMs };
  }

  kill(): void {
    if (this.#isOver) return;
    this.#isKilled = true;
    this.#process.kill('SIGKILL');
  }

  #take(text: string): void {
    let line: Line;
    try {
      line = JSON.parse(text) as Line;
    } catch {
      // A thread wrote to the descriptor itself.
      return;
    }
    const wait = this.#waiting.shift();
    if (wait === undefined) this.#lines.push(line);
    else wait(line);
  }

  #next(ms: number): Promise<Line | undefined> {
    const line = this.#lines.shift();
    if (line !== undefined || this.#isOver) return Promise.resolve(line);
    return new Promise((resolve) => {
      const wait = (came: Line | undefined): void => {
        clearTimeout(timer);
        resolve(came);
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(wait), 1);
        resolve(undefined);
      }, ms);
      this.#waiting.push(wait);
    });
  }
}
