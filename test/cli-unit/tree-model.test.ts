import { expect, it } from 'vitest';
import { TreeModel } from '../../src/cli/tree-model.ts';
import type { RuntimeEvent } from '../../src/index.ts';
import {
  began,
  created,
  ended,
  labelled,
  logged,
  runEnded,
  toldOf,
  toolFailed,
  used,
  wrote,
} from './tree-events.ts';

const fold = (...events: readonly RuntimeEvent[]): TreeModel => {
  const tree = new TreeModel();
  for (const event of events) tree.apply(event);
  return tree;
};
const CHILD = [created('r', 0), created('c', 5, 'r'), labelled('c', 'a.md'), began('c', 6)];

it('hangs each child below the agent that made it, under its label', () => {
  const tree = fold(...CHILD, created('d', 7, 'c'), labelled('d', 'deep'));
  expect(tree.root?.label).toBe('root');
  expect(tree.root?.children.map((row) => row.label)).toEqual(['a.md']);
  expect(tree.row('c')?.children.map((row) => row.label)).toEqual(['deep']);
});

it('follows a child from its start to its end', () => {
  const tree = fold(created('r', 0), created('c', 5, 'r'));
  expect(tree.row('c')?.state).toBe('starting');
  tree.apply(began('c', 6));
  expect(tree.row('c')?.state).toBe('running');
  tree.apply(ended('c', { kind: 'completed' }, 30));
  tree.apply(runEnded('c', 'completed', 40));
  expect(tree.row('c')).toMatchObject({ state: 'completed', startedAt: 5, endedAt: 30 });
  expect(tree.failures()).toEqual([]);
});

it('adds up the tokens of every request', () => {
  const tree = fold(...CHILD, used('c', 10, 2), used('c', 20, 3));
  expect(tree.row('c')).toMatchObject({ inputTokens: 30, outputTokens: 5 });
});

it('keeps the last line that was written', () => {
  const tree = fold(...CHILD, wrote('c', 'one\ntw'), wrote('c', 'o\n'));
  expect(tree.row('c')?.lastLine.trim()).toBe('two');
  tree.apply(wrote('c', '\n'));
  expect(tree.row('c')?.lastLine.trim()).toBe('two');
  tree.apply(wrote('c', 'three'));
  expect(tree.row('c')?.lastLine).toBe('three');
});

it('begins a new line with a new message', () => {
  const tree = fold(...CHILD, wrote('c', 'first'), used('c', 1, 1), wrote('c', 'second'));
  expect(tree.row('c')?.lastLine).toBe('second');
});

it('shows the tool that a silent step calls, but not instead of what was written', () => {
  const call = logged('c', 'tool/call', {
    callId: '1',
    name: 'read_file',
    arguments: '{"path":1}',
  });
  const step = logged('c', 'step/start', { turn: 1, step: 2 });
  const tree = fold(...CHILD, wrote('c', 'I look.'), call);
  expect(tree.row('c')?.lastLine).toBe('I look.');
  for (const event of [step, call]) tree.apply(event);
  expect(tree.row('c')?.lastLine.trim()).toBe('read_file {"path":1}');
  tree.apply(wrote('c', 'third'));
  expect(tree.row('c')?.lastLine).toBe('third');
});

it('names a failed child with the code in its log', () => {
  const error = { code: 'WORKER_CRASHED', message: 'boom' };
  const tree = fold(...CHILD, ended('c', { kind: 'error', error }, 9), runEnded('c', 'error', 10));
  expect(tree.row('c')).toMatchObject({ state: 'failed', endedAt: 9 });
  expect(tree.failures()).toEqual([{ label: 'a.md', ...error }]);
});

it('takes a child that completed without its result for failed', () => {
  const tree = fold(...CHILD, ended('c', { kind: 'completed' }, 9), runEnded('c', 'error', 10));
  expect(tree.row('c')?.state).toBe('failed');
  expect(tree.failures()).toMatchObject([{ label: 'a.md', code: 'NO_STRUCTURED_OUTPUT' }]);
});

it('shows a child that was stopped before its turn under its label, as stopped', () => {
  const tree = fold(created('r', 0), created('c', 5, 'r', 'a.md'), runEnded('c', 'aborted', 9));
  expect(tree.row('c')).toMatchObject({ label: 'a.md', state: 'stopped', endedAt: 9 });
  expect(tree.failures()).toMatchObject([{ label: 'a.md', code: 'ABORTED' }]);
});

it('names what went wrong with a child that never had a turn', () => {
  const error = { code: 'WORKER_CRASHED', message: 'boom' };
  const failed: RuntimeEvent = { type: 'agent/error', time: 8, session: 'c', ...error };
  const tree = fold(created('r', 0), created('c', 5, 'r', 'a.md'), failed);
  expect(tree.failures()).toEqual([]);
  tree.apply(runEnded('c', 'error', 9));
  expect(tree.failures()).toEqual([{ label: 'a.md', ...error }]);
});

it('tells of a delegation that never got a child, once', () => {
  const tree = fold(
    ...CHILD,
    toldOf('r', 'call-1', 'a.md'),
    toldOf('r', 'call-2', 'b.md'),
    ended('c', { kind: 'error', error: { code: 'X', message: 'x' } }, 9),
    toolFailed('r', 'call-1', 'FAILED', 'x'),
    toolFailed('r', 'call-2', 'CAPACITY', 'No thread is free.'),
  );
  expect(tree.failures()).toEqual([
    { label: 'a.md', code: 'X', message: 'x' },
    { label: 'b.md', code: 'CAPACITY', message: 'No thread is free.' },
  ]);
});

it('tells of a child once although its call was given up before it', () => {
  const tree = fold(
    ...CHILD,
    toldOf('r', 'call-1', 'a.md'),
    toldOf('r', 'call-2', 'a.md'),
    toolFailed('r', 'call-1', 'TOOL_OUTCOME_UNKNOWN', 'Unknown.'),
    toolFailed('r', 'call-2', 'CAPACITY', 'No thread is free.'),
    ended('c', { kind: 'aborted', reason: { kind: 'parent' } }, 9),
  );
  expect(tree.failures()).toMatchObject([
    { label: 'a.md', code: 'ABORTED' },
    { label: 'a.md', code: 'CAPACITY' },
  ]);
});

it('forgets a failed turn when the next one begins', () => {
  const tree = fold(
    created('r', 0),
    began('r'),
    ended('r', { kind: 'error', error: { code: 'X', message: 'x' } }, 1),
    began('r', 2),
  );
  expect(tree.root).toMatchObject({ state: 'running', failure: undefined, endedAt: undefined });
});
