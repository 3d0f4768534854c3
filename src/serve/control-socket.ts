/**
 * The control socket of one harness: a Unix socket beside its store, by which other processes of
 * the same user reach it. Whoever can open it acts as the owner of the process.
 */
import { rmSync } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { ArgumentError } from '../../protocol/errors.ts';
import type { Harness } from '../harness.ts';
import type { RpcPeer } from './rpc-peer.ts';
import { serveConnection } from './served-connection.ts';
import { connectTo, listenAt, placeOf, socketName, socketsOf } from './socket-files.ts';

/** A harness that others of this machine's user can reach. It does not own the harness. */
export interface ControlSocket extends AsyncDisposable {
  /** `<store>-<pid>.sock`, or `<store>-<pid>.<number>.sock` of a further one of this process. */
  readonly path: string;
  /** The file is removed, and every connection ended. Idempotent. */
  close(): Promise<void>;
}

/** Sockets that this process has open: a second harness on one store gets a name of its own. */
const open = new Set<string>();

/**
 * Let other processes of this user reach a harness that keeps its sessions in a file: `ls`,
 * `show --follow`, `send` and `interrupt` of the command line do. The socket is opened by its owner
 * only (mode 0600) and keeps no process alive. Close it before the harness is disposed. What dead
 * processes left behind beside the store is removed.
 *
 * @throws {ArgumentError} for a harness whose store is no file
 * @throws what the system refuses it with
 */
export async function openControlSocket(
  harness: Harness,
  options: { readonly onShutdown?: () => void } = {},
): Promise<ControlSocket> {
  const { file } = harness.sessionPersistence;
  if (file === undefined) {
    throw new ArgumentError(
      'A control socket stands beside a store that is a file; this has none.',
    );
  }
  const { folder, name } = await placeOf(file);
  let path = join(folder, socketName(name, 1));
  for (let number = 2; open.has(path); number++) path = join(folder, socketName(name, number));
  open.add(path);
  try {
    await removeDead(file);
    const peers = new Set<RpcPeer>();
    const server = createServer((socket: Socket) => {
      socket.unref();
      const peer = serveConnection({ harness, ...options }, { input: socket, output: socket });
      peers.add(peer);
      void peer.closed.then(() => peers.delete(peer));
    });
    server.unref();
    await listenAt(server, path);
    // Also of a process that ends without closing it, if it ends by itself.
    const onExit = (): void => rmSync(path, { force: true });
    process.once('exit', onExit);
    let closing: Promise<void> | undefined;
    const close = async (): Promise<void> => {
      process.off('exit', onExit);
      await unlink(path).catch(() => {});
      open.delete(path);
      const closed = new Promise<void>((done) => server.close(() => done()));
      for (const peer of peers) peer.close();
      await closed;
    };
    return {
      path,
      close: () => (closing ??= close()),
      [Symbol.asyncDispose]: () => (closing ??= close()),
    };
  } catch (error) {
    open.delete(path);
    throw error;
  }
}

async function removeDead(store: string): Promise<void> {
  for (const file of await socketsOf(store)) {
    if (file.pid === process.pid) continue;
    // One that cannot be asked now is left to whoever can.
    (await connectTo(file).catch(() => undefined))?.destroy();
  }
}
