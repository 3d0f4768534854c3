import { expect, it } from 'vitest';
import type { RuntimeEvent, SessionRow } from '../../src/index.ts';
import { TreeModel } from '../../src/cli/tree-model.ts';
import { treeLines } from '../../src/cli/tree-view.ts';
import {
  began,
  created,
  ended,
  logged,
  runEnded,
  toldOf,
  toolFailed,
  wrote,
} from './tree-events.ts';

const fold = (...events: readonly RuntimeEvent[]): TreeModel => {
  const tree = new TreeModel();
  for (const event of events) tree.apply(event);
  return tree;
};
const ROOT = [created('r', 0), began('r')];
const step = logged('r', 'step/start', { turn: 1, step: 1 });
const call = (callId: string, name = 'read_file'): RuntimeEvent =>
  logged('r', 'tool/call', { turn: 1, step: 1, callId, name, arguments: '{}' });
const result = (callId: string): RuntimeEvent =>
  logged('r', 'tool/result', { message: { source: { kind: 'tool', callId }, content: [] } });
const continuable = (id: string, label: string): readonly RuntimeEvent[] => [
  created(id, 0, 'r', label),
  logged(id, 'subagent/descriptor', { version: 1, mode: 'continuable', provider: 'spawn', label }),
];
const started = (id: string, label: string, local = true): RuntimeEvent => ({
  type: 'subagent/start',
  time: 5,
  runId: `run-${id}`,
  provider: 'spawn',
  id,
  parent: 'r',
  label,
  local,
});
const says = (session: string, status: object): RuntimeEvent =>
  ({ type: 'session/status', time: 9, session, ...status }) as RuntimeEvent;

it('waits for its model until something comes of the request', () => {
  const tree = fold(...ROOT, step);
  expect(tree.root?.state).toBe('model');
  tree.apply(wrote('r', 'I'));
  expect(tree.root?.state).toBe('running');
  const retry = { turn: 1, step: 1, retry: 1, maxRetries: 2, failure: { message: 'busy' } };
  tree.apply(logged('r', 'llm/retry', retry));
  expect(tree.root?.state).toBe('model');
});

it('waits for a tool while one runs, and then for children', () => {
  const tree = fold(...ROOT, step, call('1'), toldOf('r', '2', 'a.md'));
  expect(tree.root?.state).toBe('tool');
  tree.apply(result('1'));
  expect(tree.root?.state).toBe('child');
  tree.apply(result('2'));
  expect(tree.root?.state).toBe('running');
});

it('shows a child as queued from its call until it is there', () => {
  const tree = fold(...ROOT, toldOf('r', '1', 'a.md'), toldOf('r', '2', 'a.md'));
  const shown = (): unknown => tree.root?.children.map(({ label, state }) => [label, state]);
  expect(shown()).toEqual([
    ['a.md', 'queued'],
    ['a.md', 'queued'],
  ]);
  for (const event of [created('c', 4, 'r'), started('c', 'a.md')]) tree.apply(event);
  expect(shown()).toEqual([
    ['a.md', 'queued'],
    ['a.md', 'starting'],
  ]);
  tree.apply(toolFailed('r', '2', 'CAPACITY', 'No thread is free.'));
  expect(shown()).toEqual([['a.md', 'starting']]);
});

it('forgets what was asked for and never came when the turn is over', () => {
  const tree = fold(...ROOT, toldOf('r', '1', 'a.md'), ended('r', { kind: 'completed' }, 9));
  expect(tree.rows.map(({ id }) => id)).toEqual(['r']);
});

it('takes a child that goes on for idle between two turns, and for done when it has settled', () => {
  const tree = fold(...ROOT, ...continuable('c', 'scout'), began('c', 10));
  tree.apply(ended('c', { kind: 'completed' }, 30));
  expect(tree.row('c')?.state).toBe('idle');
  tree.apply(runEnded('c', 'completed', 40));
  expect(tree.row('c')?.state).toBe('completed');
  for (const event of [created('c', 0, 'r', 'scout'), began('c', 100)]) tree.apply(event);
  expect(tree.row('c')?.state).toBe('running');
  tree.apply(ended('c', { kind: 'completed' }, 105));
  // It was made at 0; between its two turns it was not at work.
  expect(tree.row('c')).toMatchObject({ workedMs: 35, workingSince: undefined });
  expect(tree.root?.children).toHaveLength(1);
});

it('counts the time of a session that is brought back from there', () => {
  const tree = fold(created('r', 0), logged('r', 'turn/start', { turn: 4 }, 90_000));
  tree.apply(ended('r', { kind: 'completed' }, 91_000));
  expect(tree.root).toMatchObject({ startedAt: 90_000, workedMs: 1000 });
});

it('shows a run that has no session here', () => {
  const tree = fold(...ROOT, started('x-1', 'far away', false));
  expect(tree.row('x-1')).toMatchObject({ label: 'far away', state: 'running', parent: 'r' });
  tree.apply(runEnded('x-1', 'error', 9));
  expect(tree.row('x-1')).toMatchObject({ state: 'failed', failure: { code: 'FAILED' } });
});

it.each([
  [{ status: 'queued' }, 'queued'],
  [{ status: 'waiting', waitingOn: 'child' }, 'child'],
  [{ status: 'idle', reason: 'completed' }, 'completed'],
  [{ status: 'idle' }, 'idle'],
  [{ status: 'settled', reason: 'aborted' }, 'stopped'],
  [{ status: 'settled', reason: 'max-tokens' }, 'failed'],
  [{ status: 'settled' }, 'stopped'],
])('believes the process that runs it: %j', (status, state) => {
  expect(fold(...ROOT, says('r', status)).root?.state).toBe(state);
});

it('keeps how a child failed, which its last turn does not tell', () => {
  const tree = fold(...ROOT, created('c', 0, 'r', 'a.md'), began('c'));
  for (const event of [
    ended('c', { kind: 'completed' }, 9),
    runEnded('c', 'error', 10),
    says('c', { status: 'settled', reason: 'completed' }),
  ]) {
    tree.apply(event);
  }
  expect(tree.row('c')).toMatchObject({
    state: 'failed',
    failure: { code: 'NO_STRUCTURED_OUTPUT' },
  });
});

const session = (id: string, more: Partial<SessionRow>): SessionRow => ({
  id,
  depth: 0,
  mode: 'root',
  live: false,
  status: 'settled',
  reason: 'completed',
  createdAt: 0,
  workedMs: 1500,
  ...more,
});
const below = (id: string, parentId: string, more: Partial<SessionRow> = {}): SessionRow =>
  session(id, { parentId, depth: 1, mode: 'continuable', ...more });

it('draws a store: every tree in it, with the ends of the ids and the last lines', () => {
  const tree = new TreeModel();
  tree.reset({
    rows: [
      session('0190-aaaa-12345678', {
        live: true,
        status: 'waiting',
        waitingOn: 'child',
        workingSince: 10_000,
        tokens: { input: 1200, output: 34 },
        lastLine: 'I delegate.',
      }),
      below('0190-bbbb-22345678', '0190-aaaa-12345678', {
        label: 'scout',
        lastLine: 'Found three of them.',
      }),
      below('0190-cccc-32345678', '0190-aaaa-12345678', {
        label: 'tester',
        live: true,
        status: 'idle',
      }),
      session('main', { reason: 'interrupted', lastLine: 'I was' }),
    ],
    diagnostics: [{ id: '0190-dddd-42345678', parentId: 'main', reason: 'corrupt' }],
  });
  const options = { columns: 80, rows: 24, color: false, now: 12_300, isListing: true };
  expect(treeLines(tree, options)).toEqual([
    '12345678 ◌ root                     on child    3.8 s   1.2k  I delegate.',
    '22345678 ├─ ✓ scout                 completed   1.5 s         Found three of t…',
    '32345678 └─ – tester                idle        1.5 s',
    'main     ✗ root                     failed      1.5 s         INTERRUPTED',
    '42345678 └─ ✗ 42345678              failed      0.0 s         CORRUPT',
    '5 sessions: 1 on child, 1 idle, 1 completed, 2 failed · 1.2k tokens',
  ]);
});

it('takes a root that comes later for one that goes on, as those of a store do', () => {
  const tree = new TreeModel();
  tree.reset({ rows: [], diagnostics: [] });
  for (const event of [...ROOT, ended('r', { kind: 'completed' }, 9)]) tree.apply(event);
  expect(tree.root?.state).toBe('idle');
});

it('folds trees that are over before trees that run, and says how many', () => {
  const tree = new TreeModel();
  tree.reset({
    rows: Array.from({ length: 30 }, (_, index) =>
      session(`root-${String(index).padStart(8, '0')}`, index === 20 ? { status: 'running' } : {}),
    ),
    diagnostics: [],
  });
  const lines = treeLines(tree, {
    columns: 80,
    rows: 8,
    color: false,
    now: 0,
    isListing: true,
  });
  expect(lines.length).toBeLessThanOrEqual(8);
  expect(lines.some((line) => line.startsWith('00000020 ● root'))).toBe(true);
  expect(lines.at(-2)).toMatch(/^ +… 2\d more \(2\d completed\)$/u);
  expect(lines.at(-1)).toBe('30 sessions: 1 running, 29 completed');
});

it('shows the id of a session that has a blank in it', () => {
  const options = { columns: 80, rows: 8, color: false, now: 0, isListing: true };
  const [line] = treeLines(fold(created('my own', 0), began('my own')), options);
  expect(line).toMatch(/^my own /u);
});
