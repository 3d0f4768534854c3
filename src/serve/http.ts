/**
 * The same operations over HTTP, for this machine: one request for one operation, and streams of
 * events. Owns its server; the harness is whoever's made it.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { AddressInfo } from 'node:net';
import { ArgumentError } from '../../protocol/errors.ts';
import { systemClock } from '../base/clock.ts';
import type { Clock } from '../base/clock.ts';
import { deferred } from '../base/deferred.ts';
import type { Harness } from '../harness.ts';
import { boardOf } from './board.ts';
import { IDLE_MS } from './opened-roots.ts';
import { answerRoute, json } from './http-routes.ts';
import { HttpStreams } from './http-streams.ts';
import { failureOf } from './operations.ts';

/** Where to listen, and what clients have to show. */
export interface HttpOptions {
  /** An address of this machine. Default `127.0.0.1`; any other is open to the network. */
  readonly host?: string;
  /** Default 0: a free one. */
  readonly port?: number;
  /** What clients show as `Authorization: Bearer …`. Absent: made here. */
  readonly token?: string;
  /** As that of `serveStdio`. */
  readonly idleMs?: number;
  /** @internal */
  readonly clock?: Clock;
}

/** A harness that is served over HTTP. It does not own the harness. */
export interface HttpServer extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  /** Why it is over. Never rejects. */
  readonly closed: Promise<'shutdown' | 'closed'>;
  /** Requests under way are answered, streams are ended. Idempotent. */
  close(): Promise<void>;
}

/** How long requests under way have when it closes. */
const PARTING_MS = 1_000;

/**
 * Serve a harness over HTTP. `POST /rpc` takes one JSON-RPC request; `GET /sessions`,
 * `GET /sessions/:id/events` and `GET /tree` (server-sent events), `GET /metrics` (Prometheus)
 * and `GET /healthz`, which alone needs no token.
 *
 * @throws {ArgumentError} for an empty token
 * @throws what the system refuses the address with
 */
export async function serveHttp(harness: Harness, options: HttpOptions = {}): Promise<HttpServer> {
  const { host = '127.0.0.1', port = 0, token = randomBytes(24).toString('base64url') } = options;
  const { idleMs = IDLE_MS, clock = systemClock } = options;
  if (token === '') throw new ArgumentError('The token of an HTTP server is not empty.');
  const closed = deferred<'shutdown' | 'closed'>();
  const streams = new HttpStreams();
  let isLocal = true;
  const server = createServer((request, response) => {
    const onShutdown = (): void => void setImmediate(() => void close('shutdown'));
    answer(request, response).catch((error: unknown) => {
      if (!response.headersSent) json(response, 500, { error: failureOf(error) });
      else response.destroy();
    });
    async function answer(asked: IncomingMessage, answered: ServerResponse): Promise<void> {
      const refusal = refusalOf(asked, token, isLocal);
      if (refusal !== undefined) return json(answered, ...refusal);
      await answerRoute({ harness, onShutdown }, asked, answered, streams);
    }
  });
  await new Promise<void>((done, failed) => {
    server.once('error', failed);
    server.listen(port, host, () => {
      server.off('error', failed);
      done();
    });
  });
  const { address, family, port: given } = server.address() as AddressInfo;
  // Not as it was named: an address has several names.
  isLocal = isLoopback(address);
  const stop = boardOf(harness).roots.closeIdle(idleMs, clock);
  let closing: Promise<void> | undefined;
  const close = (why: 'shutdown' | 'closed'): Promise<void> => {
    closing ??= (async () => {
      stop();
      streams.close();
      const timer = setTimeout(() => server.closeAllConnections(), PARTING_MS);
      await new Promise<void>((done) => {
        server.close(() => done());
        server.closeIdleConnections();
      });
      clearTimeout(timer);
      closed.resolve(why);
    })();
    return closing;
  };
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${given}`,
    token,
    closed: closed.promise,
    close: () => close('closed'),
    [Symbol.asyncDispose]: () => close('closed'),
  };
}

type Refusal = readonly [status: number, body: object, headers?: Record<string, string>];

/** Why this request gets no answer: a page of another site asks, or somebody without the token. */
function refusalOf(
  { headers, url, method }: IncomingMessage,
  token: string,
  isLocal: boolean,
): Refusal | undefined {
  // A name that leads here is no sign of somebody who meant to come here.
  if (isLocal && !isLoopback(nameIn(headers.host ?? ''))) {
    return [403, { error: 'The host is not this machine.' }];
  }
  if (headers.origin !== undefined && !isLoopback(hostOf(headers.origin))) {
    return [403, { error: 'Pages of other sites are not answered.' }];
  }
  if (method === 'GET' && url === '/healthz') return undefined;
  const [, shown = ''] = /^Bearer +(.+)$/iu.exec(headers.authorization ?? '') ?? [];
  if (timingSafeEqual(digest(shown), digest(token))) return undefined;
  const ask = { 'www-authenticate': 'Bearer' };
  return [401, { error: 'This needs the token, as `Authorization: Bearer …`.' }, ask];
}

/** Of the same length whatever was shown. */
const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** As an address is written when all agree on one way to. Empty: it is no name of a host. */
function nameIn(host: string): string {
  const url = `http://${host}`;
  if (/[\s/?#@\\]/u.test(host) || !URL.canParse(url)) return '';
  return new URL(url).hostname.replace(/^\[(.*)\]$/u, '$1');
}

function hostOf(origin: string): string {
  // `null`, as of a page without an origin, is none.
  return URL.canParse(origin) ? nameIn(new URL(origin).host) : '';
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

function isLoopback(name: string): boolean {
  if (name.toLowerCase() === 'localhost') return true;
  const version = isIP(name);
  // One of the fourth version, written as one of the sixth, is checked as what it is.
  return version !== 0 && LOOPBACK.check(name, version === 6 ? 'ipv6' : 'ipv4');
}
