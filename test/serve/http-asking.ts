/** An HTTP server on a harness, and Node's own client without an agent: nothing is kept open. */
import { request } from 'node:http';
import { connect } from 'node:net';
import { serveHttp } from '../../src/serve/http.ts';
import type { HttpOptions, HttpServer } from '../../src/serve/http.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';

export interface Answer {
  readonly status: number;
  readonly body: string;
}

export function get(
  server: HttpServer,
  path: string,
  options: {
    headers?: Record<string, string>;
    method?: string;
    body?: string;
    until?: (body: string) => boolean;
  } = {},
): Promise<Answer> {
  const { headers = {}, method = 'GET', body, until } = options;
  return new Promise((done, failed) => {
    const asked = request(
      server.url,
      {
        path,
        method,
        agent: false,
        headers: { authorization: `Bearer ${server.token}`, ...headers },
      },
      (response) => {
        let text = '';
        const finish = (): void => done({ status: response.statusCode ?? 0, body: text });
        response.setEncoding('utf8');
        response.on('data', (part: string) => {
          text += part;
          if (until?.(text) !== true) return;
          finish();
          asked.destroy();
        });
        response.on('end', finish);
        response.on('error', () => {});
      },
    );
    asked.on('error', failed);
    asked.end(body);
  });
}

export interface Serving extends AsyncDisposable {
  readonly t: TestHarness;
  readonly server: HttpServer;
}

export async function serving(
  options: TestHarnessOptions = {},
  http: HttpOptions = {},
): Promise<Serving> {
  const t = await testHarness(options);
  const server = await serveHttp(t.harness, http);
  return {
    t,
    server,
    async [Symbol.asyncDispose]() {
      await server.close();
      await t[Symbol.asyncDispose]();
    },
  };
}

export const rpc = (method: string, params: object): { method: string; body: string } => ({
  method: 'POST',
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
});

/** Asks for a stream, reads the head of the answer, and nothing after it. */
export async function deafReader(
  { url, token }: HttpServer,
  path: string,
): Promise<{ leave(): Promise<void> }> {
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  );
  const head = await new Promise<string>((done) =>
    socket.once('data', (part: Buffer) => done(part.toString())),
  );
  if (!head.startsWith('HTTP/1.1 200')) throw new Error(head);
  socket.pause();
  return {
    leave: () =>
      new Promise<void>((done) => {
        socket.once('close', () => done());
        socket.destroy();
      }),
  };
}
