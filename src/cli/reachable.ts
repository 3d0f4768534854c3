import { connect } from 'node:net';
import { reasonOf } from './checks.ts';
import { UsageError } from './exit-codes.ts';

const CONNECT_MS = 5000;

/**
 * One connection, closed at once: a wrong address should not cost a run and its retries.
 *
 * @throws {UsageError} when it does not come about; the reason of `signal` once that aborted.
 */
export async function assertReachable(baseURL: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { hostname, port, protocol, origin } = new URL(baseURL);
  const socket = connect({
    host: hostname.replace(/^\[(.*)\]$/u, '$1'),
    port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    timeout: CONNECT_MS,
    signal,
  });
  try {
    await new Promise<void>((connected, failed) => {
      socket.once('connect', connected);
      socket.once('error', failed);
      socket.once('timeout', () => failed(new Error(`no answer within ${CONNECT_MS / 1000} s`)));
    });
  } catch (error) {
    signal.throwIfAborted();
    throw new UsageError(
      `Cannot reach ${origin}: ${reasonOf(error)}. Is the server running, and is --base-url right?`,
      { cause: error },
    );
  } finally {
    socket.destroy();
  }
}
