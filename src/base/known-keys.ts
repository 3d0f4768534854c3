import { ArgumentError } from '../../protocol/errors.ts';

/**
 * A name that nobody knows is a name mistyped: refuse it instead of doing without.
 * @throws {ArgumentError} naming the unknown key and the known ones
 */
export function assertKnownKeys(what: string, given: object, known: readonly string[]): void {
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue;
    throw new ArgumentError(`${what} has no "${key}"; it has: ${known.join(', ')}.`);
  }
}
