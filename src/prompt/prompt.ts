import { ArgumentError } from '../../protocol/errors.ts';
import { owned } from '../base/scope.ts';
import type { Ownership } from '../base/scope.ts';
import { interpolate, isVariableName } from './interpolate.ts';

/** What a section or a variable may depend on. */
export interface PromptContext {
  readonly agent: unknown;
  readonly provider?: string;
  readonly model?: string;
  readonly cwd?: string;
  readonly signal: AbortSignal;
}

/** A part of the system prompt; `{{name}}` in its text stands for a variable. */
export interface PromptSection {
  readonly name: string;
  /** Sections are put together by rising order; equal ones as they were registered. */
  readonly order: number;
  readonly text: string | ((context: PromptContext) => string);
}

/** `undefined`: it has no value now, and a prompt that names it cannot be made. */
export type PromptVariable = string | ((context: PromptContext) => string | undefined);

/** What one step's prompt is made of. */
export interface AssembledPrompt {
  /**
   * The system text; `undefined` when nothing is left of it. Throws what a section or variable
   * throws, and for a malformed or unknown variable: plain errors of whoever wrote the prompt.
   */
  system(): string | undefined;
  /** What is told as a message, and again when it changes; by order, empty ones left out. */
  readonly contexts: readonly { readonly name: string; readonly text: string }[];
}

/** Sections and variables by name, of the harness or of one agent. */
class Layer {
  readonly sections = new Map<string, PromptSection>();
  readonly variables = new Map<string, (context: PromptContext) => string | undefined>();

  section(section: PromptSection): () => void {
    const { name, order, text } = section;
    if (typeof name !== 'string' || name === '') {
      throw new ArgumentError('A prompt section needs a name.');
    }
    if (!Number.isFinite(order)) {
      throw new ArgumentError(`The prompt section "${name}" needs an order that is a number.`);
    }
    if (typeof text !== 'string' && typeof text !== 'function') {
      throw new ArgumentError(`The prompt section "${name}" needs a text, or a function of one.`);
    }
    return add(this.sections, name, { name, order, text }, 'prompt section');
  }

  variable(name: string, value: PromptVariable): () => void {
    if (typeof name !== 'string' || !isVariableName(name)) {
      throw new ArgumentError(`A prompt variable cannot be named ${JSON.stringify(name)}.`);
    }
    if (typeof value !== 'string' && typeof value !== 'function') {
      throw new ArgumentError(`The prompt variable "${name}" needs a text, or a function of one.`);
    }
    // A function of its own, so that a disposer takes back its own registration only.
    const entry = (context: PromptContext): string | undefined =>
      typeof value === 'string' ? value : value(context);
    return add(this.variables, name, entry, 'variable');
  }
}

function add<T>(map: Map<string, T>, name: string, value: T, what: string): () => void {
  if (map.has(name)) throw new ArgumentError(`There is already a ${what} named "${name}".`);
  map.set(name, value);
  return () => {
    if (map.get(name) === value) map.delete(name);
  };
}

/** The system prompt of one harness: what all agents are told. */
export class PromptRegistry {
  readonly #layer = new Layer();

  /** Returns the idempotent disposer. @throws {ArgumentError} when the name is taken. */
  section(section: PromptSection, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#layer.section(section));
  }

  /** Returns the idempotent disposer. @throws {ArgumentError} when the name is taken or none. */
  variable(name: string, value: PromptVariable, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#layer.variable(name, value));
  }

  /** The system prompt of one agent: this one, and its own parts. */
  scope(): PromptScope {
    return new PromptScope(this.#layer);
  }
}

/** The system prompt of one agent. A part of its own hides one of the harness by that name. */
export class PromptScope {
  readonly #inherited: Layer;
  readonly #own = new Layer();

  /** Made by `PromptRegistry.scope()`. */
  constructor(inherited: Layer) {
    this.#inherited = inherited;
  }

  section(section: PromptSection): () => void {
    return this.#own.section(section);
  }

  variable(name: string, value: PromptVariable): () => void {
    return this.#own.variable(name, value);
  }

  /**
   * Put the prompt together: sections by order, joined by a blank line, empty ones left out.
   * `provider`, `model` and `cwd` are variables too.
   */
  async assemble(context: PromptContext): Promise<AssembledPrompt> {
    context.signal.throwIfAborted();
    return { system: () => this.#system(context), contexts: [] };
  }

  #system(context: PromptContext): string | undefined {
    const sections = new Map([...this.#inherited.sections, ...this.#own.sections]);
    const values = new Map<string, string | undefined>();
    const valueOf = (name: string): string | undefined => {
      if (!values.has(name)) values.set(name, this.#value(name, context));
      return values.get(name);
    };
    const texts = [...sections.values()]
      .sort((left, right) => left.order - right.order)
      .map(({ name, text }) => {
        const template = typeof text === 'string' ? text : text(context);
        if (typeof template !== 'string') throw new Error(`The section "${name}" gave no text.`);
        return interpolate(template, valueOf);
      })
      .filter((text) => text.trim() !== '');
    return texts.length === 0 ? undefined : texts.join('\n\n');
  }

  #value(name: string, context: PromptContext): string | undefined {
    const variable = this.#own.variables.get(name) ?? this.#inherited.variables.get(name);
    if (variable !== undefined) {
      const value = variable(context);
      if (value === undefined || typeof value === 'string') return value;
      throw new Error(`The prompt variable "${name}" gave no text.`);
    }
    switch (name) {
      case 'provider':
      case 'model':
      case 'cwd':
        return context[name];
      default:
        return undefined;
    }
  }
}
