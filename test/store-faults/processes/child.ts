import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

type Reply =
  | { readonly ok: unknown }
  | { readonly error: { readonly code: string; readonly message: string } };

export interface StoreProcess extends AsyncDisposable {
  readonly pid: number;
  /** Call a method of the store (`open` first); resolves with its result. */
  call(name: string, ...values: readonly unknown[]): Promise<unknown>;
  /** How a call ended: its result, or its error. */
  reply(name: string, ...values: readonly unknown[]): Promise<Reply>;
  signal(signal: NodeJS.Signals): void;
  /** `SIGKILL`, and it is gone. */
  kill(): Promise<void>;
}

const program = fileURLToPath(new URL('./child.mjs', import.meta.url));

/** A process with a store of its own; `wrap` is what runs it, such as `prlimit --fsize=…`. */
export async function storeProcess(
  path: string,
  options: { host?: string; now?: number; durability?: string } = {},
  how: { readonly wrap?: readonly string[]; readonly uid?: number } = {},
): Promise<StoreProcess> {
  const [command, ...values] = [...(how.wrap ?? []), process.execPath, program, path, JSON.stringify(options)];
  const child = spawn(command as string, values, {
    stdio: ['pipe', 'pipe', 'inherit'],
    ...(how.uid === undefined ? {} : { uid: how.uid, gid: how.uid }),
  });
  const gone = once(child, 'close');
  const lines = createInterface({ input: child.stdout });
  const waiting: ((reply: Reply) => void)[] = [];
  const next = (): Promise<Reply> => new Promise((resolve) => void waiting.push(resolve));
  lines.on('line', (line) => waiting.shift()?.(JSON.parse(line) as Reply));
  lines.on('close', () => {
    for (const resolve of waiting.splice(0)) resolve({ error: { code: 'GONE', message: 'It is gone.' } });
  });
  await next();
  const reply: StoreProcess['reply'] = (...call) => {
    child.stdin.write(`${JSON.stringify(call)}\n`);
    return next();
  };
  return {
    pid: child.pid as number,
    reply,
    async call(...call) {
      const end = await reply(...call);
      if ('error' in end) throw Object.assign(new Error(end.error.message), end.error);
      return end.ok;
    },
    signal: (signal) => void child.kill(signal),
    async kill() {
      child.kill('SIGKILL');
      await gone;
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGCONT');
      child.stdin.end();
      await gone;
    },
  };
} // prettier-ignore
