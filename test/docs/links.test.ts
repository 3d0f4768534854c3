/** Pages link to what is there, and every page is found from the README. */
import { existsSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, it } from 'vitest';
import { root } from '../support/imports.ts';
import { anchorsOf, pages, readPage } from '../support/pages.ts';

interface Link {
  readonly from: string;
  readonly text: string;
  readonly to: string;
  readonly id: string | undefined;
}

const links: readonly Link[] = pages.flatMap((from) =>
  [...readPage(from).matchAll(/\]\((?!https?:)([\w./-]*)(?:#([\w-]+))?\)/g)].map(
    ([text, to = '', id]) => ({
      from,
      text: text.slice(1),
      to: to === '' ? from : posix.join(posix.dirname(from), to),
      id,
    }),
  ),
);
const anchors = new Map(pages.map((page) => [page, anchorsOf(readPage(page))]));

it('links to pages and headings that exist', () => {
  expect(links.length).toBeGreaterThan(100);
  const broken = links
    .filter(({ to, id }) => {
      if (!existsSync(posix.join(root, to))) return true;
      return id !== undefined && anchors.get(to)?.has(id) !== true;
    })
    .map(({ from, text }) => `${from} links to ${text}`);
  expect(broken).toEqual([]);
});

it('leads from the README to every page', () => {
  const found = new Set(['README.md']);
  for (const page of found) for (const { from, to } of links) if (from === page) found.add(to);
  expect(pages.filter((page) => !found.has(page))).toEqual([]);
});
