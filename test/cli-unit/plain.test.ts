import { expect, it } from 'vitest';
import { PlainLines } from '../../src/cli/plain.ts';
import type { RuntimeEvent } from '../../src/index.ts';
import { TreeModel } from '../../src/cli/tree-model.ts';
import { began, created, ended, logged, runEnded, used } from './tree-events.ts';

function linesOf(...events: readonly RuntimeEvent[]): readonly string[] {
  const lines: string[] = [];
  const tree = new TreeModel();
  const plain = new PlainLines(tree, (line) => void lines.push(line));
  for (const event of events) {
    tree.apply(event);
    plain.tell(event);
  }
  return lines;
}

it('tells of the tokens that a model told of, and of none otherwise', () => {
  const completed = ended('r', { kind: 'completed' }, 500);
  expect(linesOf(created('r', 0), began('r'), used('r', 5, 7), completed)).toEqual([
    '[  0.5 s] root: completed (0.5 s, 12 tokens)',
  ]);
  const silent = logged('r', 'assistant/message', {});
  expect(linesOf(created('r', 0), began('r'), silent, completed)).toEqual([
    '[  0.5 s] root: completed (0.5 s)',
  ]);
});

it('names a child that was stopped before its turn', () => {
  expect(
    linesOf(created('r', 0), created('c', 5, 'r', 'a.md'), runEnded('c', 'aborted', 105)),
  ).toEqual(['[  0.1 s] a.md: stopped (0.1 s): ABORTED: It was stopped before it was done.']);
});
