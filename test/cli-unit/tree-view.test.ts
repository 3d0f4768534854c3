import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';
import type { RuntimeEvent } from '../../src/index.ts';
import { columnsOf } from '../../src/cli/text.ts';
import { TreeModel } from '../../src/cli/tree-model.ts';
import { treeLines, type ViewOptions } from '../../src/cli/tree-view.ts';
import { began, created, ended, labelled, logged, used, wrote } from './tree-events.ts';

const SIZE: ViewOptions = { columns: 80, rows: 24, color: false, now: 12_300 };

function treeOf(...events: readonly RuntimeEvent[]): TreeModel {
  const tree = new TreeModel();
  for (const event of events) tree.apply(event);
  return tree;
}

const child = (id: string, label: string): readonly RuntimeEvent[] => [
  created(id, 1000, 'r'),
  labelled(id, label),
  began(id),
];

/** A root with `count` children: of ten, one runs, one has failed, the others are done. */
function wide(count: number): TreeModel {
  const tree = treeOf(created('r', 0), began('r'));
  for (let index = 0; index < count; index += 1) {
    const id = `c${index}`;
    for (const event of child(id, `file-${index}.md`)) tree.apply(event);
    if (index % 10 === 3) continue;
    const error = { code: 'WORKER_OUT_OF_MEMORY', message: 'x' };
    tree.apply(
      ended(id, index % 10 === 7 ? { kind: 'error', error } : { kind: 'completed' }, 2000),
    );
  }
  return tree;
}

it('shows status, time, tokens and the last line of every agent', () => {
  const tree = treeOf(
    created('r', 0),
    began('r'),
    wrote('r', 'I delegate 1 to 3 of 3.'),
    ...child('a', 'README.md'),
    used('a', 1200, 34),
    ended('a', { kind: 'completed' }, 1450),
    ...child('b', 'src/a-rather-long-folder/and-a-long-file-name.ts'),
    wrote('b', 'reading'),
    ...child('c', 'spin_forever'),
    ended('c', { kind: 'error', error: { code: 'LIMIT_EXCEEDED', message: 'x' } }, 3000),
  );
  expect(treeLines(tree, SIZE)).toEqual([
    '● root                          running    12.3 s         I delegate 1 to 3 of…',
    '├─ ✓ README.md                  completed   0.5 s   1.2k',
    '├─ ● src/a-rather-long-folder/… running    11.3 s         reading',
    '└─ ✗ spin_forever               failed      2.0 s         LIMIT_EXCEEDED',
    '1 running, 1 completed, 1 failed · 1.2k tokens · 12.3 s',
  ]);
});

it('tells of no tokens when the model told of none', () => {
  const tree = treeOf(created('r', 0), began('r'), logged('r', 'assistant/message', {}));
  expect(treeLines(tree, SIZE)).toEqual([
    '● root                          running    12.3 s',
    'no children yet · 12.3 s',
  ]);
});

it('draws every level of a deep tree', () => {
  const tree = treeOf(
    created('r', 0),
    ...child('a', 'a'),
    created('b', 0, 'a'),
    created('d', 0, 'b'),
    ...child('z', 'z'),
  );
  expect(treeLines(tree, SIZE).map((line) => line.slice(0, 14).trimEnd())).toEqual([
    '○ root',
    '├─ ● a',
    '│  └─ ○ b',
    '│     └─ ○ d',
    '└─ ● z',
    '2 running, 2 s',
  ]);
});

it('folds a long tree to the height of the terminal, and keeps what runs and what failed', () => {
  const lines = treeLines(wide(60), { ...SIZE, rows: 20 });
  expect(lines.length).toBeLessThanOrEqual(20);
  expect(lines.filter((line) => line.includes('●') && line.includes('file-'))).toHaveLength(6);
  expect(lines.filter((line) => line.includes('WORKER_OUT_OF_MEMORY'))).toHaveLength(6);
  expect(lines.at(-2)).toMatch(/^└─ … \d+ more \(\d+ completed\)$/u);
  expect(lines.at(-1)).toMatch(/^6 running, 48 completed, 6 failed/u);
});

it.each([1, 2, 3, 5, 24])('never uses more than the %i lines there are', (rows) => {
  expect(treeLines(wide(40), { ...SIZE, rows }).length).toBeLessThanOrEqual(rows);
});

it.each([20, 38, 50, 80, 200])('leaves the last of %i columns free', (columns) => {
  const tree = wide(12);
  for (const event of child('w', '日本語'.repeat(30))) tree.apply(event);
  tree.apply(wrote('w', '語'.repeat(100)));
  for (const line of treeLines(tree, { ...SIZE, columns })) {
    expect(columnsOf(line)).toBeLessThan(columns);
  }
});

it('adds colours only when it may, and changes nothing else by it', () => {
  const [plain, painted] = [false, true].map((color) => treeLines(wide(8), { ...SIZE, color }));
  expect(plain?.join('')).not.toContain('\u001B');
  expect(painted?.join('')).toContain('\u001B[31m');
  expect(painted?.map((line) => stripVTControlCharacters(line).trimEnd())).toEqual(plain);
});

it('prints nothing that a model could move the cursor with', () => {
  const tree = treeOf(
    created('r', 0),
    began('r'),
    wrote('r', '\u001B[2J\u0007gone'),
    ...child('x', '\u001B[1Ax'),
  );
  expect(treeLines(tree, SIZE).join('')).not.toMatch(/\p{Cc}/u);
});
