import type { Readable, Writable } from 'node:stream';
import { deferred } from '../base/deferred.ts';
import type { Harness } from '../harness.ts';
import { serveConnection } from './served-connection.ts';

/** A harness that is served over a pair of streams. It does not own the harness. */
export interface StdioServer {
  /** Why it is over: it was asked to end, or the other end has left. Never rejects. */
  readonly closed: Promise<'shutdown' | 'end'>;
  /** Idempotent. */
  close(): void;
}

/**
 * Serve a harness over JSON-RPC on this process's own streams, or on others: the far end of a
 * `remote` provider. Nothing else may write to `output`. When it is over, dispose the harness and
 * exit; the answer to `shutdown` is written by then.
 */
export function serveStdio(
  harness: Harness,
  { input = process.stdin, output = process.stdout }: { input?: Readable; output?: Writable } = {},
): StdioServer {
  const closed = deferred<'shutdown' | 'end'>();
  let why: 'shutdown' | 'end' = 'end';
  const peer = serveConnection(
    {
      harness,
      onShutdown: () => {
        why = 'shutdown';
        // In a turn of its own: the answer goes out before.
        setImmediate(() => void peer.end());
      },
    },
    { input, output },
  );
  void peer.closed.then(() => closed.resolve(why));
  return { closed: closed.promise, close: () => peer.close() };
}
