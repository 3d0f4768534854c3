/**
 * Lives of a store under a limit of how large a file may grow: `node lives.mjs <folder>
 * <limit>…`, each limit in bytes, `0` for none. For each a file of its own is made, and a line
 * written per step: `[limit, step, 'ok' | code | …]`. When a step fails, what is on the disk at
 * that moment is copied, as a crash would leave it; then the limit is lifted, and the step done
 * again by the same handle.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync } from 'node:fs';
import { openSqliteStore } from '../../../dist/src/session/sqlite-store.js';

// Else the kernel ends the process at the first write beyond the limit.
process.on('SIGXFSZ', () => {});
const [, , folder, ...limits] = process.argv;

const tell = (...values) => process.stdout.write(`${JSON.stringify(values)}\n`);
function limit(bytes) {
  const args = ['--pid', String(process.pid), `--fsize=${bytes === 0 ? 'unlimited' : bytes}:`];
  const { status, stderr } = spawnSync('prlimit', args);
  if (status !== 0) throw new Error(String(stderr));
}

const event = (seq, size) => ({
  type: 'session/end-seed',
  seq,
  time: 1,
  data: { x: 'x'.repeat(size) },
});
const log = (from, ...sizes) => sizes.map((size, index) => event(from + index, size));
const header = (id, more = {}) => ({ version: 0, id, createdAt: 1, ...more });
const checkpoint = (seq, size) => ({ seq, rows: { key: { ver: 1, val: 'v'.repeat(size) } } });
const owner = { host: 'here', pid: process.pid, startedAt: null, handle: 'h' };
const clock = { now: () => 1, after: () => ({ cancel() {} }) };

function steps(path) {
  let store;
  const open = () => {
    store ??= openSqliteStore({ path, owner, clock });
  };
  return [
    open,
    () => store.append([{ id: 'a', epoch: 1, header: header('a'), events: log(0, 10, 3_000) }]),
    () =>
      store.append([{ id: 'a', epoch: 1, events: log(2, 20_000), checkpoint: checkpoint(2, 100) }]),
    () =>
      store.append([
        { id: 'b', epoch: 1, header: header('b', { parentSession: 'a' }), events: log(0, 10, 10) },
        { id: 'a', epoch: 1, events: log(3, 5_000, 100), checkpoint: checkpoint(4, 6_000) },
      ]),
    () => store.release(['a']),
    () => store.acquire('a'),
    () => store.delete(['b']),
    () => store.append([{ id: 'a', epoch: 2, events: log(5, 50, 50, 9_000) }]),
    async () => {
      await store?.close();
      store = undefined;
      open();
    },
    () => store.acquire('a'),
    () =>
      store.append([{ id: 'a', epoch: 3, events: log(8, 30_000), checkpoint: checkpoint(8, 10) }]),
    () => store.vacuum(),
    () => store.close(),
  ];
}

for (const bytes of limits.map(Number)) {
  const path = `${folder}/${bytes}.db`;
  limit(bytes);
  let isLimited = bytes !== 0;
  const all = steps(path);
  for (let step = 0; step < all.length; step++) {
    try {
      await all[step]();
      tell(bytes, step, 'ok');
      if (bytes === 0) copy(path, `${folder}/after-${step}.db`);
    } catch ({ name, code }) {
      tell(bytes, step, name, code);
      if (!isLimited) process.exit(1);
      limit(0);
      isLimited = false;
      copy(path, `${folder}/crash-${bytes}.db`);
      step--;
    }
  }
  limit(0);
}
process.exit(0);

function copy(from, to) {
  for (const end of ['', '-wal']) if (existsSync(from + end)) copyFileSync(from + end, to + end);
}
