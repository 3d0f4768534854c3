import type { Readable, Writable } from 'node:stream';
import { systemClock } from '../base/clock.ts';
import type { Clock } from '../base/clock.ts';
import { deferred } from '../base/deferred.ts';
import type { Harness } from '../harness.ts';
import { boardOf } from './board.ts';
import { IDLE_MS } from './opened-roots.ts';
import { serveConnection } from './served-connection.ts';

/** Where to serve, and for how long what is idle is held. */
export interface StdioOptions {
  readonly input?: Readable;
  readonly output?: Writable;
  /**
   * How long a root that was opened from outside is idle, and followed by nobody, before it is let
   * go of, so that another process can own it; it is opened again by the next that is sent to it.
   * Default 5 minutes; `Infinity`: never. It may stay longer by a quarter of that.
   */
  readonly idleMs?: number;
  /** @internal */
  readonly clock?: Clock;
}

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
  {
    input = process.stdin,
    output = process.stdout,
    idleMs = IDLE_MS,
    clock = systemClock,
  }: StdioOptions = {},
): StdioServer {
  const stop = boardOf(harness).roots.closeIdle(idleMs, clock);
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
  void peer.closed.then(() => {
    stop();
    closed.resolve(why);
  });
  return { closed: closed.promise, close: () => peer.close() };
}
