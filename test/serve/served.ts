/** A harness on a store of its own, served by its control socket, and a client of it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectControl } from '../../src/serve/connect-control.ts';
import type { ControlClient } from '../../src/serve/control-client.ts';
import { openControlSocket } from '../../src/serve/control-socket.ts';
import type { ControlSocket } from '../../src/serve/control-socket.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';

export interface Served extends AsyncDisposable {
  readonly t: TestHarness;
  readonly store: string;
  readonly socket: ControlSocket;
  readonly client: ControlClient;
}

export function tempFolder(): { readonly folder: string } & Disposable {
  const folder = mkdtempSync(join(tmpdir(), 'served-'));
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

export async function served(options: TestHarnessOptions = {}): Promise<Served> {
  const temp = tempFolder();
  const store = join(temp.folder, 'agents.db');
  const t = await testHarness({ ...options, store });
  const socket = await openControlSocket(t.harness);
  const [client] = await connectControl(store);
  if (client === undefined) throw new Error('Nobody answers.');
  return {
    t,
    store,
    socket,
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      await socket.close();
      await t[Symbol.asyncDispose]();
      temp[Symbol.dispose]();
    },
  };
}

/** The first values of a reading; the rest is left. */
export async function take<T>(
  values: AsyncIterableIterator<T>,
  isLast: (value: T) => boolean,
): Promise<readonly T[]> {
  const taken: T[] = [];
  for await (const value of values) {
    taken.push(value);
    if (isLast(value)) break;
  }
  return taken;
}
