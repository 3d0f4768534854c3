import { ArgumentError } from '../../protocol/errors.ts';

/** What an option has to be, as far as can be seen at once. */
export type OptionKind = 'text' | 'function' | 'signal' | 'object' | 'list' | 'any';

const IS: Readonly<Record<OptionKind, (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  function: (value) => typeof value === 'function',
  signal: (value) =>
    typeof (value as Partial<AbortSignal> | null)?.addEventListener === 'function' &&
    typeof (value as Partial<AbortSignal>).removeEventListener === 'function' &&
    typeof (value as Partial<AbortSignal>).throwIfAborted === 'function' &&
    typeof (value as Partial<AbortSignal>).aborted === 'boolean',
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  list: Array.isArray,
  any: () => true,
};

const WORDS: Readonly<Record<OptionKind, string>> = {
  text: 'a text',
  function: 'a function',
  signal: 'an AbortSignal',
  object: 'an object',
  list: 'a list',
  any: 'anything',
};

/**
 * Options that can be looked at: an object, of keys that exist, with values of their kind; an
 * absent or undefined one passes. A name that nobody knows is a name mistyped; a signal in the
 * place of the options is told its own place.
 * @throws {ArgumentError} naming the option, and what there is or what it takes
 */
export function assertOptions(
  what: string,
  given: unknown,
  kinds: Readonly<Record<string, OptionKind>>,
): void {
  const subject = subjectOf(what);
  // It has no keys of its own: it would pass, and abort nothing.
  if (isOf('signal', given)) {
    const place = Object.values(kinds).includes('signal') ? 'as `{ signal }`' : 'after them';
    throw new ArgumentError(`${subject} takes an object of options; a signal is given ${place}.`);
  }
  for (const [key, value] of entriesOf(subject, given)) {
    const kind = Object.hasOwn(kinds, key) ? kinds[key] : undefined;
    if (kind === undefined) {
      const known = Object.keys(kinds).join(', ');
      throw new ArgumentError(`${subject} has no "${key}"; it has: ${known}.`);
    }
    if (value !== undefined && !isOf(kind, value)) {
      throw new ArgumentError(`"${key}" of ${what} takes ${WORDS[kind]}.`);
    }
  }
}

/** A signal that is an argument of its own. @throws {ArgumentError} */
export function assertSignal(what: string, signal: unknown): void {
  if (signal === undefined || isOf('signal', signal)) return;
  throw new ArgumentError(`The signal of ${what} must be an AbortSignal.`);
}

/**
 * Options of a caller, each read once: what was checked is what counts.
 * @throws {ArgumentError} as `assertOptions`, also for those that cannot be read
 */
export function readOptions<T extends object>(
  what: string,
  given: T | undefined,
  kinds: Readonly<Record<string, OptionKind>>,
): T {
  const copy = Object.fromEntries(entriesOf(subjectOf(what), given)) as T;
  assertOptions(what, copy, kinds);
  return copy;
}

/**
 * A list of a caller, its items read once each.
 * @throws {ArgumentError} for what is none, or cannot be read
 */
export function readList(what: string, given: unknown): unknown[] {
  if (!isOf('list', given)) throw new ArgumentError(`"${what}" takes a list.`);
  try {
    return Array.from(given as ArrayLike<unknown>);
  } catch (error) {
    throw new ArgumentError(`"${what}" takes a list that can be read.`, { cause: error });
  }
}

const subjectOf = (what: string): string => `${what.charAt(0).toUpperCase()}${what.slice(1)}`;

function entriesOf(subject: string, given: unknown): [string, unknown][] {
  if (!isOf('object', given)) throw new ArgumentError(`${subject} takes an object of options.`);
  try {
    return Object.entries(given as object);
  } catch (error) {
    throw new ArgumentError(`${subject} has options that cannot be read.`, { cause: error });
  }
}

function isOf(kind: OptionKind, value: unknown): boolean {
  try {
    return IS[kind](value);
  } catch {
    // An accessor or a trap that throws: whatever it is, it is none.
    return false;
  }
}
