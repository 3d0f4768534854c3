/**
 * A process that embeds the library, on which faults happen one after another: each line of its
 * input is one, each line of its output what was seen of it. A server on loopback answers whoever
 * watches from outside whether this process is still alive.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { playFault } from './ground-fault.ts';
import { Stage } from './ground-stage.ts';
import type { Cell } from './moments.ts';

export interface Task {
  readonly cell: Cell;
  readonly number: number;
}

const uncaught: string[] = [];
const note = (error: unknown): void => {
  uncaught.push(String((error as Error | undefined)?.stack ?? error).slice(0, 2_000));
};
process.on('uncaughtException', note);
process.on('unhandledRejection', note);
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

let probes = 0;
const server = createServer((_, response) => {
  probes++;
  // The pool is part of being alive: files and names are looked up in it.
  stat('/').then(
    () => response.end('alive'),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
// A connection stays as it is, so that none comes or goes while things are counted.
server.keepAliveTimeout = 0;
server.headersTimeout = 0;
server.requestTimeout = 0;
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const folder = mkdtempSync(join(tmpdir(), 'ground-'));
const stage = await Stage.open(folder, 'ground');
say({ type: 'up', port: (server.address() as AddressInfo).port, folder });
// What a process has once is there before anything is counted.
await stage.healthy();
await stage.until(() => probes > 2, 10_000);

const takeUncaught = (): readonly string[] => uncaught.splice(0);
for await (const line of createInterface({ input: process.stdin })) {
  const { cell, number } = JSON.parse(line) as Task;
  say({ type: 'begun', number });
  try {
    say({ type: 'seen', number, seen: await playFault(stage, cell, number, { takeUncaught }) });
  } catch (error) {
    say({ type: 'failed', number, error: String((error as Error).stack) });
  }
}
const from = performance.now();
await stage.harness.dispose().catch(note);
say({ type: 'disposed', ms: performance.now() - from, uncaught: takeUncaught() });
server.close();
server.closeAllConnections();
rmSync(folder, { recursive: true, force: true });
