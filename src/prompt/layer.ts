import { ArgumentError } from '../../protocol/errors.ts';
import { assertOptions } from '../base/assert-options.ts';
import { printed } from '../../protocol/error-record.ts';
import { isVariableName } from './interpolate.ts';

const PART = { name: 'any', order: 'any', text: 'any', complete: 'any' } as const;

/** What a part of a prompt may depend on. */
export interface PromptContext {
  readonly agent: unknown;
  readonly provider?: string;
  readonly model?: string;
  readonly cwd?: string;
  readonly signal: AbortSignal;
}

interface PromptPart<Text> {
  readonly name: string;
  /** Parts are put together by rising order; equal ones as they were registered. */
  readonly order: number;
  /** `{{name}}` in it stands for a variable. One that comes out empty is left out. */
  readonly text: string | ((context: PromptContext) => Text);
}

/** A part of the system prompt. */
export interface PromptSection extends PromptPart<string> {
  /** It is the whole system prompt: all other sections are left out. There can be only one. */
  readonly complete?: true;
}

/**
 * A part of the runtime context: what an agent is told in a message of its own, and told again
 * when it changes. For what changes from step to step, which a system prompt should not.
 */
export type RuntimeContext = PromptPart<string | undefined>;

/** `undefined`: it has no value now, and a prompt that names it cannot be made. */
export type PromptVariable = string | ((context: PromptContext) => string | undefined);

/** The parts of a prompt by name: those of the harness, or those of one agent. */
export class Layer {
  readonly sections = new Map<string, PromptSection>();
  readonly contexts = new Map<string, RuntimeContext>();
  readonly variables = new Map<string, (context: PromptContext) => string | undefined>();

  section(section: PromptSection): () => void {
    const part = checkedPart(section, 'prompt section');
    const { complete } = section;
    if (complete !== undefined && complete !== true) {
      throw new ArgumentError(`"complete" of the prompt section "${part.name}" is true or absent.`);
    }
    const entry: PromptSection = complete === true ? { ...part, complete } : part;
    return add(this.sections, part.name, entry, 'prompt section');
  }

  context(context: RuntimeContext): () => void {
    const part = checkedPart(context, 'runtime context');
    return add(this.contexts, part.name, part, 'runtime context');
  }

  variable(name: string, value: PromptVariable): () => void {
    if (typeof name !== 'string' || !isVariableName(name)) {
      throw new ArgumentError(`A prompt variable cannot be named "${printed(name)}".`);
    }
    if (typeof value !== 'string' && typeof value !== 'function') {
      throw new ArgumentError(`The prompt variable "${name}" needs a text, or a function of one.`);
    }
    const entry = (context: PromptContext): string | undefined =>
      typeof value === 'string' ? value : value(context);
    return add(this.variables, name, entry, 'variable');
  }
}

/** A copy, so that a disposer takes back its own registration only. */
function checkedPart<Text>(part: PromptPart<Text>, what: string): PromptPart<Text> {
  assertOptions(`a ${what}`, part, PART);
  const { name, order, text } = part;
  if (typeof name !== 'string' || name === '') throw new ArgumentError(`A ${what} needs a name.`);
  if (!Number.isFinite(order)) {
    throw new ArgumentError(`The ${what} "${name}" needs an order that is a number.`);
  }
  if (typeof text !== 'string' && typeof text !== 'function') {
    throw new ArgumentError(`The ${what} "${name}" needs a text, or a function of one.`);
  }
  return { name, order, text };
}

function add<T>(map: Map<string, T>, name: string, value: T, what: string): () => void {
  if (map.has(name)) throw new ArgumentError(`There is already a ${what} named "${name}".`);
  map.set(name, value);
  return () => {
    if (map.get(name) === value) map.delete(name);
  };
}
