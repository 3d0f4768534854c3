/** The built command as its users start it: a process, its streams and its exit code. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
export const MAIN = join(REPOSITORY, 'dist/src/cli/main.js');

export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}
export interface Running {
  readonly process: ChildProcess;
  readonly finished: Promise<Finished>;
  /** Resolves when what it has written to stderr so far matches. */
  printed(pattern: RegExp): Promise<void>;
  /** The same of stdout. */
  wrote(pattern: RegExp): Promise<void>;
  /** What it has written to stdout so far. */
  output(): string;
}

export interface StartOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** All that it reads on stdin, or `open`: what `process.stdin` is given. Default: nothing. */
  readonly input?: string | 'open';
}

/** Start `node` with these arguments; by default the command itself. */
export function start(args: readonly string[], { cwd, env, input }: StartOptions = {}): Running {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, args, {
    cwd: cwd ?? REPOSITORY,
    env: { PATH, HOME, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // It may be gone before it has read all of it.
  child.stdin.on('error', () => {});
  if (input !== 'open') child.stdin.end(input);
  let stdout = '';
  let stderr = '';
  const waiting = new Set<() => void>();
  const checkAll = (): void => waiting.forEach((check) => check());
  child.stdout.on('data', (data: Buffer) => {
    stdout += data.toString();
    checkAll();
  });
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
    checkAll();
  });
  const finished = new Promise<Finished>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  const matches = (pattern: RegExp, text: () => string): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (!pattern.test(text())) return;
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      check();
      void finished.then(() => reject(new Error(`It ended without ${pattern}: ${text()}`)));
    });
  return {
    process: child,
    finished,
    output: () => stdout,
    printed: (pattern) => matches(pattern, () => stderr),
    wrote: (pattern) => matches(pattern, () => stdout),
  };
}

export function subagents(args: readonly string[], options?: StartOptions): Promise<Finished> {
  return start([MAIN, ...args], options).finished;
}

export interface Folder extends AsyncDisposable {
  readonly path: string;
  write(name: string, text: string): Promise<void>;
}

/** A folder of its own for one test: `await using folder = await folderWith({ … })`. */
export async function folderWith(files: Readonly<Record<string, string>> = {}): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'subagents-'));
  const write = async (name: string, text: string): Promise<void> => {
    await mkdir(dirname(join(path, name)), { recursive: true });
    await writeFile(join(path, name), text);
  };
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return { path, write, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export interface TableRow {
  readonly headings: number;
  readonly exports: number;
  readonly lines: number;
}

/** The rows of a printed table by their first column; the totals are under `total`. */
export function tableIn(output: string): Readonly<Record<string, TableRow>> {
  return Object.fromEntries(
    [...output.matchAll(/^(\S.*?) {2,}(\d+) +(\d+) +(\d+)$/gmu)].map(
      ([, name = '', headings, exports, lines]) => [
        name.replace(/^total of .*/u, 'total'),
        { headings: Number(headings), exports: Number(exports), lines: Number(lines) },
      ],
    ),
  );
}
