/** Bodies that reach for what a thread shares with its process. */
import { spawn, spawnSync } from 'node:child_process';
import { pbkdf2, pbkdf2Sync, scryptSync } from 'node:crypto';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { never } from './inside.ts';
import type { Body } from './inside.ts';

/** A pipe that nobody writes to; made by this call. */
function pipe(folder: string, name: string): string {
  const path = join(folder, `${name}-${Math.random().toString(36).slice(2)}`);
  spawnSync('mkfifo', [path]);
  return path;
}
const kill =
  (signal: NodeJS.Signals): Body =>
  () => {
    process.kill(process.pid, signal);
    return never();
  };

export const systemBodies: Readonly<Record<string, Body>> = {
  'spawn-sync': () => spawnSync('sleep', ['3']),
  'subprocess-left': () => {
    spawn('sleep', ['60'], { stdio: 'ignore' });
    return never();
  },
  descriptors: () => {
    try {
      for (;;) openSync('/dev/null', 'r');
    } catch {
      // There are none left.
    }
    return never();
  },
  'pbkdf2-sync': () => pbkdf2Sync('secret', 'salt', 8_000_000, 64, 'sha512'),
  'scrypt-sync': () => scryptSync('secret', 'salt', 64, { N: 2 ** 20, r: 8, maxmem: 2 ** 31 }),
  'pbkdf2-pool': () => {
    for (let i = 0; i < 12; i++) pbkdf2('secret', 'salt', 1_000_000, 64, 'sha512', () => {});
    return never();
  },
  'kill-sigterm': kill('SIGTERM'),
  'kill-sigkill': kill('SIGKILL'),
  'kill-sigsegv': kill('SIGSEGV'),
  'kill-sigusr2': kill('SIGUSR2'),
  'close-descriptors': () => {
    for (let number = 3; number < 60; number++) {
      try {
        closeSync(number);
      } catch {
        // Not open.
      }
    }
    return never();
  },
  'fifo-sync': ({ folder }) => readFileSync(pipe(folder, 'sync')),
  'fifo-async': ({ folder }) =>
    Promise.all([1, 2, 3, 4].map(() => readFile(pipe(folder, 'async')))),
  // Of V8, and so of every thread that is made from now on.
  'heap-flag': () => setFlagsFromString('--max-heap-size=3'),
};
