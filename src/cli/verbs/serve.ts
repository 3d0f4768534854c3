/** `subagents serve`: other programs run agents here, by JSON-RPC on stdio or by HTTP. */
import { serveHttp, serveStdio, type ControlSocket, type Harness } from '../../index.ts';
import type { ServeArguments } from '../args/serve.ts';
import { build } from '../build.ts';
import type { Call } from '../call.ts';
import { reasonOf } from '../checks.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { planAgents } from '../input.ts';
import { print } from '../output.ts';
import { openSocket } from '../run.ts';

export async function serveVerb(given: ServeArguments, call: Call): Promise<number> {
  const { surroundings, signal } = call;
  if ((given.stdio === true) === (given.http === true)) {
    throw new UsageError('Say how to serve: with either --stdio or --http.');
  }
  if (given.stdio === true) assertNoHttpOptions(given);
  const token = tokenOf(given, surroundings.env);
  const plan = await planAgents(given, surroundings, signal);
  const harness = await build(plan, signal);
  let socket: ControlSocket | undefined;
  try {
    socket = plan.store === undefined ? undefined : await openSocket(harness);
    signal.throwIfAborted();
    if (given.stdio === true) await stdio(harness, call);
    else await http(harness, given, token, call);
  } finally {
    await socket?.close();
    await harness.dispose();
  }
  return EXIT.completed;
}

function assertNoHttpOptions({ host, port, tokenEnv }: ServeArguments): void {
  const named = Object.entries({ '--host': host, '--port': port, '--token-env': tokenEnv });
  const wrong = named.find(([, value]) => value !== undefined);
  if (wrong !== undefined) throw new UsageError(`${wrong[0]} is for --http.`);
}

function tokenOf(
  { tokenEnv }: ServeArguments,
  env: Call['surroundings']['env'],
): string | undefined {
  if (tokenEnv === undefined) return undefined;
  const token = env[tokenEnv];
  if (token !== undefined && token !== '') return token;
  throw new UsageError(`The environment variable ${tokenEnv} is not set: put the token in it.`);
}

/** Until it is asked to end, or its client is gone. */
async function stdio(harness: Harness, { streams, signal }: Call): Promise<void> {
  const { stdin: input, stdout: output } = streams;
  const server = serveStdio(harness, { input, output });
  await ended(server.closed, () => server.close(), signal);
}

async function http(
  harness: Harness,
  { host, port }: ServeArguments,
  token: string | undefined,
  { streams: { stdout }, signal }: Call,
): Promise<void> {
  const options = {
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(token === undefined ? {} : { token }),
  };
  const server = await serveHttp(harness, options).catch((error: unknown) => {
    const where = `${host ?? '127.0.0.1'}:${port ?? 0}`;
    throw new UsageError(`Cannot listen at ${where}: ${reasonOf(error)}.`, { cause: error });
  });
  try {
    // A token that was given is no news, and a log is no place for it.
    const shown = token === undefined ? `Token: ${server.token}\n` : '';
    await print(stdout, `Listening at ${server.url}\n${shown}`, signal);
    await ended(server.closed, () => {}, signal);
  } finally {
    await server.close();
  }
}

/** @throws the reason of `signal`, once it aborts. */
async function ended(
  closed: Promise<unknown>,
  stop: () => void,
  signal: AbortSignal,
): Promise<void> {
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort);
  });
  try {
    await Promise.race([closed, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    stop();
  }
}
