/** Sockets beside a store: whose they are, which of them are removed, and who does not answer. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { connectControl } from '../../src/serve/connect-control.ts';
import { openControlSocket } from '../../src/serve/control-socket.ts';
import { testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { served, tempFolder } from './served.ts';

/** Listens, and says nothing. */
async function silentAt(path: string, onConnection: () => void): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
    onConnection();
  });
  await new Promise<void>((done) => server.listen(path, done));
  return server;
}
const closed = (server: Server): Promise<void> =>
  new Promise((done) => void server.close(() => done()));
/** Of a process that has ended. */
const deadPid = (): number => spawnSync(process.execPath, ['--version']).pid;

it('are those of one store, however another is called', async () => {
  using temp = tempFolder();
  const stores = ['work', 'work-2', 'work-2.sock', 'work-2-3'].map((name) =>
    join(temp.folder, name),
  );
  const opened = await Promise.all(
    stores.map(async (store) => {
      const t = await testHarness({ store });
      // Two of one process: the second one has a number in its name.
      const sockets = [await openControlSocket(t.harness), await openControlSocket(t.harness)];
      return { t, sockets };
    }),
  );
  for (const [index, store] of stores.entries()) {
    const clients = await connectControl(store);
    expect(clients).toHaveLength(2);
    for (const client of clients) {
      const { rows } = await client.call('session/list', {});
      expect(rows.map(({ id }) => id)).toEqual([opened[index]?.t.root.id]);
      await client.close();
    }
  }
  for (const { t, sockets } of opened) {
    for (const socket of sockets) await socket.close();
    await t[Symbol.asyncDispose]();
  }
});

it('are removed when their process is gone, and nothing else is', async () => {
  await using s = await served();
  const pid = deadPid();
  const file = `${s.store}-${pid}.sock`;
  writeFileSync(file, 'regular');
  const dead = `${s.store}-${pid}.2.sock`;
  const dumb = `${s.store}-${process.ppid}.sock`;
  for (const path of [dead, dumb]) {
    // Closing unlinks a socket by the name under which it was made.
    const made = `listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`;
    spawnSync(process.execPath, ['-e', `require('net').createServer().${made}`, path]);
    expect(existsSync(path)).toBe(true);
  }
  for (const client of await connectControl(s.store)) await client.close();
  expect(readFileSync(file, 'utf8')).toBe('regular');
  expect(existsSync(dead)).toBe(false);
  // It does not listen, but lives: it may be about to.
  expect(existsSync(dumb)).toBe(true);
});

it('of processes that do not answer are waited for once, and told of', async () => {
  using temp = tempFolder();
  const store = join(temp.folder, 'agents.db');
  writeFileSync(store, '');
  const asked = gate();
  let count = 0;
  const connected = (): void => {
    if (++count === 2) asked.open();
  };
  const servers = [
    await silentAt(`${store}-${process.pid}.sock`, connected),
    await silentAt(`${store}-${process.ppid}.sock`, connected),
  ];
  const clock = new ManualClock();
  const silent: number[] = [];
  const onSilent = (pid: number): void => void silent.push(pid);
  const connecting = connectControl(store, { clock, onSilent });
  await asked.wait();
  expect(clock.pending).toBe(1);
  await clock.advance(5_000);
  expect(await connecting).toEqual([]);
  expect(silent.toSorted()).toEqual([process.pid, process.ppid].toSorted());
  expect(clock.pending).toBe(0);
  for (const server of servers) await closed(server);
});

it('of a process that falls silent after its first answer is no owner, and told of', async () => {
  using temp = tempFolder();
  const store = join(temp.folder, 'agents.db');
  writeFileSync(store, '');
  const found = gate();
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (part: Buffer) => {
      const { id, method } = JSON.parse(part.toString()) as { id: string; method: string };
      if (method !== 'initialize') return found.open();
      socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: { pid: process.ppid } })}\n`);
    });
  });
  await new Promise<void>((done) => server.listen(`${store}-${process.ppid}.sock`, done));
  const clock = new ManualClock();
  const silent: number[] = [];
  const onSilent = (pid: number): void => void silent.push(pid);
  const connecting = connectControl(store, { sessionId: 'mine', clock, onSilent });
  await found.wait();
  await clock.advance(5_000);
  expect(await connecting).toEqual([]);
  expect(silent).toEqual([process.ppid]);
  await closed(server);
});
