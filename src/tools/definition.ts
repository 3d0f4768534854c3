/** What may be registered as a tool, checked and taken apart once. */
import { isInstance } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { frozenCopy, isPlainObject } from '../../protocol/json.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ToolDefinition, ToolModule, ToolSpec } from '../../protocol/tool.ts';
import { MAX_SCHEMA_VALUES } from './json-schema.ts';
import { checkClaimed, compileCheck } from './validate-arguments.ts';
import type { ValueCheck } from './validate-arguments.ts';

/** A tool that runs on main. Its `context.agent` is the calling `Agent` itself. */
export type HostTool = ToolDefinition<unknown>;

/** A tool that was found by its name. */
export type FoundTool =
  | {
      readonly kind: 'host';
      readonly spec: ToolSpec;
      readonly tool: HostTool;
      readonly timeoutMs: number | undefined;
      readonly checkArguments: ValueCheck;
      readonly checkOutput: ValueCheck | undefined;
    }
  | { readonly kind: 'module'; readonly spec: ToolSpec; readonly checkArguments: ValueCheck };

const NAME = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
/** Kept free for a tool that runs programs, which none of ours is. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(['run_code']);
/** Nesting that fits into the header of a request, with room for what is around it. */
const MAX_SCHEMA_DEPTH = 900;
/** The longest a timer can be set for. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** @throws {ArgumentError} when it is no tool, or its schemas do not compile. */
export function admitHostTool(tool: HostTool): FoundTool & { kind: 'host' } {
  const spec = admitSpec(tool);
  const owner = `the tool \`${spec.name}\``;
  const { timeoutMs, output } = tool;
  if (typeof tool.execute !== 'function') refuse(owner, 'has no `execute`');
  if (tool.isConcurrencySafe !== undefined && typeof tool.isConcurrencySafe !== 'function') {
    refuse(owner, 'has an `isConcurrencySafe` that is no function');
  }
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    refuse(owner, `needs a \`timeoutMs\` above 0 and up to ${MAX_TIMEOUT_MS}`);
  }
  let checkOutput: ValueCheck | undefined;
  if (output !== undefined) {
    if (typeof output?.render !== 'function') refuse(owner, 'has an `output` without `render`');
    checkOutput = compileCheck(schemaOf(output.schema, owner), `the output of ${owner}`);
  }
  const checkArguments = compileCheck(spec.parameters, `the parameters of ${owner}`);
  return Object.freeze({ kind: 'host', spec, tool, timeoutMs, checkArguments, checkOutput });
}

function isTimeout(ms: unknown): boolean {
  return typeof ms === 'number' && ms > 0 && ms <= MAX_TIMEOUT_MS;
}

/**
 * A tool that a thread says it has loaded. Its schema is a claim: it never reaches a compiler.
 * @throws {ArgumentError} when it is no tool.
 */
export function admitModuleTool(claimed: ToolSpec): FoundTool & { kind: 'module' } {
  const spec = admitSpec(claimed);
  return Object.freeze({ kind: 'module', spec, checkArguments: checkClaimed(spec.parameters) });
}

/** @throws {ArgumentError} when it names no file, or its options cannot go to a thread. */
export function admitModule(tool: ToolModule): ToolModule {
  if (!isInstance(tool.module, URL)) {
    throw new ArgumentError('The `module` of a tool must be a URL.');
  }
  try {
    structuredClone(tool.options);
  } catch (error) {
    const message = `The options of ${tool.module.href} cannot be sent to a thread.`;
    throw new ArgumentError(message, { cause: error });
  }
  return Object.freeze({ ...tool });
}

function admitSpec(tool: ToolSpec): ToolSpec {
  const { name, description, parameters } = (tool ?? {}) as Partial<ToolSpec>;
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ArgumentError(`A tool cannot be named ${JSON.stringify(name)}.`);
  }
  const owner = `the tool \`${name}\``;
  if (RESERVED_NAMES.has(name)) refuse(owner, 'takes a name that is reserved');
  if (typeof description !== 'string') refuse(owner, 'has no description');
  const schema = schemaOf(parameters, owner);
  if (schema['type'] !== 'object') refuse(owner, 'needs parameters of "type": "object"');
  return Object.freeze({ name, description, parameters: schema });
}

function schemaOf(schema: unknown, owner: string): JsonObject {
  let copy: unknown;
  try {
    copy = frozenCopy(schema, MAX_SCHEMA_DEPTH, { left: MAX_SCHEMA_VALUES });
  } catch (error) {
    const message = `A schema of ${owner} is not JSON, or nested too deeply or too large to be logged.`;
    throw new ArgumentError(message, { cause: error });
  }
  if (!isPlainObject(copy)) refuse(owner, 'has a schema that is no object');
  return copy as JsonObject;
}

function refuse(owner: string, what: string): never {
  throw new ArgumentError(`T${owner.slice(1)} ${what}.`);
}
