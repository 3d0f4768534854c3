/** The page on isolation names every kind of fault that is played, under the class it is played as. */
import { expect, it } from 'vitest';
import { KINDS } from '../faults/kinds.ts';
import { readPage } from '../support/pages.ts';

const HEADINGS = {
  contained: 'Contained',
  degrades: 'Degrades the process for a while',
  'not contained': 'Not contained',
} as const;

it.each(Object.entries(HEADINGS))('names each kind that is %s, and no other', (fault, heading) => {
  const section =
    readPage('docs/isolation.md').split(`### ${heading}\n`)[1]?.split(/^##/m)[0] ?? '';
  const lastCells = [...section.matchAll(/^\|.*\| ([^|]*) \|$/gm)].map(([, cell = '']) => cell);
  const named = lastCells.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name),
  );
  const played = KINDS.filter((kind) => kind.fault === fault).map(({ name }) => name);
  expect(named.toSorted()).toEqual(played.toSorted());
});

it('names no command that there is not', () => {
  const { scripts } = JSON.parse(readPage('package.json')) as { scripts: Record<string, string> };
  const named = [...readPage('docs/isolation.md').matchAll(/npm run ([\w:-]+)/g)];
  expect(named.length).toBeGreaterThan(8);
  expect(named.map(([, name = '']) => name).filter((name) => !(name in scripts))).toEqual([]);
});
