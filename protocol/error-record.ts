/** How an error crosses threads and is kept in a log: data, bounded, without a class. */
export interface ErrorRecord {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly stack?: string;
  readonly cause?: ErrorRecord;
}

/** The answer to a call across the wall. Nothing is thrown across it. */
export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: ErrorRecord };

export const ERROR_MESSAGE_CHARS = 4_096;
export const ERROR_STACK_CHARS = 8_192;
export const ERROR_CAUSES = 3;

/**
 * Turn anything that was thrown into a record. Never throws, whatever it is given: a getter
 * that throws, a proxy, a self-referring cause, `null`.
 */
export function toErrorRecord(thrown: unknown, fallbackCode = 'UNKNOWN', depth = 0): ErrorRecord {
  const read = (key: string): unknown => {
    try {
      return (thrown as Record<string, unknown> | null | undefined)?.[key];
    } catch {
      // A hostile accessor. What it hides is not needed to report the failure.
      return undefined;
    }
  };
  const isObject = (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function';
  const text = (value: unknown, limit: number): string | undefined =>
    typeof value === 'string' && value !== '' ? value.slice(0, limit) : undefined;
  const stack = isObject ? text(read('stack'), ERROR_STACK_CHARS) : undefined;
  const cause = isObject && depth < ERROR_CAUSES ? read('cause') : undefined;
  return {
    name: (isObject && text(read('name'), 128)) || 'Error',
    code: (isObject && text(read('code'), 128)) || fallbackCode,
    message: (isObject ? text(read('message'), ERROR_MESSAGE_CHARS) : undefined) ?? printed(thrown),
    ...(stack === undefined ? {} : { stack }),
    ...(cause === undefined || cause === thrown
      ? {}
      : { cause: toErrorRecord(cause, fallbackCode, depth + 1) }),
  };
}

/** `instanceof` for a value of anybody's: one that does not let itself be asked is none. */
export function isInstance<T>(
  value: unknown,
  kind: abstract new (...given: never[]) => T,
): value is T {
  try {
    return value instanceof kind;
  } catch {
    // A proxy that is revoked, or whose trap throws.
    return false;
  }
}

const SHORT_CHARS = 1_024;

/** Like `toErrorRecord`, without causes and so short that its UTF-8 has at most 8 KiB. */
export function toShortErrorRecord(thrown: unknown): ErrorRecord {
  const { name, code, message, stack } = toErrorRecord(thrown);
  return {
    name,
    code,
    message: message.slice(0, SHORT_CHARS),
    ...(stack === undefined ? {} : { stack: stack.slice(0, SHORT_CHARS) }),
  };
}

/** A short text for any value, even one whose own string conversion throws. */
export function printed(value: unknown): string {
  try {
    return String(value).slice(0, ERROR_MESSAGE_CHARS);
  } catch {
    // Its own conversion throws, as that of a null-prototype object does.
    return `[unprintable ${typeof value}]`;
  }
}

export const succeed = <T>(value: T): Outcome<T> => ({ ok: true, value });
export const fail = (thrown: unknown): Outcome<never> => ({
  ok: false,
  error: toErrorRecord(thrown),
});
