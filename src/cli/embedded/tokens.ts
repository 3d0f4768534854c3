/** One token of TypeScript or JavaScript text. */
export interface Token {
  readonly kind: 'name' | 'number' | 'string' | 'template' | 'regex' | 'punctuator';
  /** A string's text is what stands between its quotes, escapes as written. */
  readonly text: string;
  /** A line break stands before it. */
  readonly afterNewline: boolean;
}

const SPACE = /[\s\uFEFF]+/uy;
const LINE_COMMENT = /\/\/[^\n\r\u2028\u2029]*/uy;
const BLOCK_COMMENT = /\/\*[^]*?(?:\*\/|$)/uy;
/** Nearly all names. One that goes on with another character is left to the rule for all. */
const ASCII_NAME = /[A-Za-z$_][A-Za-z0-9$_]*(?![A-Za-z0-9$_\\]|[^\0-\x7F])/y;
const MAY_BEGIN_NAME = /[A-Za-z$_]|[^\0-\x7F]/;
const NAME = /[\p{ID_Start}$_][\p{ID_Continue}$\u200C\u200D]*/uy;
const NUMBER = /\.?\d(?:[eE][+-]|[\p{ID_Continue}.])*/uy;
const STRING = /'(?:[^'\\\n\r]|\\[^])*'?|"(?:[^"\\\n\r]|\\[^])*"?/uy;
const REGEX =
  /\/(?![*/])(?:[^\\/[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*\])+\/[\p{ID_Continue}$]*/uy;
const PUNCTUATOR = /\.\.\.|=>|===?|!==?|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|[^]/uy;

/** After one of these words a slash begins a regular expression. */
const BEFORE_EXPRESSION = new Set(
  'await case default delete do else extends in instanceof new of return throw typeof void yield'.split(
    ' ',
  ),
);
const ENDS_EXPRESSION = new Set([')', ']', '}', '++', '--']);

/**
 * Cut source text into tokens. Comments are left out; strings, templates and regular
 * expressions are one token each, so that nothing inside them is taken for code. Never throws:
 * what is not closed ends with its line or with the text.
 */
export function tokenize(source: string): readonly Token[] {
  const start = source.startsWith('#!') ? endOfLine(source, 0) : 0;
  const tokens: Token[] = [];
  scan(source, start, tokens, false);
  return tokens;
}

/** Collect tokens up to the end, or to the brace that closes a template's `${`. */
function scan(source: string, start: number, tokens: Token[], insideTemplate: boolean): number {
  let position = start;
  let afterNewline = true;
  let braces = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = position;
    return pattern.exec(source)?.[0];
  };
  const push = (kind: Token['kind'], raw: string, text = raw): void => {
    tokens.push({ kind, text, afterNewline });
    position += raw.length;
    afterNewline = false;
  };
  while (position < source.length) {
    const character = source.charAt(position);
    const skipped =
      character === '/' ? (match(LINE_COMMENT) ?? match(BLOCK_COMMENT)) : match(SPACE);
    if (skipped !== undefined) {
      afterNewline ||= /[\n\r\u2028\u2029]/u.test(skipped);
      position += skipped.length;
      continue;
    }
    const name = MAY_BEGIN_NAME.test(character) ? (match(ASCII_NAME) ?? match(NAME)) : undefined;
    if (name !== undefined) {
      push('name', name);
      continue;
    }
    if (character === '"' || character === "'") {
      const string = match(STRING) ?? character;
      push('string', string, string.slice(1, string.at(-1) === string[0] ? -1 : undefined));
      continue;
    }
    if (character === '`') {
      const end = endOfTemplate(source, position + 1);
      push('template', source.slice(position, end));
      continue;
    }
    const regex = character === '/' && mayBeginExpression(tokens.at(-1)) ? match(REGEX) : undefined;
    if (regex !== undefined) {
      push('regex', regex);
      continue;
    }
    const number = match(NUMBER);
    if (number !== undefined) {
      push('number', number);
      continue;
    }
    const punctuator = match(PUNCTUATOR) ?? source.slice(position, position + 1);
    if (insideTemplate && punctuator === '}' && braces === 0) return position;
    if (punctuator === '{') braces += 1;
    if (punctuator === '}') braces -= 1;
    push('punctuator', punctuator);
  }
  return position;
}

/** The index behind the backtick that closes the template whose text begins at `start`. */
function endOfTemplate(source: string, start: number): number {
  let position = start;
  while (position < source.length) {
    const character = source[position];
    if (character === '\\') {
      position += 2;
    } else if (character === '`') {
      return position + 1;
    } else if (character === '$' && source[position + 1] === '{') {
      position = scan(source, position + 2, [], true) + 1;
    } else {
      position += 1;
    }
  }
  return source.length;
}

function mayBeginExpression(previous: Token | undefined): boolean {
  if (previous === undefined) return true;
  if (previous.kind === 'name') return BEFORE_EXPRESSION.has(previous.text);
  return previous.kind === 'punctuator' && !ENDS_EXPRESSION.has(previous.text);
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf('\n', from);
  return end === -1 ? source.length : end;
}
