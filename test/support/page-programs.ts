/** The programs that pages show, each a `js` block that is named by its first line. */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { root } from './imports.ts';
import { pages, readPage } from './pages.ts';

export interface PageProgram {
  readonly page: string;
  readonly file: string;
  readonly code: string;
}

export const pagePrograms: readonly PageProgram[] = pages.flatMap((page) =>
  [...readPage(page).matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(
    ([, file = '', code = '']) => ({ page, file, code }),
  ),
);

/** What a page says that its program prints: its blocks without a language. */
export const printedBy = (page: string): readonly string[] =>
  [...readPage(page).matchAll(/^(```\w*)\n([\s\S]*?)^```$/gm)].flatMap(([, fence, text = '']) =>
    fence === '```' ? [text.trimEnd()] : [],
  );

/** The commands that a page shows, one a line. */
export const commandsOf = (page: string): readonly string[] =>
  [...readPage(page).matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, text = '']) =>
    text.trimEnd().split('\n'),
  );

interface Said {
  readonly stdout: string;
  readonly stderr: string;
}

/** A folder inside the package, so that the package's own name resolves to it. */
export class ProgramFolder {
  readonly path: string;
  readonly #servers = new Set<ChildProcess>();

  constructor(name: string) {
    this.path = join(root, '.artifacts', name);
    this.remove();
    mkdirSync(this.path, { recursive: true });
    for (const { file, code } of pagePrograms) this.write(file, code);
  }

  write(file: string, text: string): void {
    mkdirSync(dirname(join(this.path, file)), { recursive: true });
    writeFileSync(join(this.path, file), text);
  }

  /** Run to its end, which has to be a good one. */
  run(file: string): Promise<Said> {
    return this.#said(process.execPath, [join(this.path, file)]);
  }

  /** As a person types it, here. */
  shell(command: string): Promise<Said> {
    return this.#said('sh', ['-c', command]);
  }

  /** Run one that serves, up to its first line: the URL. */
  async serve(file: string): Promise<PageServer> {
    const child = spawn(process.execPath, [join(this.path, file)], {
      cwd: this.path,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#servers.add(child);
    child.once('close', () => this.#servers.delete(child));
    const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return new PageServer(child, url);
  }

  async #said(program: string, args: readonly string[]): Promise<Said> {
    const options = { cwd: this.path, timeout: 50_000 };
    const { stdout, stderr } = await promisify(execFile)(program, args, options);
    return { stdout: stdout.trimEnd(), stderr: stderr.trimEnd() };
  }

  /** End what a test that failed left running. */
  async stopAll(): Promise<void> {
    const left = [...this.#servers];
    for (const child of left) child.kill('SIGKILL');
    await Promise.all(left.map((child) => once(child, 'close')));
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

class PageServer {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown[]>;

  constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
    this.#closed = once(child, 'close');
  }

  /** As a supervisor does. Resolves to the exit code. */
  async stop(): Promise<unknown> {
    this.#child.kill('SIGTERM');
    return (await this.#closed)[0];
  }
}
