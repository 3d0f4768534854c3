/** What stands at which address. Each request has a connection of its own, which ends with it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ArgumentError, HarnessError } from '../../protocol/errors.ts';
import { beyondBounds } from '../base/json-text.ts';
import type { HttpStreams } from './http-streams.ts';
import { failureOf, Operations } from './operations.ts';
import type { OperationsOptions } from './operations.ts';
import { RPC } from './rpc-peer.ts';
import { MAX_ASKED, rpcErrorOf } from './served-connection.ts';
import type { Tell } from './tell.ts';

const MAX_BODY_BYTES = 1_048_576;
/** What one request cannot do: it has nobody to tell anything later. */
const NEEDS_A_CONNECTION: ReadonlySet<string> = new Set([
  'session/follow',
  'session/unfollow',
  'tree/watch',
  'tree/unwatch',
]);
const STATUS: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  UNAUTHORIZED: 403,
  SESSION_NOT_FOUND: 404,
  UNKNOWN_OPERATION: 404,
  SESSION_OWNED_ELSEWHERE: 409,
  LIMIT_EXCEEDED: 503,
};

/** Answer one request that may be answered. */
export async function answerRoute(
  options: OperationsOptions,
  request: IncomingMessage,
  response: ServerResponse,
  streams: HttpStreams,
): Promise<void> {
  const target = targetOf(request.url ?? '/');
  if (target === undefined) {
    return json(response, 400, failed(new ArgumentError('That is no address of anything here.')));
  }
  const { pathname, searchParams } = target;
  const route = `${request.method} ${pathname}`;
  const stream = (begin: (operations: Operations) => Promise<object>): Promise<void> =>
    refusing(response, () => streams.serve(options, response, begin));
  const [, id] = /^GET \/sessions\/([^/]+)\/events$/u.exec(route) ?? [];
  if (id !== undefined) {
    const sessionId = decoded(id);
    const forever = searchParams.get('forever') === 'true';
    return stream(async (operations) => {
      const from = await firstOf(operations, sessionId, request, searchParams);
      return operations.call('session/follow', { sessionId, from, forever });
    });
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
      return stream((operations) =>
        operations.call('tree/watch', rootId === null ? {} : { rootId }),
      );
    }
    case 'POST /rpc':
      return rpc(options, request, response);
    default:
      return json(response, 404, { error: { message: `There is nothing at ${pathname}.` } });
  }
}

/** `undefined`: it is no address at all. Two slashes in front are a path too, and no host. */
function targetOf(url: string): URL | undefined {
  const whole = url.startsWith('/') ? `http://localhost${url}` : url;
  return URL.canParse(whole) ? new URL(whole) : undefined;
}

/** Where a reader of a log begins. @throws {ArgumentError} for an event that there is not */
async function firstOf(
  operations: Operations,
  sessionId: string,
  { headers }: IncomingMessage,
  searchParams: URLSearchParams,
): Promise<number> {
  const last = headers['last-event-id'];
  // An empty one is that of a reader who has seen none.
  if (last === undefined || last === '') return numberIn('from', searchParams.get('from') ?? '0');
  const seen = numberIn('Last-Event-ID', String(last));
  const { events } = await operations.call('session/read', { sessionId, from: seen, limit: 1 });
  if (events.length > 0) return seen + 1;
  throw new ArgumentError(`"Last-Event-ID" names an event that this log does not have: ${seen}.`);
}

function numberIn(key: string, given: string): number {
  if (/^\d{1,15}$/u.test(given)) return Number(given);
  throw new ArgumentError(`"${key}" takes a number of events.`);
}

/** Whatever is refused before anything is written is the answer. */
async function refusing(response: ServerResponse, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    if (!(thrown instanceof HarnessError) || response.headersSent) throw thrown;
    json(response, statusOf(thrown), failed(thrown));
  }
}

const failed = (thrown: unknown): object => ({ error: failureOf(thrown) });

const statusOf = (thrown: unknown): number => STATUS[failureOf(thrown).code] ?? 500;

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
    json(response, statusOf(thrown), failed(thrown));
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
  if (beyondBounds(body, MAX_ASKED) !== undefined) {
    const message = `A request has at most ${MAX_ASKED.values} values, ${MAX_ASKED.depth} deep.`;
    return json(response, 400, refused(null, RPC.request, message));
  }
  let asked: { id?: unknown; method?: unknown; params?: unknown } | null;
  try {
    asked = JSON.parse(body) as typeof asked;
  } catch {
    return json(response, 400, refused(null, RPC.parse, 'The body is one JSON object.'));
  }
  const { id = null, method, params = {} } = asked ?? {};
  // Whatever else it is would be a part of the answer.
  const isId = typeof id === 'string' || Number.isFinite(id);
  if (!isId && asked?.id !== undefined) {
    return json(response, 400, refused(null, RPC.request, 'An id is a text or a number.'));
  }
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
    json(response, statusOf(thrown), { jsonrpc: '2.0', id, error: rpcErrorOf(thrown) });
  } finally {
    await operations.close();
  }
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
  // First: what cannot be written is still another answer.
  const content = `${JSON.stringify(body)}\n`;
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(content);
}
