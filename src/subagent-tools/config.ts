import { ArgumentError, SubagentError, ToolFilterError } from '../../protocol/errors.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { AgentLimits } from '../agent/agent-host.ts';
import type { AgentOptions } from '../agent/agent.ts';
import { readOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { assertMaxDepth } from '../subagents/depth.ts';
import type {
  SubagentProvider,
  SubagentStartRequest,
  ToolRestriction,
} from '../subagents/provider.ts';
import { assertObjectJsonSchema } from '../tools/json-schema.ts';
import type { BackgroundPolicy } from './wording.ts';

/** One delegation tool. */
export interface SubagentToolConfig {
  /** Name of the provider that makes the children. */
  readonly provider: string;
  /** What the model calls it. Default: `subagent`. */
  readonly toolName?: string;
  /** What the model is told of these children, in front of what is said of every such tool. */
  readonly description?: string;
  /**
   * Whether the model may have a child work while it goes on itself. Default true, where there is
   * what that needs.
   */
  readonly enableRunInBackground?: boolean;
  /**
   * What a child in the background is. `one-shot` (the default): a job with an id, which ends with
   * its answer; a call waits unless the model asks otherwise. `continuable`: a child that goes on
   * and takes messages; a call returns at once unless the model asks otherwise.
   */
  readonly backgroundMode?: 'one-shot' | 'continuable';
  readonly agentOptions?: AgentOptions;
  readonly persona?: string;
  readonly toolFilter?: ToolRestriction;
  /**
   * The greatest depth of its children, counted from the root; the cap of the harness holds in any
   * case. Absent, or `provider-managed`: this tool sets none.
   */
  readonly maxDepth?: number | 'provider-managed';
  /** Children must answer with a value of this schema; the model reads it as JSON. */
  readonly outputSchema?: ObjectJsonSchema;
  readonly limits?: AgentLimits;
}

const CONFIG = {
  provider: 'text',
  toolName: 'text',
  description: 'text',
  enableRunInBackground: 'any',
  backgroundMode: 'text',
  agentOptions: 'object',
  persona: 'text',
  toolFilter: 'object',
  maxDepth: 'any',
  outputSchema: 'any',
  limits: 'object',
} as const satisfies Record<keyof SubagentToolConfig, OptionKind>;

/** What every child of the tool is started with; what was not configured is absent. */
export type ChildSettings = Pick<
  SubagentStartRequest,
  'agentOptions' | 'persona' | 'toolFilter' | 'maxDepth' | 'outputSchema' | 'limits'
>;

export interface CheckedConfig {
  readonly providerName: string;
  readonly toolName: string;
  readonly description: string | undefined;
  readonly policy: BackgroundPolicy;
  readonly settings: ChildSettings;
}

/**
 * All that can be seen without the provider.
 * @throws {ToolFilterError | JsonSchemaError | ArgumentError}
 */
export function checkedConfig(
  what: string,
  given: SubagentToolConfig,
  hasJobs: boolean,
): CheckedConfig {
  const config = readOptions(what, given, CONFIG);
  const { provider, toolName = 'subagent', backgroundMode = 'one-shot', ...rest } = config;
  const { description, enableRunInBackground: enabled, maxDepth, ...settings } = rest;
  if (typeof provider !== 'string') throw new ArgumentError(`"provider" of ${what} takes a text.`);
  if (backgroundMode !== 'one-shot' && backgroundMode !== 'continuable') {
    throw new ArgumentError(
      `"backgroundMode" of ${what} is one-shot or continuable, not "${String(backgroundMode)}".`,
    );
  }
  if (enabled !== undefined && typeof enabled !== 'boolean') {
    throw new ArgumentError(`"enableRunInBackground" of ${what} is true or false.`);
  }
  const isPossible = backgroundMode === 'continuable' || hasJobs;
  if (enabled === true && !isPossible) {
    throw new ArgumentError(
      `The tool "${toolName}" needs \`{ jobs: harness.jobs }\` to run one-shot children in the background.`,
    );
  }
  const policy = (enabled ?? isPossible) ? backgroundMode : 'none';
  const { toolFilter, outputSchema } = settings;
  if (toolFilter !== undefined && toolFilter.allow === undefined && toolFilter.deny === undefined) {
    throw new ToolFilterError(
      'EMPTY_FILTER',
      `Cannot make the tool "${toolName}": its toolFilter has neither an allow nor a deny list.`,
    );
  }
  if (outputSchema !== undefined) assertObjectJsonSchema(outputSchema);
  if (outputSchema !== undefined && policy === 'continuable') {
    throw new ArgumentError(
      `The tool "${toolName}" cannot have an outputSchema: children that go on answer in words.`,
    );
  }
  const isCapped = maxDepth !== undefined && maxDepth !== 'provider-managed';
  if (isCapped) assertMaxDepth(maxDepth);
  const kept = { ...settings, ...(isCapped ? { maxDepth } : {}) };
  const present = Object.entries(kept).filter(([, value]) => value !== undefined);
  // What is absent stays so: an empty list would deny everything.
  return {
    providerName: provider,
    toolName,
    description,
    policy,
    settings: Object.fromEntries(present),
  };
}

/** @throws {SubagentError} `UNSUPPORTED_CAPABILITY` for what the provider cannot carry out */
export function assertSupported(
  { toolName, policy, settings }: CheckedConfig,
  provider: SubagentProvider,
): void {
  const { maxDepth, outputSchema, toolFilter, persona } = settings;
  const refuse = (flag: string): never => {
    throw new SubagentError(
      'UNSUPPORTED_CAPABILITY',
      `Cannot make the tool "${toolName}": the provider "${provider.name}" does not support ${flag}.`,
    );
  };
  const asked = { outputSchema, depthLimit: maxDepth, toolFilter, persona };
  for (const [flag, value] of Object.entries(asked)) {
    if (value !== undefined && !provider.capabilities[flag as keyof typeof asked]) refuse(flag);
  }
  if (policy === 'continuable' && provider.prepareContinuable === undefined) {
    refuse('children that go on (prepareContinuable)');
  }
}
