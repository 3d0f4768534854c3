/** One agent's definition from the text of its file: YAML between two lines `---`, then Markdown. */
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Node, Pair } from 'yaml';
import { UsageError } from './exit-codes.ts';

/** An agent that others can delegate to by its name, or that a run can begin with. */
export interface AgentDefinition {
  readonly name: string;
  /** What models are told of it. */
  readonly description: string;
  /** Absent: that of whoever delegates to it. */
  readonly model?: string;
  /** Absent: all that there are. */
  readonly tools?: readonly string[];
  readonly persona?: string;
  readonly limits: { readonly turnMs?: number; readonly memoryMb?: number };
  /** The file, as it was named. */
  readonly path: string;
}

/** A name is a tool's name for models. */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/u;
const KEYS = ['name', 'description', 'model', 'tools', 'persona', 'limits'] as const;
const LIMITS = ['turnMs', 'memoryMb'] as const;
/** Stands for the model of whoever delegates. */
const INHERIT = 'inherit';

/** @throws {UsageError} naming the file and the line. */
export function parseDefinition(text: string, path: string): AgentDefinition {
  const lines = text.replace(/^\uFEFF/u, '').split(/\r?\n/u);
  const end = lines.indexOf('---', 1);
  if (lines[0]?.trimEnd() !== '---') {
    throw new UsageError(`${path}:1: It begins with no line "---": an agent's definition does.`);
  }
  if (end === -1) throw new UsageError(`${path}:1: No second line "---" ends what begins here.`);
  const counter = new LineCounter();
  const yaml = lines.slice(1, end).join('\n');
  const document = parseDocument(yaml, { lineCounter: counter, prettyErrors: false });
  // The first line of the YAML is the second of the file.
  const at = (offset: number): string => `${path}:${counter.linePos(offset).line + 1}`;
  const [wrong] = [...document.errors, ...document.warnings];
  if (wrong !== undefined) {
    throw new UsageError(`${at(wrong.pos[0])}: ${wrong.message.replaceAll('\n', ' ')}.`);
  }
  const { contents } = document;
  if (!isMap(contents)) {
    throw new UsageError(`${path}:2: It takes keys with values, such as "name: reviewer".`);
  }
  const fields = new Fields(contents.items, KEYS, at);
  const name = fields.text('name') ?? fail(`${path}:1: It has no "name".`);
  if (!NAME.test(name)) {
    throw fields.wrong('name', 'takes letters, digits, "_" and "-", at most 64, no digit first');
  }
  const description = fields.text('description') ?? fail(`${path}:1: It has no "description".`);
  const model = fields.text('model');
  const tools = fields.names('tools');
  const body = lines
    .slice(end + 1)
    .join('\n')
    .trim();
  const persona = fields.text('persona');
  if (persona !== undefined && body !== '') {
    throw fields.wrong('persona', 'is given, and so is a text below the second "---": leave one');
  }
  const limits = fields.numbers('limits', LIMITS);
  if (limits.memoryMb !== undefined && (limits.memoryMb < 32 || limits.memoryMb > 4096)) {
    throw fields.wrong('limits', 'takes a "memoryMb" of 32 to 4096');
  }
  const spoken = persona ?? body;
  return {
    name,
    description,
    path,
    limits,
    ...(model === undefined || model === INHERIT ? {} : { model }),
    ...(tools === undefined ? {} : { tools }),
    ...(spoken === '' ? {} : { persona: spoken }),
  };
}

function fail(message: string): never {
  throw new UsageError(message);
}

/** What a mapping says, with the places to complain about. */
class Fields {
  readonly #values = new Map<string, { readonly node: Node | null; readonly offset: number }>();
  readonly #at: (offset: number) => string;

  /** @throws {UsageError} for a key that is not known. */
  constructor(pairs: readonly Pair[], known: readonly string[], at: (offset: number) => string) {
    this.#at = at;
    for (const { key, value } of pairs) {
      const offset = (key as Node).range?.[0] ?? 0;
      const name = isScalar(key) ? String(key.value) : '?';
      if (!known.includes(name)) {
        throw new UsageError(
          `${at(offset)}: There is no key "${name}"; there are: ${known.join(', ')}.`,
        );
      }
      this.#values.set(name, { node: value as Node | null, offset });
    }
  }

  wrong(key: string, what: string): UsageError {
    return new UsageError(`${this.#at(this.#values.get(key)?.offset ?? 0)}: "${key}" ${what}.`);
  }

  /** A text with something in it; `undefined` when the key is absent. */
  text(key: string): string | undefined {
    if (!this.#values.has(key)) return undefined;
    const node = this.#values.get(key)?.node;
    const text = isScalar(node) && typeof node.value === 'string' ? node.value.trim() : '';
    if (text === '') throw this.wrong(key, 'takes a text, and not an empty one');
    return text;
  }

  /** A list of texts, or one text with commas. */
  names(key: string): readonly string[] | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    const { node } = value;
    const names = isSeq(node)
      ? node.items.map((item) => (isScalar(item) ? item.value : undefined))
      : isScalar(node) && typeof node.value === 'string'
        ? node.value.split(',')
        : [undefined];
    return names.map((name) => {
      if (typeof name !== 'string' || name.trim() === '') {
        throw this.wrong(key, 'takes a list of names, or names with commas between them');
      }
      return name.trim();
    });
  }

  numbers<K extends string>(key: string, known: readonly K[]): { readonly [P in K]?: number } {
    const value = this.#values.get(key);
    if (value === undefined) return {};
    if (!isMap(value.node)) throw this.wrong(key, `takes keys: ${known.join(', ')}`);
    const fields = new Fields(value.node.items, known, this.#at);
    return Object.fromEntries(
      [...fields.#values].map(([name, { node }]) => {
        const number = isScalar(node) ? node.value : undefined;
        if (!Number.isSafeInteger(number) || (number as number) < 1) {
          throw fields.wrong(name, 'takes a whole number above 0');
        }
        return [name, number];
      }),
    ) as { readonly [P in K]?: number };
  }
}
