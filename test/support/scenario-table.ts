/** The table of test/README.md: one row for each scenario, with the tests that show it. */
import type { SourceFile } from './imports.ts';

interface Row {
  readonly id: string;
  readonly shownBy: string;
}

function span(letter: string, last: number, digits: number): readonly string[] {
  return Array.from({ length: last }, (_, i) => `${letter}${String(i + 1).padStart(digits, '0')}`);
}
const ALL = [...span('S', 261, 3), ...span('R', 46, 2), ...span('X', 26, 2)];

function rowsOf(page: string): readonly Row[] {
  return [...page.matchAll(/^\| ([SRX]\d{2,3}) \| (.*) \|$/gm)].map(
    ([, id = '', shownBy = '']) => ({
      id,
      shownBy,
    }),
  );
}

/**
 * What is wrong with the table: ids out of order, missing or twice, and tests that do not exist.
 * `tests` are the files below test/, by their path from the repository's root.
 */
export function checkTable(page: string, tests: readonly SourceFile[]): readonly string[] {
  const rows = rowsOf(page);
  const ids = rows.map(({ id }) => id);
  const order = ALL.filter((id, index) => ids[index] !== id).slice(0, 1);
  const titles = new Map(tests.map((file) => [file.path.replace(/^test\//, ''), file.tests]));
  return [
    ...order.map((id) => `${id} is not where it belongs`),
    ...(ids.length > ALL.length ? ['there are more rows than scenarios'] : []),
    ...rows.flatMap(({ id, shownBy }) => {
      if (/^(?:issue \d+|out of scope)$/.test(shownBy)) return [];
      return shownBy.split('<br>').flatMap((place) => {
        const [, file, title] = /^`([^`›]+) › ([^`]+)`$/.exec(place) ?? [];
        if (file === undefined || title === undefined) return [`${id} names no test: ${place}`];
        const found = titles.get(file)?.includes(title.replaceAll('\\|', '|')) ?? false;
        return found ? [] : [`${id} names a test that does not exist: ${file} › ${title}`];
      });
    }),
  ];
}
