/** The pages a user reads: the README, and all below docs/. */
import { readFileSync, readdirSync } from 'node:fs';
import { posix } from 'node:path';
import { root } from './imports.ts';

export const readPage = (page: string): string => readFileSync(posix.join(root, page), 'utf8');

/** From the repository's root. Those below docs/api are generated. */
export const pages: readonly string[] = [
  'README.md',
  ...readdirSync(posix.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => posix.join('docs', name))
    .sort(),
];

/** What a link to a part of this page can name, as GitHub has it. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const ids = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id);
  const outsideOfCode = text.replaceAll(/^```[\s\S]*?^```$/gm, '');
  for (const [, heading = ''] of outsideOfCode.matchAll(/^#+ (.*)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    ids.push(count === 0 ? slug : `${slug}-${count}`);
  }
  return new Set(ids);
}
