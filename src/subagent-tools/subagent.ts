/**
 * The tool an agent delegates with, on main, called with that very agent: its authority is the
 * service's to check. One instance per provider; the model never chooses one.
 */
import { textOf } from '../../protocol/content.ts';
import type { ContentBlock } from '../../protocol/content.ts';
import {
  ArgumentError,
  HarnessError,
  SubagentDepthError,
  SubagentError,
  ToolFilterError,
} from '../../protocol/errors.ts';
import type { Json, JsonObject } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { ToolContext, ToolDefinition } from '../../protocol/tool.ts';
import type { AgentLimits } from '../agent/agent-host.ts';
import type { Agent, AgentOptions } from '../agent/agent.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { assertMaxDepth } from '../subagents/depth.ts';
import type {
  SubagentProvider,
  SubagentResult,
  SubagentRun,
  SubagentStartRequest,
  ToolRestriction,
} from '../subagents/provider.ts';
import { finishRun, messageOf } from '../subagents/settle-run.ts';
import { assertObjectJsonSchema } from '../tools/json-schema.ts';

export interface SubagentToolConfig {
  /** Name of the provider that makes the children. */
  readonly provider: string;
  /** What the model calls it. Default: `subagent`. */
  readonly toolName?: string;
  readonly agentOptions?: AgentOptions;
  readonly persona?: string;
  readonly toolFilter?: ToolRestriction;
  /** Absent: only the cap of the harness holds. */
  readonly maxDepth?: number;
  /** Children must answer with a value of this schema; the model reads it as JSON. */
  readonly outputSchema?: ObjectJsonSchema;
  readonly limits?: AgentLimits;
}

const CONFIG = {
  provider: 'text',
  toolName: 'text',
  agentOptions: 'object',
  persona: 'text',
  toolFilter: 'object',
  maxDepth: 'any',
  outputSchema: 'any',
  limits: 'object',
} as const satisfies Record<keyof SubagentToolConfig, OptionKind>;

/** The part of the `subagents` service that the tool calls. */
export interface Delegation {
  getProvider(name: string): SubagentProvider | undefined;
  start(name: string, request: SubagentStartRequest): Promise<SubagentRun>;
}

/** What one call came to: the value of its result. */
interface Delegated {
  readonly kind: 'foreground';
  readonly runId: string;
  readonly output: readonly ContentBlock[];
  readonly structured?: Json;
}

/**
 * A delegation tool for one provider. Its calls wait for their child and may overlap.
 *
 * @throws {SubagentError} `NO_PROVIDER`, or `UNSUPPORTED_CAPABILITY` for a setting that the
 *   provider cannot carry out.
 * @throws {ToolFilterError} `EMPTY_FILTER`
 * @throws {JsonSchemaError} for an `outputSchema` outside the enforced subset.
 * @throws {ArgumentError} for a `maxDepth` that is no non-negative safe integer.
 */
export function subagentTool(
  subagents: Delegation,
  config: SubagentToolConfig,
): ToolDefinition<Agent> {
  if (typeof subagents?.getProvider !== 'function') {
    throw new ArgumentError('subagentTool takes `harness.subagents` first.');
  }
  assertOptions('subagentTool', config, CONFIG);
  const { provider: name, toolName = 'subagent' } = config;
  const provider = subagents.getProvider(name);
  if (provider === undefined) {
    throw new SubagentError(
      'NO_PROVIDER',
      `Cannot make the tool "${toolName}": no provider is named "${name}".`,
    );
  }
  assertSupported(config, provider, toolName);
  return {
    name: toolName,
    description: describe(provider, config.outputSchema !== undefined),
    parameters: {
      type: 'object',
      properties: {
        description: {
          type: 'string',
          description: 'The task in three to eight words, for people who watch.',
        },
        prompt: { type: 'string', description: promptHint(provider) },
      },
      required: ['description', 'prompt'],
      additionalProperties: false,
    },
    output: { schema: OUTPUT_SCHEMA, render },
    isConcurrencySafe: () => true,
    async execute(args, context) {
      const run = await start(subagents, config, args, context);
      const { result, disposal } = await finishRun(run);
      const failures: Error[] = [];
      if (result.status === 'rejected') {
        failures.push(
          new Error(`The subagent could not be run: ${messageOf(result.reason)}`, {
            cause: result.reason,
          }),
        );
      } else if (result.value.stopReason !== 'completed') {
        failures.push(new Error(explain(result.value)));
      }
      if (disposal.status === 'rejected') {
        failures.push(
          new Error(`The subagent could not be released: ${messageOf(disposal.reason)}`, {
            cause: disposal.reason,
          }),
        );
      }
      const [failure] = failures;
      if (failures.length > 1) {
        throw new AggregateError(failures, failures.map(({ message }) => message).join('\n'));
      }
      if (failure !== undefined || result.status === 'rejected') throw failure;
      return foreground(run, result.value) as unknown as Json;
    },
  };
}

function start(
  subagents: Delegation,
  config: SubagentToolConfig,
  args: JsonObject,
  { agent, signal }: ToolContext<Agent>,
): Promise<SubagentRun> {
  signal.throwIfAborted();
  if (agent === undefined) throw new ArgumentError('A subagent can be started by an agent only.');
  const { description, prompt } = args as { description: string; prompt: string };
  const { provider, toolName: _, ...settings } = config;
  return subagents
    .start(provider, {
      ...settings,
      label: description,
      prompt: [{ type: 'text', text: prompt }],
      parent: agent,
      signal,
    })
    .catch((error: unknown) => {
      if (!(error instanceof SubagentDepthError)) throw error;
      throw new HarnessError(
        'DEPTH_EXCEEDED',
        `You cannot delegate from here: a subagent would be at depth ${error.attemptedDepth}, and ` +
          `${error.maxDepth} is the limit. Do the task yourself.`,
        { cause: error },
      );
    });
}

const OUTPUT_SCHEMA: ObjectJsonSchema = {
  type: 'object',
  properties: {
    kind: { type: 'string', const: 'foreground' },
    runId: { type: 'string' },
    output: { type: 'array' },
    structured: {},
  },
  required: ['kind', 'runId', 'output'],
};

function foreground(run: SubagentRun, { output, structured }: SubagentResult): Delegated {
  return {
    kind: 'foreground',
    runId: run.id,
    output,
    ...(structured === undefined ? {} : { structured: structured as Json }),
  };
}

function render(_args: JsonObject, value: Json): readonly ContentBlock[] {
  const { output, structured } = value as unknown as Delegated;
  const text = structured === undefined ? textOf(output) : JSON.stringify(structured);
  return [{ type: 'text', text: text === '' ? '(The subagent finished without a text.)' : text }];
}

const HEADLINES: Readonly<Record<string, string>> = {
  aborted: 'The subagent was stopped before it finished.',
  error: 'The subagent failed before it finished.',
  'max-tokens': 'The subagent ran out of output tokens before it finished.',
  refusal: 'The subagent declined the task.',
};

/** What a model needs to decide what to do instead: the reason, the cause, what there is. */
function explain({ stopReason, diagnostic, output }: SubagentResult): string {
  const headline = Object.hasOwn(HEADLINES, stopReason)
    ? HEADLINES[stopReason]
    : `The subagent ended abnormally (${stopReason}) before it finished.`;
  const partial = textOf(output);
  return [
    headline,
    ...(diagnostic === undefined ? [] : [`Diagnostic: ${diagnostic}`]),
    ...(partial === '' ? [] : [`Partial output:\n${partial}`]),
  ].join('\n');
}

function describe(provider: SubagentProvider, structured: boolean): string {
  return [
    'Give one task to a subagent: another agent that works on it by itself, in its own',
    'conversation, and hands back its answer. You wait for that answer; you cannot talk to the',
    'subagent meanwhile.',
    provider.inheritsParentContext
      ? 'It knows this conversation up to your last finished turn, but not the current one.'
      : 'It knows nothing of this conversation.',
    structured ? 'The answer is JSON.' : 'The answer is the last thing it writes.',
    'Calls made in one response run at the same time: split independent work into one call per',
    'part. If a call fails, its message says why and holds whatever the subagent had written.',
  ].join(' ');
}

function promptHint(provider: SubagentProvider): string {
  return provider.inheritsParentContext
    ? 'What to do and what to hand back; facts of the current turn must be repeated here.'
    : 'The whole task: the goal, every fact and path it needs, and what to hand back.';
}

function assertSupported(
  config: SubagentToolConfig,
  provider: SubagentProvider,
  toolName: string,
): void {
  const { maxDepth, outputSchema, toolFilter, persona } = config;
  if (toolFilter !== undefined && toolFilter.allow === undefined && toolFilter.deny === undefined) {
    throw new ToolFilterError(
      'EMPTY_FILTER',
      `Cannot make the tool "${toolName}": its toolFilter has neither an allow nor a deny list.`,
    );
  }
  if (maxDepth !== undefined) assertMaxDepth(maxDepth);
  if (outputSchema !== undefined) assertObjectJsonSchema(outputSchema);
  const asked = { outputSchema, depthLimit: maxDepth, toolFilter, persona };
  for (const [flag, value] of Object.entries(asked)) {
    if (value === undefined || provider.capabilities[flag as keyof typeof asked]) continue;
    throw new SubagentError(
      'UNSUPPORTED_CAPABILITY',
      `Cannot make the tool "${toolName}": the provider "${provider.name}" does not support ${flag}.`,
    );
  }
}
