import { tokenize, type Token } from './tokens.ts';

/**
 * The names that a TypeScript or JavaScript module exports, in the order of the text, each once.
 * `export * from 'x'` is listed as `* from x`, since its names are another file's.
 */
export function exportedNames(source: string): readonly string[] {
  const tokens = tokenize(source);
  const names = new Set<string>();
  let depth = 0;
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index];
    if (token?.kind === 'punctuator') {
      if (OPENERS.has(token.text)) depth += 1;
      if (CLOSERS.has(token.text)) depth = Math.max(0, depth - 1);
    } else if (depth === 0 && token?.kind === 'name' && token.text === 'export') {
      if (tokens[index - 1]?.text === '.') continue;
      for (const name of new ExportStatement(tokens, index + 1).names()) names.add(name);
    }
  }
  return [...names];
}

const OPENERS = new Set(['(', '[', '{']);
const CLOSERS = new Set([')', ']', '}']);
const MODIFIERS = new Set(['abstract', 'async', 'declare']);
const NAMED = new Set(['class', 'interface', 'enum', 'namespace', 'module']);
const VARIABLES = new Set(['const', 'let', 'var', 'using']);
/** Words that carry an expression or a type over a line break. */
const CONTINUES = new Set('as extends in instanceof is of satisfies'.split(' '));
const OPERATORS = new Set(
  'as await delete extends in infer instanceof is keyof new of readonly satisfies typeof unique void yield'.split(
    ' ',
  ),
);
const MAY_END_LINE = new Set(') ] } > ! ++ --'.split(' '));
const BEGINS_STATEMENT = new Set('{ @ ! ~ # ++ --'.split(' '));
const NEVER_IN_TYPE_ARGUMENTS = new Set(
  '; && || ?? == === != !== ! ++ -- / * % ^ ~ @ ) ] }'.split(' '),
);
const AFTER_TYPE_ARGUMENTS = new Set('( ) [ ] { } , ; = : . ? > | & =>'.split(' '));

/** Reads one statement that begins behind the word `export`. */
class ExportStatement {
  readonly #tokens: readonly Token[];
  #index: number;

  constructor(tokens: readonly Token[], index: number) {
    this.#tokens = tokens;
    this.#index = index;
  }

  names(): readonly string[] {
    this.#skipDecorators();
    while (MODIFIERS.has(this.#text()) && this.#at(1)?.kind === 'name') this.#index += 1;
    const word = this.#text();
    const next = this.#at(1);
    if (word === 'default') return ['default'];
    if (word === '=') return ['='];
    if (word === '*') return this.#star();
    if (word === '{') return this.#list();
    if (word === 'type') return this.#type();
    if (word === 'import') return this.#imported();
    if (word === 'function') return this.#nameAt(next?.text === '*' ? 2 : 1);
    if (word === 'const' && next?.text === 'enum') return this.#nameAt(2);
    if (NAMED.has(word)) return this.#nameAt(1);
    if (VARIABLES.has(word)) return this.#variables();
    return [];
  }

  #type(): readonly string[] {
    this.#index += 1;
    if (this.#text() === '{') return this.#list();
    if (this.#text() === '*') return this.#star();
    return this.#nameAt(0);
  }

  /** `* from 'x'` and `* as name from 'x'`. */
  #star(): readonly string[] {
    const name = this.#at(2);
    if (this.#at(1)?.text === 'as' && name !== undefined) return [name.text];
    return [`* from ${name?.text ?? '?'}`];
  }

  /** `import name = other.thing`. */
  #imported(): readonly string[] {
    return this.#nameAt(this.#at(1)?.text === 'type' && this.#at(2)?.text !== '=' ? 2 : 1);
  }

  /** `{ a, b as c, type d }`: the last word of each entry is the exported name. */
  #list(): readonly string[] {
    const names: string[] = [];
    let last: Token | undefined;
    for (this.#index += 1; this.#index < this.#tokens.length; this.#index += 1) {
      const token = this.#at(0);
      const ends = token?.kind === 'punctuator' && (token.text === ',' || token.text === '}');
      if (!ends) {
        last = token;
        continue;
      }
      if (last !== undefined) names.push(last.text);
      last = undefined;
      if (token.text === '}') break;
    }
    return names;
  }

  #variables(): readonly string[] {
    const names: string[] = [];
    do {
      this.#index += 1;
      this.#target(names);
      this.#skipExpression(true);
    } while (this.#text() === ',');
    return names;
  }

  /** A name, or an object or array pattern with the names that it binds. */
  #target(names: string[]): void {
    const text = this.#text();
    if (text === '[' || text === '{') {
      this.#pattern(text === '{', names);
    } else if (this.#at(0)?.kind === 'name') {
      names.push(text);
      this.#index += 1;
    }
  }

  #pattern(isObject: boolean, names: string[]): void {
    const closer = isObject ? '}' : ']';
    this.#index += 1;
    while (this.#index < this.#tokens.length && this.#text() !== closer) {
      const before = this.#index;
      if (this.#text() === '...') this.#index += 1;
      if (isObject && this.#hasKey()) this.#index += 1;
      this.#target(names);
      this.#skipExpression(false);
      if (this.#text() === ',') this.#index += 1;
      if (this.#index === before) this.#index += 1;
    }
    this.#index += 1;
  }

  /** Moves to the colon behind a property's key, if the property has one. */
  #hasKey(): boolean {
    const start = this.#index;
    if (this.#text() === '[') this.#skipBrackets();
    else this.#index += 1;
    if (this.#text() === ':') return true;
    this.#index = start;
    return false;
  }

  /** Moves to the comma, semicolon, bracket or line that ends what stands here. */
  #skipExpression(mayEndWithLine: boolean): void {
    while (this.#index < this.#tokens.length) {
      const token = this.#at(0);
      const text = token?.kind === 'punctuator' ? token.text : '';
      if (text === ',' || text === ';' || CLOSERS.has(text)) return;
      if (mayEndWithLine && this.#lineEnds()) return;
      if (OPENERS.has(text)) this.#skipBrackets();
      else if (text !== '<' || !this.#skipTypeArguments()) this.#index += 1;
    }
  }

  /** True when the line break before this token ends the statement. */
  #lineEnds(): boolean {
    const token = this.#at(0);
    const previous = this.#at(-1);
    if (token === undefined || previous === undefined || !token.afterNewline) return false;
    const mayEnd =
      previous.kind === 'name'
        ? !OPERATORS.has(previous.text)
        : previous.kind !== 'punctuator' || MAY_END_LINE.has(previous.text);
    if (!mayEnd) return false;
    if (token.kind === 'name') return !CONTINUES.has(token.text);
    if (token.kind !== 'punctuator') return token.kind !== 'template';
    return BEGINS_STATEMENT.has(token.text);
  }

  #skipBrackets(): void {
    let depth = 0;
    do {
      const token = this.#at(0);
      if (token?.kind === 'punctuator') {
        if (OPENERS.has(token.text)) depth += 1;
        if (CLOSERS.has(token.text)) depth -= 1;
      }
      this.#index += 1;
    } while (depth > 0 && this.#index < this.#tokens.length);
  }

  /** Skips `<A, B>` when that is what stands here; a comparison is left where it is. */
  #skipTypeArguments(): boolean {
    const start = this.#index;
    let depth = 0;
    while (this.#index < this.#tokens.length) {
      const token = this.#at(0);
      const text = token?.kind === 'punctuator' ? token.text : '';
      if (NEVER_IN_TYPE_ARGUMENTS.has(text)) break;
      if (OPENERS.has(text)) {
        this.#skipBrackets();
        continue;
      }
      if (text === '<') depth += 1;
      if (text === '>') depth -= 1;
      this.#index += 1;
      if (depth === 0) {
        const next = this.#at(0);
        const fits =
          next === undefined || next.afterNewline || next.kind === 'template'
            ? true
            : next.kind === 'punctuator'
              ? AFTER_TYPE_ARGUMENTS.has(next.text)
              : CONTINUES.has(next.text);
        if (fits) return true;
        break;
      }
    }
    this.#index = start;
    return false;
  }

  #skipDecorators(): void {
    while (this.#text() === '@') {
      this.#index += 2;
      while (this.#text() === '.') this.#index += 2;
      if (this.#text() === '(') this.#skipBrackets();
    }
  }

  #nameAt(offset: number): readonly string[] {
    const token = this.#at(offset);
    return token?.kind === 'name' ? [token.text] : [];
  }

  #at(offset: number): Token | undefined {
    return this.#tokens[this.#index + offset];
  }

  /** The text here; a string's text is never taken for a word or a sign. */
  #text(): string {
    const token = this.#at(0);
    return token === undefined || token.kind === 'string' ? '' : token.text;
  }
}
