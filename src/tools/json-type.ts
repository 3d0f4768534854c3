/** True when `value` is a JSON value of this scalar type of JSON Schema. */
export function isScalarOf(type: string, value: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'string':
    case 'boolean':
      return typeof value === type;
    case 'number':
    case 'integer':
      return (
        typeof value === 'number' &&
        Number.isFinite(value) &&
        !Object.is(value, -0) &&
        (type === 'number' || Number.isInteger(value))
      );
    default:
      return false;
  }
}

/** What a value is, in the words of its reader. */
export function nameOf(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'undefined';
  if (Array.isArray(value)) return 'an array';
  if (Object.is(value, -0)) return 'negative zero';
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return withArticle(typeof value);
}

/** The name of a type as a sentence needs it. */
export function withArticle(type: string): string {
  if (type === 'null') return type;
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}
