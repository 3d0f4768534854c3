/** One agent's definition from the text of its file: YAML between two lines `---`, then Markdown. */
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Document, Node, Pair } from 'yaml';
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
  /** File and line of what can turn out to be wrong later. */
  readonly places: { readonly name: string; readonly tools: string };
}

/** A name is a tool's name for models. */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/u;
const KEYS = ['name', 'description', 'model', 'tools', 'persona', 'limits'] as const;
const LIMITS = { turnMs: [1, 2_147_483_647], memoryMb: [32, 4096] } as const;
/** Names of tools that agents have, with some options or always. */
const TAKEN: ReadonlySet<string> = new Set(
  (
    'subagent send_message interrupt_agent list_agents job_output job_kill report ' +
    'structured_output list_files read_file run_code'
  ).split(' '),
);
/** What a persona can have put in for `{{name}}`. */
const VARIABLES = ['provider', 'model', 'cwd'];
/** The parser lets far deeper nesting than fits into this end the whole process. */
const MAX_YAML = 32_768;
/** Stands for the model of whoever delegates. */
const INHERIT = 'inherit';

/** @throws {UsageError} naming the file and the line. */
export function parseDefinition(text: string, path: string): AgentDefinition {
  const lines = text.replace(/^\uFEFF/u, '').split(/\r?\n/u);
  const end = lines.findIndex((line, index) => index > 0 && line.trimEnd() === '---');
  if (lines[0]?.trimEnd() !== '---') {
    throw new UsageError(`${path}:1: It begins with no line "---": an agent's definition does.`);
  }
  if (end === -1) throw new UsageError(`${path}:1: No second line "---" ends what begins here.`);
  const counter = new LineCounter();
  const yaml = lines.slice(1, end).join('\n');
  const document = parseYaml(yaml, counter, path);
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
  if (TAKEN.has(name)) throw fields.wrong('name', `is "${name}", which is a tool's name already`);
  const description = fields.text('description') ?? fail(`${path}:1: It has no "description".`);
  const model = fields.text('model');
  const tools = fields.names('tools');
  const below = lines.slice(end + 1).join('\n');
  const body = below.trim();
  const persona = fields.text('persona');
  if (persona !== undefined && body !== '') {
    throw fields.wrong('persona', 'is given, and so is a text below the second "---": leave one');
  }
  const limits = fields.numbers('limits', LIMITS);
  if (persona !== undefined) {
    for (const { problem } of wrongVariables(persona)) throw fields.wrong('persona', problem);
  }
  for (const { at: offset, problem } of wrongVariables(below)) {
    const line = end + 2 + below.slice(0, offset).split('\n').length - 1;
    throw new UsageError(`${path}:${line}: The text ${problem}.`);
  }
  const spoken = persona ?? body;
  return {
    name,
    description,
    path,
    places: { name: fields.place('name'), tools: fields.place('tools') },
    limits,
    ...(model === undefined || model === INHERIT ? {} : { model }),
    ...(tools === undefined ? {} : { tools }),
    ...(spoken === '' ? {} : { persona: spoken }),
  };
}

/** @throws {UsageError} for what is more than the parser takes. */
function parseYaml(yaml: string, lineCounter: LineCounter, path: string): Document {
  if (yaml.length > MAX_YAML) {
    const problem = `takes ${MAX_YAML} characters: a longer persona goes below the second "---"`;
    throw new UsageError(`${path}:2: What begins here ${problem}.`);
  }
  const document = parseDocument(yaml, { lineCounter, prettyErrors: false });
  const [wrong] = document.errors;
  if (wrong?.code !== 'RESOURCE_EXHAUSTION') return document;
  throw new UsageError(`${path}:2: What begins here is nested too deeply.`, { cause: wrong });
}

/** The first `{{…}}` that nothing can be put in for; a `{{` that nothing closes is text. */
function* wrongVariables(
  text: string,
): Iterable<{ readonly at: number; readonly problem: string }> {
  for (const { index, 1: name = '' } of text.matchAll(/\{\{([^]*?)\}\}/gu)) {
    if (VARIABLES.includes(name)) continue;
    const shown = `{{${name.slice(0, 64).replaceAll(/\s+/gu, ' ')}}}`;
    const known = VARIABLES.map((each) => `{{${each}}}`).join(', ');
    yield { at: index, problem: `has "${shown}", and there is no such variable, only ${known}` };
  }
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
    return new UsageError(`${this.place(key)}: "${key}" ${what}.`);
  }

  /** File and line; the first line of all when the key is absent. */
  place(key: string): string {
    return this.#at(this.#values.get(key)?.offset ?? 0);
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

  /** Whole numbers, each in its range. */
  numbers<K extends string>(
    key: string,
    ranges: Readonly<Record<K, readonly [least: number, most: number]>>,
  ): { readonly [P in K]?: number } {
    const known = Object.keys(ranges);
    const value = this.#values.get(key);
    if (value === undefined) return {};
    if (!isMap(value.node)) throw this.wrong(key, `takes keys: ${known.join(', ')}`);
    const fields = new Fields(value.node.items, known, this.#at);
    return Object.fromEntries(
      [...fields.#values].map(([name, { node }]) => {
        const number = isScalar(node) ? node.value : undefined;
        const [least, most] = ranges[name as K];
        if (!Number.isInteger(number) || (number as number) < least || (number as number) > most) {
          throw fields.wrong(name, `takes a whole number of ${least} to ${most}`);
        }
        return [name, number];
      }),
    ) as { readonly [P in K]?: number };
  }
}
