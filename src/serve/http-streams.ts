/** The server-sent events of one HTTP server: as many readers as it bears, and the end of them. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { LimitError } from '../../protocol/errors.ts';
import type { NotificationName, NotificationMap } from './operation-map.ts';
import { Operations } from './operations.ts';
import type { OperationsOptions } from './operations.ts';
import { paramsText } from './rendered.ts';
import type { Tell } from './tell.ts';

/** Readers that one server has at a time, of logs and of trees. */
const MAX_STREAMS = 64;
/** A stream says that it is alive when nothing happens. */
const ALIVE_MS = 15_000;

export class HttpStreams {
  readonly #open = new Set<AbortController>();
  #isClosed = false;

  /**
   * Until the reading ends, the reader leaves, or the server closes.
   * @throws {LimitError} (rejects) when there are too many, before anything is written
   * @throws as `begin`, before anything is written
   */
  async serve(
    options: OperationsOptions,
    response: ServerResponse,
    begin: (operations: Operations) => Promise<object>,
  ): Promise<void> {
    if (this.#open.size >= MAX_STREAMS) {
      const text = `This server has ${MAX_STREAMS} readers of events, which is as many as it takes.`;
      throw new LimitError('streams', text);
    }
    const gone = new AbortController();
    this.#open.add(gone);
    if (this.#isClosed) gone.abort();
    const leave = (): void => gone.abort();
    response.once('close', leave);
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
    // Whoever does not take what there is hears nothing of this either.
    const alive = setInterval(() => {
      if (response.headersSent && !response.writableNeedDrain) void write(': alive\n\n');
    }, ALIVE_MS);
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
    } finally {
      clearInterval(alive);
      open();
      gone.abort();
      this.#open.delete(gone);
      await operations.close();
    }
  }

  /** All of them end. Idempotent. */
  close(): void {
    this.#isClosed = true;
    for (const gone of this.#open) gone.abort();
  }
}

/** The number of an event of a log is its id, so that a reader goes on where it stopped. */
function sse<N extends NotificationName>(name: N, params: NotificationMap[N]): string {
  const { event } = params as Partial<NotificationMap['session.event']>;
  const id = name === 'session.event' ? `id: ${event?.seq}\n` : '';
  return `${id}event: ${name}\ndata: ${paramsText(name, params)}\n\n`;
}
