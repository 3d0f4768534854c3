/** Processes on one store that reach each other: one is killed, two serve, one is far away. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { connectControl } from '../../src/serve/connect-control.ts';

const PROGRAM = fileURLToPath(new URL('fixtures/serving.mjs', import.meta.url));

interface Program {
  readonly child: ChildProcess;
  readonly pid: number;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** Resolves when it serves. */
async function program(store: string): Promise<Program> {
  const child = spawn(process.execPath, [PROGRAM, store], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [first] = (await once(child.stdout!, 'data')) as [Buffer];
  expect(first.toString()).toContain('ready');
  return {
    child,
    pid: child.pid!,
    async kill(signal) {
      const closed = once(child, 'close');
      child.kill(signal);
      await closed;
    },
  };
}

function folder(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'serve-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

describe('the socket of a process', () => {
  it('stays behind a kill, and is removed by whoever finds that nobody answers', async () => {
    using temp = folder();
    const store = join(temp.path, 'agents.db');
    const one = await program(store);
    await one.kill('SIGKILL');
    const path = `${store}-${one.pid}.sock`;
    expect(existsSync(path)).toBe(true);
    expect(await connectControl(store)).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });

  it('is removed by the next process that serves the store', async () => {
    using temp = folder();
    const store = join(temp.path, 'agents.db');
    const one = await program(store);
    await one.kill('SIGKILL');
    const two = await program(store);
    expect(readdirSync(temp.path).filter((name) => name.endsWith('.sock'))).toEqual([
      `agents.db-${two.pid}.sock`,
    ]);
    await two.kill('SIGKILL');
  });

  it('is gone with a process that ends by itself', async () => {
    using temp = folder();
    const store = join(temp.path, 'agents.db');
    const one = await program(store);
    const closed = once(one.child, 'close');
    one.child.stdin!.end();
    await closed;
    expect(
      readdirSync(temp.path).filter((name) => name.startsWith('.') || name.endsWith('.sock')),
    ).toEqual([]);
  });

  it('is of mode 600 for a store whose path is too long for an address', async () => {
    using temp = folder();
    const deep = join(temp.path, 'd'.repeat(60), 'e'.repeat(60));
    mkdirSync(deep, { recursive: true });
    const store = join(deep, 'agents.db');
    const one = await program(store);
    expect(statSync(`${store}-${one.pid}.sock`).mode & 0o777).toBe(0o600);
    const [client] = await connectControl(store);
    expect(client?.pid).toBe(one.pid);
    await client?.close();
    await one.kill('SIGKILL');
  });
});

describe('two processes on one store', () => {
  it('are both found, and a session in that where it is live', async () => {
    using temp = folder();
    const store = join(temp.path, 'agents.db');
    const one = await program(store);
    const two = await program(store);
    const clients = await connectControl(store);
    expect(clients.map(({ pid }) => pid).sort()).toEqual([one.pid, two.pid].sort());
    const at = clients.find(({ pid }) => pid === two.pid)!;
    await at.call('session/prompt', {
      sessionId: 'mine',
      contentBlocks: [{ type: 'text', text: 'Hi' }],
    });
    const owners = await connectControl(store, { sessionId: 'mine' });
    expect(owners.map(({ pid }) => pid)).toEqual([two.pid]);
    expect(await connectControl(store, { sessionId: 'nobody' })).toEqual([]);
    // The other one sees it in the store, and cannot have it.
    const other = clients.find(({ pid }) => pid === one.pid)!;
    await expect(
      other.call('session/send', { sessionId: 'mine', text: 'More' }),
    ).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    for (const client of [...clients, ...owners]) await client.close();
    for (const each of [one, two]) await each.kill('SIGKILL');
  });

  it('leave a reader that is killed in the middle behind', async () => {
    using temp = folder();
    const store = join(temp.path, 'agents.db');
    const one = await program(store);
    const [client] = await connectControl(store);
    const reading = client!.watch()[Symbol.asyncIterator]();
    await reading.next();
    const lost = reading.next().catch((error: unknown) => error);
    await one.kill('SIGKILL');
    expect(await lost).toMatchObject({ code: 'CONNECTION_CLOSED' });
    await client!.closed;
  });
});
