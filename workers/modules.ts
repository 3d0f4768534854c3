import { asModelAdapter } from '../protocol/ai-sdk.ts';
import { WorkerError } from '../protocol/errors.ts';
import { printed, toErrorRecord } from '../protocol/error-record.ts';
import { isPlainObject, losslessCopy } from '../protocol/json.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ModelAdapter, RetryPolicy } from '../protocol/model.ts';
import { isRetryPolicy } from '../protocol/retry-policy.ts';
import type { ToolDefinition, ToolSpec } from '../protocol/tool.ts';
import type { ModuleRef, WorkerInit } from '../protocol/worker-init.ts';

/** What the modules of one agent gave. */
export interface LoadedModules {
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly model: ModelAdapter | undefined;
  /** The model's own, for main, which decides about retries. */
  readonly retryPolicy: RetryPolicy | undefined;
}

type Import = (url: string) => Promise<unknown>;

const NAME = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const DESCRIPTION_CHARS = 65_536;

/**
 * Load an agent's modules. A module's default export is a tool, a model or several tools, or a
 * function of its options that returns (a promise of) one.
 *
 * @throws {WorkerError} `WORKER_START_FAILED` naming the module and what is wrong in it.
 */
export async function loadModules(
  init: Pick<WorkerInit, 'toolModules' | 'modelModule'>,
  load: Import,
): Promise<LoadedModules> {
  const tools = new Map<string, ToolDefinition>();
  for (const ref of init.toolModules) {
    const exported = await exportOf(ref, load);
    const list: readonly unknown[] = Array.isArray(exported) ? exported : [exported];
    for (const [index, tool] of list.entries()) {
      const place = Array.isArray(exported) ? `its tool ${index}` : 'its tool';
      assertTool(tool, (what) => refuse(ref, `${place} ${what}`));
      if (tools.has(tool.name)) refuse(ref, `a tool named "${tool.name}" is loaded already`);
      tools.set(tool.name, tool);
    }
  }
  const { modelModule } = init;
  if (modelModule === undefined) return { tools, model: undefined, retryPolicy: undefined };
  const model = asModelAdapter(await exportOf(modelModule, load));
  if (model === undefined) return refuse(modelModule, 'its model has no function "stream"');
  return { tools, model, retryPolicy: policyOf(model, modelModule) };
}

/** A copy of what main needs of it, and nothing else that a module may have put there. */
function policyOf(model: ModelAdapter, ref: ModuleRef): RetryPolicy | undefined {
  const policy: unknown = model.retryPolicy;
  if (policy === undefined) return undefined;
  if (!isRetryPolicy(policy)) return refuse(ref, 'the "retryPolicy" of its model is malformed');
  const { maxRetries, retryableCodes, initialDelayMs, maxDelayMs, jitterRatio } = policy;
  const codes = [...retryableCodes];
  return { maxRetries, retryableCodes: codes, initialDelayMs, maxDelayMs, jitterRatio };
}

/** What a model and main are told of a loaded tool. */
export function specOf(tool: ToolDefinition): ToolSpec {
  const { name, description, parameters } = tool;
  return { name, description, parameters: losslessCopy(parameters) as JsonObject };
}

async function exportOf(ref: ModuleRef, load: Import): Promise<unknown> {
  let module: { readonly default?: unknown };
  try {
    module = (await load(ref.url)) as { readonly default?: unknown };
  } catch (cause) {
    return refuse(ref, `it threw while loading: ${told(cause)}`, cause);
  }
  const exported = module.default;
  if (exported === undefined) return refuse(ref, 'it has no default export');
  if (typeof exported !== 'function') return exported;
  try {
    return (await (exported as (options: unknown) => unknown)(ref.options)) as unknown;
  } catch (cause) {
    return refuse(ref, `its default export threw: ${told(cause)}`, cause);
  }
}

function assertTool(
  tool: unknown,
  refuseTool: (what: string) => never,
): asserts tool is ToolDefinition {
  if (typeof tool !== 'object' || tool === null) return refuseTool('is no object');
  const { name, description, parameters, execute, output, timeoutMs, isConcurrencySafe } =
    tool as Partial<ToolDefinition>;
  if (typeof name !== 'string' || !NAME.test(name)) {
    return refuseTool(`has no usable "name": ${printed(name).slice(0, 80)}`);
  }
  const bad = (key: string, what: string): never => refuseTool(`("${name}") "${key}" ${what}`);
  if (typeof description !== 'string') return bad('description', 'is no text');
  if (description.length > DESCRIPTION_CHARS) return bad('description', 'is too long');
  if (!isPlainObject(parameters)) return bad('parameters', 'is no JSON Schema object');
  try {
    losslessCopy(parameters);
  } catch (cause) {
    return bad('parameters', `is no JSON: ${told(cause)}`);
  }
  if (typeof execute !== 'function') return bad('execute', 'is no function');
  if (output !== undefined && typeof output?.render !== 'function') {
    return bad('output', 'has no function "render"');
  }
  if (timeoutMs !== undefined && !(Number.isFinite(timeoutMs) && timeoutMs > 0)) {
    return bad('timeoutMs', 'is no positive number');
  }
  if (isConcurrencySafe !== undefined && typeof isConcurrencySafe !== 'function') {
    return bad('isConcurrencySafe', 'is no function');
  }
}

function refuse(ref: ModuleRef, what: string, cause?: unknown): never {
  const options = cause === undefined ? undefined : { cause };
  throw new WorkerError('WORKER_START_FAILED', `Cannot use module ${ref.url}: ${what}.`, options);
}

const told = (thrown: unknown): string => toErrorRecord(thrown).message.slice(0, 1_000);
