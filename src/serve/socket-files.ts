/** Where the control sockets of a store are, and how one is made that nobody else can ever open. */
import { chmod, lstat, mkdtemp, readdir, realpath, rename, rm, symlink } from 'node:fs/promises';
import { connect } from 'node:net';
import type { Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { StoreError } from '../../protocol/errors.ts';

/** A longer path does not fit into the address of a socket. */
const MAX_PATH_BYTES = 100;

export interface SocketFile {
  readonly path: string;
  /** The process that made it, by its name. */
  readonly pid: number;
}

/** The folder and the name of a store, whichever way it is named. @throws {StoreError} */
export async function placeOf(store: string): Promise<{ folder: string; name: string }> {
  try {
    const path = await realpath(store);
    return { folder: dirname(path), name: basename(path) };
  } catch (error) {
    const text = `There is no store at ${store}.`;
    throw new StoreError('STORE_IO', text, { cause: error });
  }
}

/**
 * What the sockets of this process are called, the first one first. Of whichever store one is, its
 * last hyphen tells: what follows that has none.
 */
export function socketName(name: string, number: number): string {
  return `${name}-${process.pid}${number === 1 ? '' : `.${number}`}.sock`;
}

/** All that are called so beside a store, answered or not, by process and age. */
export async function socketsOf(store: string): Promise<readonly SocketFile[]> {
  const { folder, name } = await placeOf(store);
  const sockets = (await readdir(folder)).flatMap((file): SocketFile[] => {
    const [, of, pid] = /^(.*)-(\d+)(?:\.\d+)?\.sock$/su.exec(file) ?? [];
    return of === name ? [{ path: join(folder, file), pid: Number(pid) }] : [];
  });
  return sockets.sort((a, b) => a.pid - b.pid || (a.path < b.path ? -1 : 1));
}

/**
 * Listen there. The socket is made in a folder that is nobody else's, given its mode, and then
 * put in its place, where it takes that of a dead one: at no instant is it open to others, and
 * whatever stands there answers.
 */
export async function listenAt(server: Server, path: string): Promise<void> {
  const nest = await mkdtemp(join(dirname(path), '.subagents-'));
  try {
    const made = join(nest, 's');
    await atShortPath(nest, made, async (folder) => {
      await new Promise<void>((done, failed) => {
        server.once('error', failed);
        server.listen(join(folder, 's'), () => {
          server.off('error', failed);
          done();
        });
      });
    });
    await chmod(made, 0o600);
    await rename(made, path);
  } finally {
    await rm(nest, { recursive: true, force: true });
  }
}

/**
 * Connect to it; `undefined` when nobody listens there any more: what a dead process left is then
 * removed.
 * @throws (rejects) what keeps us from it otherwise
 */
export async function connectTo({ path, pid }: SocketFile): Promise<Socket | undefined> {
  try {
    return await atShortPath(dirname(path), path, async (folder) => {
      const socket = connect(join(folder, basename(path)));
      await new Promise<void>((done, failed) => {
        socket.once('error', failed);
        socket.once('connect', () => {
          socket.off('error', failed);
          done();
        });
      });
      return socket;
    });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code !== 'ECONNREFUSED') throw error;
    // Whatever is no socket is somebody's own file, and refuses in the same way.
    const isSocket = (await lstat(path).catch(() => undefined))?.isSocket() ?? false;
    if (isSocket && !isRunning(pid)) await rm(path, { force: true });
    return undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** `work` with a folder that is the same, under which the path of the socket is not too long. */
async function atShortPath<T>(
  folder: string,
  path: string,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  if (Buffer.byteLength(path) <= MAX_PATH_BYTES) return work(folder);
  const shelf = await mkdtemp(join(tmpdir(), 'subagents-'));
  try {
    const short = join(shelf, 'd');
    await symlink(folder, short);
    return await work(short);
  } finally {
    await rm(shelf, { recursive: true, force: true });
  }
}
