/** From what a person types of an id to the id, and from ids to what is enough to type. */
import { UsageError } from './exit-codes.ts';

/** Candidates that a message names. */
const NAMED = 10;
const SHORTEST = 8;

/** @throws {UsageError} when no session is meant, or several can be. */
export function findId(ids: readonly string[], part: string): string {
  if (ids.includes(part)) return part;
  const found = ids.filter((id) => id.startsWith(part) || id.endsWith(part));
  const [only] = found;
  if (part === '' || only === undefined) {
    throw new UsageError(`There is no session "${part}". "subagents ls" lists those there are.`);
  }
  if (found.length === 1) return only;
  const more = found.length > NAMED ? `, and ${found.length - NAMED} more` : '';
  throw new UsageError(
    `"${part}" can be ${found.length} sessions: ${found.slice(0, NAMED).join(', ')}${more}.`,
  );
}

/** The end of each id, as long as it takes to tell all of them apart. */
export function shortIds(ids: readonly string[]): ReadonlyMap<string, string> {
  for (let length = SHORTEST; ; length += 1) {
    const short = new Map(ids.map((id) => [id, id.slice(-length)]));
    const isEnough = ids.every((id) => id.length <= length);
    if (isEnough || new Set(short.values()).size === new Set(ids).size) return short;
  }
}
