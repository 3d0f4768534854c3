/** How large the value of a JSON text may be. */
export interface JsonBounds {
  /** Nesting of lists and objects. */
  readonly depth: number;
  /** Values in all, that of the text itself included. */
  readonly values: number;
}

/**
 * Why the value of this text would be beyond the bounds, before anything of it is built: a text of
 * brackets takes thirty times as much as a value. `undefined` when it is not, and for what is no
 * JSON: a parser says that better. Counts no value too few, and an empty list or object twice.
 */
export function beyondBounds(text: string, bounds: JsonBounds): 'depth' | 'values' | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfText(text, at);
        break;
      case LIST:
      case OBJECT:
        if (++depth > bounds.depth) return 'depth';
        values++;
        break;
      case LIST_END:
      case OBJECT_END:
        depth--;
        break;
      case COMMA:
        values++;
        break;
    }
    if (values > bounds.values) return 'values';
  }
  return undefined;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const LIST = 0x5b;
const BACKSLASH = 0x5c;
const LIST_END = 0x5d;
const OBJECT = 0x7b;
const OBJECT_END = 0x7d;

/** Where the quote is that ends what begins with that at `start`. */
function endOfText(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}
