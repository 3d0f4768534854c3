/**
 * Where the process that is killed stands still for ever: right before or after a transaction of
 * its store that is about something, or in the middle of it. Its threads go on.
 */
import { writeSync } from 'node:fs';
import { decodeEvent } from '../../../dist/src/session/event-codec.js';
import { Sql } from '../../../dist/src/session/sql.js';

let trap;
/** `{ when: 'before' | 'inside' | 'after', what, nth }`; the n-th time from now on. */
export const arm = (wanted) => void (trap = wanted);

/** Sessions that were taken over, and not yet added to. */
const taken = new Set();
let kinds = new Set();
let isRepairing = false;

function meet(when) {
  if (trap?.when !== when || !kinds.has(trap.what) || --trap.nth > 0) return;
  writeSync(1, `${JSON.stringify({ trapped: true })}\n`);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const TYPES = {
  'step/start': 'step',
  'tool/call': 'call',
  'tool/result': 'result',
  'turn/end': 'end',
};

function kindOf({ type, data }) {
  if (type !== 'agent/inbox/spliced') return TYPES[type];
  if (data.inserted.some(({ source }) => source.kind === 'subagent-settled')) return 'notice';
  if (data.inserted.some(({ source }) => source.kind === 'subagent-report')) return 'report';
  if (data.inserted.length > 0) return 'accepted';
  return data.outcome === 'canceled' ? 'discarded' : 'claimed';
}

/** What closes a log that a kill cut off is what it is added first. */
function note(key, seq, body) {
  const event = decodeEvent(seq, body);
  if (taken.delete(key)) {
    const { inserted = [], start } = event.data;
    const isPutBack = start === 0 && inserted.some(({ source }) => source.kind === 'user');
    isRepairing = isPutBack || ['tool/result', 'step/end', 'turn/end'].includes(event.type);
  }
  kinds.add(isRepairing ? 'repair' : kindOf(event));
}

const { run } = Sql.prototype;
Sql.prototype.run = function (sql, ...values) {
  if (sql.startsWith('COMMIT')) meet('before');
  const rows = run.call(this, sql, ...values);
  if (sql.startsWith('BEGIN')) {
    kinds = new Set(['any']);
    isRepairing = false;
  } else if (sql.startsWith('COMMIT')) {
    meet('after');
  } else if (sql.startsWith('UPDATE session SET epoch')) {
    taken.add(values[0]);
    kinds.add('take');
  } else if (sql.startsWith('UPDATE session SET owner = NULL')) {
    kinds.add('release');
  } else if (sql.startsWith('INSERT INTO session')) {
    kinds.add('child');
    meet('inside');
  } else if (sql.startsWith('INSERT INTO event') && values.length === 3) {
    note(...values);
    meet('inside');
  }
  return rows;
};
