import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { LiveTree } from '../../src/cli/live-tree.ts';
import { TreeModel } from '../../src/cli/tree-model.ts';
import { treeLines } from '../../src/cli/tree-view.ts';
import { SmallTerminal } from './small-terminal.ts';
import { began, created, labelled, wrote } from './tree-events.ts';

const HEADLINE = 'A headline that was there before.';
const REDRAW_MS = 100;

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

function shown(width: number): { terminal: SmallTerminal; tree: TreeModel; live: LiveTree } {
  const tree = new TreeModel();
  for (const event of [
    created('r', 0),
    began('r'),
    wrote('r', 'I delegate 1 to 2 of 2, and go on for a while.'),
    created('a', 0, 'r'),
    labelled('a', `src/${'日本語'.repeat(9)}.md`),
    began('a'),
    wrote('a', '語'.repeat(40)),
    created('b', 0, 'r'),
  ]) {
    tree.apply(event);
  }
  const terminal = new SmallTerminal(width);
  terminal.write(`${HEADLINE}\n`);
  const live = new LiveTree(tree, terminal.stream, { color: true });
  vi.advanceTimersByTime(REDRAW_MS);
  return { terminal, tree, live };
}

function expected(tree: TreeModel, columns: number): string {
  const lines = treeLines(tree, { columns, rows: 23, color: false, now: Date.now() });
  const headline = HEADLINE.match(new RegExp(`.{1,${columns}}`, 'gu')) ?? [];
  return [...headline, ...lines].map((line) => line.trimEnd()).join('\n');
}

it('draws the tree in place', () => {
  const { terminal, tree, live } = shown(80);
  expect(terminal.text).toBe(expected(tree, 80));
  vi.advanceTimersByTime(5 * REDRAW_MS);
  expect(terminal.text).toBe(expected(tree, 80));
  live.close();
});

it.each([[[40]], [[79]], [[20]], [[41, 33, 25]], [[120, 60]], [[40, 80, 40]]])(
  'leaves nothing of an old tree when the terminal becomes %j columns wide',
  (widths) => {
    const { terminal, tree, live } = shown(80);
    for (const width of widths) {
      terminal.reshape(width);
      terminal.tell();
      expect(terminal.text).toBe(expected(tree, width));
      vi.advanceTimersByTime(REDRAW_MS);
      expect(terminal.text).toBe(expected(tree, width));
    }
    live.close();
  },
);

it.each([40, 120])('draws for %i columns before it was told that they changed', (width) => {
  const { terminal, tree, live } = shown(80);
  terminal.reshape(width);
  vi.advanceTimersByTime(REDRAW_MS);
  expect(terminal.text).toBe(expected(tree, width));
  terminal.tell();
  expect(terminal.text).toBe(expected(tree, width));
  live.close();
});

it('leaves its last state when it is closed right after a change', () => {
  const { terminal, tree, live } = shown(80);
  terminal.reshape(40);
  live.close();
  expect(terminal.text).toBe(expected(tree, 40));
});
