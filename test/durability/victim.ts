/** One process that is to be killed, driven by lines over its pipes. */
import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const BUNDLER = fileURLToPath(new URL('programs/bundle.mjs', import.meta.url));
/** Inside of the package, where its dependencies are found. */
const FOLDER = fileURLToPath(new URL('../../.artifacts/killed/', import.meta.url));

/** Once, before any process is started. */
export function prepareVictims(): void {
  execFileSync(process.execPath, [BUNDLER, FOLDER]);
}

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
  readonly ready?: true;
  readonly trapped?: true;
}

export class Refused extends Error {
  readonly code: string | undefined;

  constructor({ code, message }: Refusal) {
    super(message);
    this.code = code;
  }
}

export interface Where {
  readonly store: string;
  readonly url: string;
  readonly file: string;
}

/** Started when this is made; it has nothing open before it is told what. */
export class Victim {
  /** It stands still at a place that it was told of. */
  onTrapped: () => void = () => {};
  /** Resolves when it is loaded; with false when it is gone before. */
  readonly ready: Promise<boolean>;
  /** Resolves with what it complained of. */
  readonly ended: Promise<string>;
  readonly #process: ChildProcess;
  readonly #asked = new Map<number, { yes(value: unknown): void; no(reason: unknown): void }>();
  #number = 0;
  #isGone = false;

  constructor() {
    const child = spawn(process.execPath, [join(FOLDER, 'host.mjs')], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#process = child;
    let complaint = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text));
    // It may be gone while something is written to it.
    child.stdin.on('error', () => {});
    let isReady!: (value: boolean) => void;
    this.ready = new Promise((resolve) => (isReady = resolve));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const said = parsed(line);
      if (said.ready) isReady(true);
      if (said.trapped) this.onTrapped();
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
        isReady(false);
        for (const { no } of this.#asked.values()) no(GONE);
        resolve(complaint);
      });
    });
  }

  /** True once it takes commands about this file; false when it is gone before. */
  open(where: Where): Promise<boolean> {
    return this.ask('open', where).then(
      () => true,
      (reason: unknown) => {
        if (reason === GONE) return false;
        throw reason;
      },
    );
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
