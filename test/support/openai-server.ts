/**
 * A real HTTP server on loopback that speaks OpenAI's chat completions with streaming. The test
 * says what each request is answered; the server records what came and how it ended.
 */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { createServer } from 'node:http';

export interface ServerRequest {
  /** 0 for the first. */
  readonly index: number;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The JSON of a chat completion request. */
  readonly body: ChatRequest;
}
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
  readonly stream?: boolean;
  readonly [key: string]: unknown;
}

/** An object is sent as one `data:` event; text is written as it is. */
export type Chunk = object | string;
export type ServerAnswer =
  | {
      readonly chunks: Iterable<Chunk> | AsyncIterable<Chunk>;
      /** `done`: `[DONE]` and a proper end. `end`: without `[DONE]`. Default: `done`. */
      readonly ending?: 'done' | 'end' | 'hang' | 'reset';
    }
  | {
      readonly status: number;
      readonly body?: object | string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** Says nothing at all. */
  | { readonly hang: true };

export interface OpenAiServer extends AsyncDisposable {
  /** For `baseURL`. */
  readonly url: string;
  readonly requests: readonly ServerRequest[];
  /** Sockets open now. */
  readonly openConnections: number;
  /** Resolves when request `index` has arrived. */
  arrived(index: number): Promise<ServerRequest>;
  /** Resolves when the exchange of request `index` is over: answered, or cut by the client. */
  closed(index: number): Promise<'answered' | 'cut'>;
  stop(): Promise<void>;
}

export interface OpenAiServerOptions {
  respond(request: ServerRequest, index: number): ServerAnswer | Promise<ServerAnswer>;
}

/** Stop it in the test that started it: `await using server = await startOpenAiServer(…)`. */
export async function startOpenAiServer(options: OpenAiServerOptions): Promise<OpenAiServer> {
  const requests: ServerRequest[] = [];
  const sockets = new Set<Socket>();
  const arrivals = slots<ServerRequest>();
  const closings = slots<'answered' | 'cut'>();
  const server = createServer((incoming, response) => {
    const received: Buffer[] = [];
    incoming.on('data', (part: Buffer) => received.push(part));
    incoming.on('end', () => {
      const request: ServerRequest = {
        index: requests.length,
        path: incoming.url ?? '',
        headers: incoming.headers,
        body: JSON.parse(Buffer.concat(received).toString('utf8')) as ChatRequest,
      };
      requests.push(request);
      response.on('close', () => {
        closings.fill(request.index, response.writableFinished ? 'answered' : 'cut');
      });
      arrivals.fill(request.index, request);
      void answer(options, request, response);
    });
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    get openConnections() {
      return sockets.size;
    },
    arrived: (index) => arrivals.at(index),
    closed: (index) => closings.at(index),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function answer(
  options: OpenAiServerOptions,
  request: ServerRequest,
  response: ServerResponse,
): Promise<void> {
  try {
    const given = await options.respond(request, request.index);
    if ('hang' in given) return;
    if ('status' in given) {
      const { status, body = '', headers = {} } = given;
      const type = typeof body === 'string' ? 'text/plain' : 'application/json';
      response.writeHead(status, { 'content-type': type, ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    for await (const chunk of given.chunks) {
      if (response.destroyed) return;
      response.write(typeof chunk === 'string' ? chunk : `data: ${JSON.stringify(chunk)}\n\n`);
    }
    const { ending = 'done' } = given;
    if (ending === 'hang') return;
    // After what was written is on its way: a reset must not overtake it.
    if (ending === 'reset') response.write('', () => response.destroy());
    else response.end(ending === 'done' ? 'data: [DONE]\n\n' : '');
  } catch (error) {
    // The test's own function failed: the client hears of it, and so the test.
    response.writeHead(500, { 'content-type': 'text/plain' });
    response.end(String(error));
  }
}

/** One chunk of the wire format. */
export const chunk = (delta: object, finish_reason: string | null = null): object => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: 'test-model',
  choices: [{ index: 0, delta, finish_reason }],
});

/** The chunks of an answer in words. */
export function says(...pieces: string[]): object[] {
  return [
    chunk({ role: 'assistant', content: '' }),
    ...pieces.map((content) => chunk({ content })),
    chunk({}, 'stop'),
  ];
}

/** The chunks of an answer that calls tools; the arguments come in two pieces. */
export function calls(
  ...toolCalls: { readonly id: string; readonly name: string; readonly arguments: object }[]
): object[] {
  const deltas = toolCalls.flatMap(({ id, name, arguments: args }, index) => {
    const text = JSON.stringify(args);
    const half = Math.ceil(text.length / 2);
    return [
      chunk({
        tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }],
      }),
      chunk({ tool_calls: [{ index, function: { arguments: text.slice(0, half) } }] }),
      chunk({ tool_calls: [{ index, function: { arguments: text.slice(half) } }] }),
    ];
  });
  return [chunk({ role: 'assistant', content: null }), ...deltas, chunk({}, 'tool_calls')];
}

/** The chunk that carries token counts, sent last when the client asked for it. */
export const usageChunk = (promptTokens: number, completionTokens: number): object => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: 'test-model',
  choices: [],
  usage: {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  },
});

/** An error answer in the wire format. */
export const fails = (
  status: number,
  message: string,
  more: { readonly code?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): ServerAnswer => ({
  status,
  body: { error: { message, type: 'error', param: null, code: more.code ?? null } },
  ...(more.headers === undefined ? {} : { headers: more.headers }),
});

/** Promises by number, made when first asked for. */
function slots<T>(): { at(index: number): Promise<T>; fill(index: number, value: T): void } {
  const known = new Map<number, { promise: Promise<T>; resolve: (value: T) => void }>();
  const slot = (index: number) => {
    let found = known.get(index);
    if (found === undefined) {
      let resolve!: (value: T) => void;
      const promise = new Promise<T>((yes) => (resolve = yes));
      known.set(index, (found = { promise, resolve }));
    }
    return found;
  };
  return {
    at: (index) => slot(index).promise,
    fill: (index, value) => slot(index).resolve(value),
  };
}
