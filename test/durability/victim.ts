/** One process that is to be killed, driven by lines over its pipes. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('programs/host.mjs', import.meta.url));

/** It is gone, and this call was not answered. */
export const GONE = Symbol('gone');

export interface Refusal {
  readonly code?: string;
  readonly message: string;
}

interface Said {
  readonly n?: number;
  readonly value?: unknown;
  readonly error?: Refusal;
  readonly opened?: true;
  readonly trapped?: string;
}

export class Refused extends Error {
  readonly code: string | undefined;

  constructor({ code, message }: Refusal) {
    super(message);
    this.code = code;
  }
}

export class Victim {
  /** It stands still at a place that it was told of. */
  onTrapped: () => void = () => {};
  /** Resolves when it takes commands; with false when it is gone before. */
  readonly opened: Promise<boolean>;
  /** Resolves with what it complained of. */
  readonly ended: Promise<string>;
  readonly #process: ChildProcess;
  readonly #asked = new Map<number, { yes(value: unknown): void; no(reason: unknown): void }>();
  #number = 0;
  #isGone = false;

  constructor(options: { store: string; url: string; file: string }) {
    const child = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#process = child;
    let complaint = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text));
    // It may be gone while something is written to it.
    child.stdin.on('error', () => {});
    let isOpen!: (value: boolean) => void;
    this.opened = new Promise((resolve) => (isOpen = resolve));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const said = parsed(line);
      if (said.opened) isOpen(true);
      if (said.trapped !== undefined) this.onTrapped();
      const asked = said.n === undefined ? undefined : this.#asked.get(said.n);
      if (said.n === undefined || asked === undefined) return;
      this.#asked.delete(said.n);
      if (said.error === undefined) asked.yes(said.value);
      else asked.no(new Refused(said.error));
    });
    // After everything that it had said has been read: what was answered was answered.
    this.ended = new Promise((resolve) => {
      child.once('close', () => {
        this.#isGone = true;
        isOpen(false);
        for (const { no } of this.#asked.values()) no(GONE);
        resolve(complaint);
      });
    });
  }

  /** Rejects with `Refused`, or with `GONE`. */
  ask(op: string, args: object = {}): Promise<unknown> {
    if (this.#isGone) return Promise.reject(GONE);
    const n = ++this.#number;
    return new Promise((yes, no) => {
      this.#asked.set(n, { yes, no });
      this.#process.stdin?.write(`${JSON.stringify({ n, op, args })}\n`);
    });
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }

  /** Politely: nothing more is asked of it. */
  leave(): void {
    this.#process.stdin?.end();
  }
}

/** A line that the kill cut short says nothing. */
function parsed(line: string): Said {
  try {
    return JSON.parse(line) as Said;
  } catch {
    return {};
  }
}
