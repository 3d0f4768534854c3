import { isPromiseLetGo } from '../base/deferred.ts';
import { owned } from '../base/scope.ts';
import type { Ownership } from '../base/scope.ts';
import { interpolate } from './interpolate.ts';
import { Layer } from './layer.ts';
import type { PromptContext, PromptSection, PromptVariable, RuntimeContext } from './layer.ts';
import type { ContextSection } from './snapshot.ts';

export type { PromptContext, PromptSection, PromptVariable, RuntimeContext } from './layer.ts';

/** What one step's prompt is made of: the parts as they were when it was put together. */
export interface AssembledPrompt {
  /**
   * The system text; `undefined` when nothing is left of it. Throws what a section or variable
   * throws, and for a malformed or unknown variable: plain errors of whoever wrote the prompt.
   * Rendered once: every call gives, or throws, the same.
   */
  system(): string | undefined;
  /** What is told as a message, and again when it changes; by order, empty ones left out. */
  readonly contexts: readonly ContextSection[];
}

/** The prompt of one harness: what all agents are told. */
export class PromptRegistry {
  readonly #layer = new Layer();

  /** Returns the idempotent disposer. @throws {ArgumentError} when the name is taken. */
  section(section: PromptSection, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#layer.section(section));
  }

  /** Returns the idempotent disposer. @throws {ArgumentError} when the name is taken. */
  context(context: RuntimeContext, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#layer.context(context));
  }

  /** Returns the idempotent disposer. @throws {ArgumentError} when the name is taken or none. */
  variable(name: string, value: PromptVariable, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#layer.variable(name, value));
  }

  /**
   * The prompt of one agent: this one, and its own parts.
   * @internal
   */
  scope(): PromptScope {
    return new PromptScope(this.#layer);
  }
}

/** The prompt of one agent. A part of its own hides one of the harness by that name. */
export class PromptScope {
  readonly #inherited: Layer;
  readonly #own = new Layer();

  /**
   * Made by `PromptRegistry.scope()`.
   * @internal
   */
  constructor(inherited: Layer) {
    this.#inherited = inherited;
  }

  /** Add a part to this agent's system prompt. Returns the idempotent disposer. */
  section(section: PromptSection): () => void {
    return this.#own.section(section);
  }

  /** Add a part to this agent's runtime context. Returns the idempotent disposer. */
  context(context: RuntimeContext): () => void {
    return this.#own.context(context);
  }

  /** Give this agent's prompt a variable. Returns the idempotent disposer. */
  variable(name: string, value: PromptVariable): () => void {
    return this.#own.variable(name, value);
  }

  /**
   * Put the prompt together. `provider`, `model` and `cwd` are variables too. Contexts are
   * rendered here, the system text when it is asked for; every variable is asked once.
   *
   * Rejects with what a context or one of its variables throws.
   * @internal
   */
  async assemble(context: PromptContext): Promise<AssembledPrompt> {
    context.signal.throwIfAborted();
    const [inherited, own] = [this.#inherited, this.#own];
    const sections = inOrder(inherited.sections, own.sections);
    const variables = new Map([...inherited.variables, ...own.variables]);
    const values = new Map<string, string | undefined>();
    const fill = (template: string): string =>
      interpolate(template, (name) => {
        if (!values.has(name)) values.set(name, valueOf(name, variables, context));
        return values.get(name);
      });
    return {
      contexts: inOrder(inherited.contexts, own.contexts).flatMap(({ name, text }) => {
        const template = typeof text === 'string' ? text : text(context);
        if (template === undefined) return [];
        if (typeof template !== 'string') throw noText('context', name, template);
        const filled = fill(template);
        return isBlank(filled) ? [] : [{ name, text: filled }];
      }),
      system: once(() => systemText(sections, context, fill)),
    };
  }
}

/** The nearer part of a name hides the farther one; then all by their order. */
function inOrder<Part extends { readonly order: number }>(
  farther: ReadonlyMap<string, Part>,
  nearer: ReadonlyMap<string, Part>,
): readonly Part[] {
  const parts = new Map([...farther, ...nearer]);
  return [...parts.values()].sort((left, right) => left.order - right.order);
}

function systemText(
  sections: readonly PromptSection[],
  context: PromptContext,
  fill: (template: string) => string,
): string | undefined {
  const complete = sections.filter((section) => section.complete === true);
  if (complete.length > 1) {
    const names = complete.map(({ name }) => `"${name}"`).join(', ');
    throw new Error(`Only one section can be the whole prompt, not ${names}.`);
  }
  const texts = (complete.length === 1 ? complete : sections)
    .map(({ name, text }) => {
      const template = typeof text === 'string' ? text : text(context);
      if (typeof template !== 'string') throw noText('section', name, template);
      return fill(template);
    })
    .filter((text) => !isBlank(text));
  return texts.length === 0 ? undefined : texts.join('\n\n');
}

function valueOf(
  name: string,
  variables: Layer['variables'],
  context: PromptContext,
): string | undefined {
  const variable = variables.get(name);
  if (variable !== undefined) {
    const value = variable(context);
    if (value === undefined || typeof value === 'string') return value;
    throw noText('variable', name, value);
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

const isBlank = (text: string): boolean => text.trim() === '';

/** One outcome for all callers, also when it is a throw. */
function once<T>(make: () => T): () => T {
  let outcome: (() => T) | undefined;
  const run = (): (() => T) => {
    try {
      const value = make();
      return () => value;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  };
  return () => (outcome ??= run())();
}

/** A failure of the step that the prompt was made for. */
function noText(what: string, name: string, given: unknown): Error {
  const hint = isPromiseLetGo(given) ? ': it gave a promise, and a prompt is not waited for' : '';
  return new Error(`The prompt ${what} "${name}" gave no text${hint}.`);
}
