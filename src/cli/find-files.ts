/** From the patterns of `--files` to the files that the agents may list and read. */
import { stat } from 'node:fs/promises';
import { posix, resolve, sep } from 'node:path';
import { escapePath, glob, isDynamicPattern } from 'tinyglobby';
import { assertFile, assertReadable } from './checks.ts';
import { UsageError } from './exit-codes.ts';

const MAX_FILES = 5000;

/** A pattern in two parts: the folder it starts from, and what is to match below it. */
interface Rooted {
  /** Absolute, with slashes. */
  readonly base: string;
  readonly rest: string;
}

/** What to leave out: below its base, or wherever a search may look. */
interface Unwanted extends Rooted {
  readonly isAnywhere: boolean;
}

/**
 * Paths relative to `cwd`, sorted. Without a pattern that names it, nothing below a folder
 * `node_modules` is found, wherever the pattern starts.
 *
 * @throws {UsageError} naming what to change.
 */
export async function findFiles(
  patterns: readonly string[],
  cwd: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const wanted: Rooted[] = [];
  const unwanted: Unwanted[] = [];
  for (const given of patterns) {
    if (given.trim() === '' || given === '!') {
      throw new UsageError("A pattern of --files must not be empty: give one such as '**/*.md'.");
    }
    const { pattern, isNegative } = await literalOr(given, cwd);
    const rooted = rootOf(pattern, cwd);
    if (!isNegative) wanted.push(rooted);
    else unwanted.push({ ...rooted, isAnywhere: pattern.startsWith('**/') });
  }
  const found = new Set<string>();
  for (const rooted of wanted) {
    for (const path of await search(rooted, unwanted, signal)) {
      found.add(posix.relative(toSlashes(cwd), path));
    }
  }
  if (found.size === 0) {
    throw new UsageError(`No file matches --files ${patterns.join(' ')} in ${cwd}.`);
  }
  if (found.size > MAX_FILES) {
    throw new UsageError(
      `--files matches ${found.size} files; at most ${MAX_FILES} can be given to one run.`,
    );
  }
  for (const path of found) await assertReadable(resolve(cwd, path), path);
  return [...found].sort();
}

/** A file of that very name is meant, whatever its name would match as a pattern. */
async function literalOr(
  given: string,
  cwd: string,
): Promise<{ readonly pattern: string; readonly isNegative: boolean }> {
  if (await isFile(given, cwd)) {
    return { pattern: escapePath(toSlashes(given)), isNegative: false };
  }
  const isNegative = /^!(?!\()/u.test(given);
  const path = isNegative ? given.slice(1) : given;
  if (isNegative && (await isFile(path, cwd))) {
    return { pattern: escapePath(toSlashes(path)), isNegative };
  }
  if (!isNegative && !isDynamicPattern(path)) await assertFile(resolve(cwd, path), path);
  return { pattern: toSlashes(path), isNegative };
}

const isFile = (path: string, cwd: string): Promise<boolean> =>
  stat(resolve(cwd, path)).then(
    (status) => status.isFile(),
    () => false,
  );

/** Whole leading names belong to the base; so no `..` is left to be matched. */
function rootOf(pattern: string, cwd: string): Rooted {
  const parts = pattern.replace(/\/+$/u, '').split('/');
  const firstDynamic = parts.findIndex((part) => /[*?[\]{}()|\\]/u.test(part));
  const count = firstDynamic === -1 ? parts.length - 1 : Math.min(firstDynamic, parts.length - 1);
  const folder = count === 0 ? '.' : `${parts.slice(0, count).join('/')}/`;
  return { base: toSlashes(resolve(cwd, folder)), rest: parts.slice(count).join('/') };
}

/** Absolute paths of the files that match one pattern. */
async function search(
  wanted: Rooted,
  unwanted: readonly Unwanted[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const top = [wanted, ...unwanted].map(({ base }) => base).reduce(commonFolder);
  const below = ({ base, rest }: Rooted): string => {
    const path = posix.relative(top, base);
    return path === '' ? rest : `${escapePath(path)}/${rest}`;
  };
  const ignore = unwanted.flatMap((each) => {
    const pattern = each.isAnywhere ? each.rest : below(each);
    // What lies below a folder that is left out is left out too.
    return [pattern, `${pattern}/**`];
  });
  if (!NAMES_MODULES.test(wanted.rest)) {
    ignore.push(below({ base: wanted.base, rest: '**/node_modules/**' }));
  }
  const options = { cwd: top, ignore, expandDirectories: false, signal };
  const found = await glob([below(wanted)], options);
  signal.throwIfAborted();
  return found.map((path) => posix.join(top, path));
}

const NAMES_MODULES = /(?<![\w.-])node_modules(?![\w.-])/u;

function commonFolder(one: string, other: string): string {
  let folder = one;
  while (folder !== other && !other.startsWith(folder.endsWith('/') ? folder : `${folder}/`)) {
    folder = posix.dirname(folder);
  }
  return folder;
}

const toSlashes = (path: string): string => (sep === '\\' ? path.replaceAll('\\', '/') : path);
