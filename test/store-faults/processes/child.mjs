/**
 * A process of its own with the built store: `node child.mjs <path> [options as JSON]`. Each line
 * of its input is a call, `[name, ...arguments]`; each line of its output the answer to one.
 */
import { createInterface } from 'node:readline';
import { DatabaseSync } from '@photostructure/sqlite';
import { Sql } from '../../../dist/src/session/sql.js';
import { openSqliteStore } from '../../../dist/src/session/sqlite-store.js';

// Else the kernel ends the process when a file would grow beyond its limit.
process.on('SIGXFSZ', () => {});
const [, , path, options = '{}'] = process.argv;
const { host, now, ...rest } = JSON.parse(options);
let store;

const answer = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const owner =
  host === undefined ? {} : { owner: { host, pid: process.pid, startedAt: null, handle: 'h' } };
const clock =
  now === undefined ? {} : { clock: { now: () => now, after: () => ({ cancel() {} }) } };

/** Be killed by `SIGKILL` at that point of the next migration. */
function dieIn(point, value) {
  const { run, define } = Sql.prototype;
  const die = () => process.kill(process.pid, 'SIGKILL');
  let calls = 0;
  Sql.prototype.define = function (name, implementation) {
    // As many parameters as it has: SQLite asks for just those.
    define.call(this, name, (header, field) => {
      if (point === 'row' && ++calls === value) die();
      return implementation(header, field);
    });
  };
  Sql.prototype.run = function (sql, ...values) {
    const rows = run.call(this, sql, ...values);
    if (point === 'tables' && sql.includes('CREATE TABLE checkpoint')) die();
    if (point === 'version' && sql.includes('PRAGMA application_id =')) die();
    if (point === 'commit' && sql === 'COMMIT') die();
    return rows;
  };
}

let other;
const calls = {
  dieIn,
  /** Write the file by another connection than the store's, and do not end that. */
  hold() {
    other = new DatabaseSync(path);
    other.exec('BEGIN IMMEDIATE');
  },
  letGo() {
    other.exec('COMMIT');
    other.close();
  },
  open() {
    store = openSqliteStore({ path, ...rest, ...owner, ...clock });
  },
};

answer({ ok: process.pid });
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...values] = JSON.parse(line);
  try {
    const value = await (calls[name] ?? ((...all) => store[name](...all)))(...values);
    answer({ ok: value ?? null });
  } catch ({ name: kind, code, message }) {
    answer({ error: { name: kind, code, message } });
  }
}
process.exit(0);
