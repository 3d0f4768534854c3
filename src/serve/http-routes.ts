/** What stands at which address. Each request has a connection of its own, which ends with it. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { HarnessError } from '../../protocol/errors.ts';
import { failureOf, Operations } from './operations.ts';
import type { OperationsOptions } from './operations.ts';
import type { NotificationMap } from './operation-map.ts';
import { RPC } from './rpc-peer.ts';
import { rpcErrorOf } from './served-connection.ts';
import type { Tell } from './tell.ts';

const MAX_BODY_BYTES = 1_048_576;
/** What one request cannot do: it has nobody to tell anything later. */
const NEEDS_A_CONNECTION: ReadonlySet<string> = new Set([
  'session/follow',
  'session/unfollow',
  'tree/watch',
  'tree/unwatch',
]);
/** A stream says that it is alive when nothing happens. */
const ALIVE_MS = 15_000;

const STATUS: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  UNAUTHORIZED: 403,
  SESSION_NOT_FOUND: 404,
  UNKNOWN_OPERATION: 404,
  SESSION_OWNED_ELSEWHERE: 409,
};

/** Answer one request that may be answered. `ended` ends streams. */
export async function answerRoute(
  options: OperationsOptions,
  request: IncomingMessage,
  response: ServerResponse,
  ended: AbortSignal,
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const route = `${request.method} ${pathname}`;
  const [, id] = /^GET \/sessions\/([^/]+)\/events$/u.exec(route) ?? [];
  if (id !== undefined) {
    const sessionId = decoded(id);
    const last = request.headers['last-event-id'];
    const from = last === undefined ? Number(searchParams.get('from') ?? 0) : Number(last) + 1;
    const forever = searchParams.get('forever') === 'true';
    return stream(options, response, ended, (operations) =>
      operations.call('session/follow', { sessionId, from, forever }),
    );
  }
  switch (route) {
    case 'GET /healthz':
      return json(response, 200, { ok: true });
    case 'GET /sessions': {
      const rootId = searchParams.get('rootId');
      return answered(options, response, (operations) =>
        operations.call('session/list', rootId === null ? {} : { rootId }),
      );
    }
    case 'GET /metrics':
      return text(response, await metricsText(options));
    case 'GET /tree': {
      const rootId = searchParams.get('rootId');
      return stream(options, response, ended, (operations) =>
        operations.call('tree/watch', rootId === null ? {} : { rootId }),
      );
    }
    case 'POST /rpc':
      return rpc(options, request, response);
    default:
      return json(response, 404, { error: { message: `There is nothing at ${pathname}.` } });
  }
}

const nobody: Tell = async () => {};

async function answered(
  options: OperationsOptions,
  response: ServerResponse,
  ask: (operations: Operations) => Promise<object>,
): Promise<void> {
  const operations = new Operations(options, nobody, () => {});
  try {
    json(response, 200, await ask(operations));
  } catch (thrown) {
    const error = failureOf(thrown);
    json(response, STATUS[error.code] ?? 500, { error });
  } finally {
    await operations.close();
  }
}

async function rpc(
  options: OperationsOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await bodyOf(request);
  if (body === undefined) {
    const message = `A request has at most ${MAX_BODY_BYTES} bytes.`;
    json(response, 413, refused(null, RPC.request, message), { connection: 'close' });
    return;
  }
  let asked: { id?: unknown; method?: unknown; params?: unknown } | null;
  try {
    asked = JSON.parse(body) as typeof asked;
  } catch {
    return json(response, 400, refused(null, RPC.parse, 'The body is one JSON object.'));
  }
  const { id = null, method, params = {} } = asked ?? {};
  if (typeof method !== 'string') {
    return json(response, 400, refused(id, RPC.request, 'A request has a method.'));
  }
  if (NEEDS_A_CONNECTION.has(method)) {
    const message = `"${method}" tells of what comes: GET /sessions/:id/events or GET /tree do.`;
    return json(response, 400, refused(id, RPC.method, message));
  }
  const operations = new Operations(options, nobody, () => {});
  try {
    const result = await operations.call(method as never, params as never);
    json(response, 200, { jsonrpc: '2.0', id, result });
  } catch (thrown) {
    const error = rpcErrorOf(thrown);
    const { code } = failureOf(thrown);
    json(response, STATUS[code] ?? 500, { jsonrpc: '2.0', id, error });
  } finally {
    await operations.close();
  }
}

/** Server-sent events, until the reading ends, the reader leaves, or the server closes. */
async function stream(
  options: OperationsOptions,
  response: ServerResponse,
  ended: AbortSignal,
  begin: (operations: Operations) => Promise<object>,
): Promise<void> {
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  response.once('close', leave);
  ended.addEventListener('abort', leave, { once: true });
  const write = async (part: string): Promise<void> => {
    if (gone.signal.aborted || response.write(part)) return;
    await once(response, 'drain', { signal: gone.signal }).catch(() => {});
  };
  let open = (): void => {};
  // What is told before it is known that this can be told of waits for that.
  const isOpen = new Promise<void>((done) => (open = done));
  const tell: Tell = async (name, params) => {
    await isOpen;
    await write(sse(name, params));
    if (name === 'follow.end') leave();
  };
  const operations = new Operations(options, tell, leave);
  const alive = setInterval(() => void write(': alive\n\n'), ALIVE_MS);
  try {
    await begin(operations);
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
    });
    response.flushHeaders();
    open();
    if (!gone.signal.aborted) await once(gone.signal, 'abort');
    response.end();
  } catch (thrown) {
    const error = failureOf(thrown);
    if (!(thrown instanceof HarnessError)) throw thrown;
    json(response, STATUS[error.code] ?? 500, { error });
  } finally {
    clearInterval(alive);
    open();
    gone.abort();
    ended.removeEventListener('abort', leave);
    await operations.close();
  }
}

/** The number of an event of a log is its id, so that a reader goes on where it stopped. */
function sse<N extends keyof NotificationMap>(name: N, params: NotificationMap[N]): string {
  const { event } = params as Partial<NotificationMap['session.event']>;
  const id = name === 'session.event' ? `id: ${event?.seq}\n` : '';
  return `${id}event: ${name}\ndata: ${JSON.stringify(params)}\n\n`;
}

async function metricsText(options: OperationsOptions): Promise<string> {
  const operations = new Operations(options, nobody, () => {});
  const metrics = await operations.call('metrics', {});
  await operations.close();
  return Object.entries(metrics)
    .map(([name, value]) => {
      const type = name.endsWith('_total') ? 'counter' : 'gauge';
      return `# TYPE subagents_${name} ${type}\nsubagents_${name} ${value}\n`;
    })
    .join('');
}

/** `undefined`: it is larger than it may be. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > MAX_BODY_BYTES) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Half an escape: no session is called so.
    return part;
  }
}

const refused = (id: unknown, code: number, message: string): object => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
});

function text(response: ServerResponse, body: string): void {
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' });
  response.end(body);
}

/** One answer. */
export function json(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(`${JSON.stringify(body)}\n`);
}
