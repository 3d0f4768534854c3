/**
 * The tool an agent delegates with, on main, called with that very agent: its authority is the
 * service's to check. One instance per provider; the model never chooses one.
 */
import type { ContentBlock } from '../../protocol/content.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { Json, JsonObject } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { ToolContext, ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { isOneShotChild } from '../subagents/descriptor.ts';
import type { ContinuableStart, ContinuableStartSpec } from '../subagents/continuable.ts';
import type { SubagentProvider, SubagentRun, SubagentStartRequest } from '../subagents/provider.ts';
import { answerText } from '../subagents/result-text.ts';
import { checkedConfig, assertSupported } from './config.ts';
import type { CheckedConfig, SubagentToolConfig } from './config.ts';
import { START_ADVICE, withAdvice } from './failures.ts';
import { awaitRun } from './foreground.ts';
import { describeBackground, describePrompt, describeTool } from './wording.ts';

/** The part of the `subagents` service that the tool calls. */
export interface Delegation {
  /** The provider of this name, if it is registered. */
  getProvider(name: string): SubagentProvider | undefined;
  /** Starts a one-shot child. */
  start(name: string, request: SubagentStartRequest): Promise<SubagentRun>;
  /** Needed for `backgroundMode: 'continuable'`. */
  startContinuable?(spec: ContinuableStartSpec): Promise<ContinuableStart>;
}

/** What one call came to: the value of its result. */
type Delegated =
  | {
      readonly kind: 'foreground';
      readonly runId: string;
      readonly output: readonly ContentBlock[];
      readonly structured?: Json;
    }
  | { readonly kind: 'background'; readonly jobId: string }
  | { readonly kind: 'continuable'; readonly subagentId: string };

/** What a model writes. */
interface Arguments {
  readonly description: string;
  readonly prompt: string;
  readonly run_in_background?: boolean;
}

/**
 * A delegation tool for one provider, which has to be registered. Its calls may overlap. For one
 * that comes and goes with its provider, see `installSubagentTools`.
 *
 * @param services.jobs what one-shot children in the background need, `harness.jobs`; without it
 *   there are none
 * @throws {SubagentError} `NO_PROVIDER`, or `UNSUPPORTED_CAPABILITY` for a setting that the
 *   provider cannot carry out.
 * @throws {ToolFilterError} `EMPTY_FILTER`
 * @throws {JsonSchemaError} for an `outputSchema` outside the enforced subset.
 * @throws {ArgumentError} for any other setting that is not what it must be.
 */
export function subagentTool(
  subagents: Delegation,
  config: SubagentToolConfig,
  services: { readonly jobs?: Jobs } = {},
): ToolDefinition<Agent> {
  if (typeof subagents?.getProvider !== 'function') {
    throw new ArgumentError('subagentTool takes `harness.subagents` first.');
  }
  const checked = checkedConfig('subagentTool', config, services.jobs !== undefined);
  const { providerName, toolName, description, policy, settings } = checked;
  const provider = subagents.getProvider(providerName);
  if (provider === undefined) {
    throw new SubagentError(
      'NO_PROVIDER',
      `Cannot make the tool "${toolName}": no provider is named "${providerName}".`,
    );
  }
  assertSupported(checked, provider);
  const wording = { provider, policy, structured: settings.outputSchema !== undefined };
  const call = new DelegationCalls(subagents, services.jobs, checked);
  return {
    name: toolName,
    description: [...(description === undefined ? [] : [description]), describeTool(wording)].join(
      ' ',
    ),
    parameters: {
      type: 'object',
      properties: {
        description: {
          type: 'string',
          description: 'The task in three to eight words, for people who watch.',
        },
        prompt: { type: 'string', description: describePrompt(wording) },
        ...(policy === 'none'
          ? {}
          : {
              run_in_background: { type: 'boolean', description: describeBackground(policy) },
            }),
      },
      required: ['description', 'prompt'],
      additionalProperties: false,
    },
    output: { schema: OUTPUT_SCHEMA, render },
    isConcurrencySafe: () => true,
    execute: (args, context) => call.run(args as unknown as Arguments, context),
  };
}

/** The calls of one tool. */
class DelegationCalls {
  readonly #subagents: Delegation;
  readonly #jobs: Jobs | undefined;
  readonly #config: CheckedConfig;

  constructor(subagents: Delegation, jobs: Jobs | undefined, config: CheckedConfig) {
    this.#subagents = subagents;
    this.#jobs = jobs;
    this.#config = config;
  }

  async run(args: Arguments, context: ToolContext<Agent>): Promise<Json> {
    const { agent, signal } = context;
    signal.throwIfAborted();
    if (agent === undefined) throw new ArgumentError('A subagent can be started by an agent only.');
    const { policy } = this.#config;
    const asked = args.run_in_background;
    if (asked === true && policy === 'none') {
      throw new ArgumentError('`run_in_background` is not available here: the call waits.');
    }
    // It ends with its answer, and what it started with it: nothing can be announced to it later.
    const isOneShot = policy !== 'none' && isOneShotChild(agent.session);
    if (asked === true && isOneShot) {
      throw new ArgumentError(
        'You were started for a single answer and end with it, so nothing can go on in the ' +
          'background. Call again without `run_in_background`; calls made in one response still ' +
          'run at the same time.',
      );
    }
    const inBackground = !isOneShot && (asked ?? policy === 'continuable');
    try {
      if (!inBackground) return await this.#foreground(args, context);
      return policy === 'continuable'
        ? await this.#continuable(args, context)
        : this.#job(args, context);
    } catch (error) {
      throw withAdvice(error, 'The subagent was not started.', START_ADVICE);
    }
  }

  async #foreground(args: Arguments, { agent, signal }: ToolContext<Agent>): Promise<Json> {
    const run = await this.#start(args, agent, signal);
    const { output, structured } = await awaitRun(run);
    return {
      kind: 'foreground',
      runId: run.id,
      output,
      ...(structured === undefined ? {} : { structured }),
    } as unknown as Json;
  }

  #job(args: Arguments, { agent }: ToolContext<Agent>): Json {
    const start = { label: args.description, provider: this.#config.providerName };
    // Configured only together with it.
    const { jobId } = this.#jobs!.start(agent, start, (signal) => this.#start(args, agent, signal));
    return { kind: 'background', jobId };
  }

  async #continuable(args: Arguments, { agent, signal }: ToolContext<Agent>): Promise<Json> {
    const { providerName, settings } = this.#config;
    const { outputSchema: _, ...request } = settings;
    const { childId } = await this.#subagents.startContinuable!({
      provider: providerName,
      label: args.description,
      request: { ...request, parent: agent, prompt: [{ type: 'text', text: args.prompt }] },
      signal,
    });
    return { kind: 'continuable', subagentId: childId };
  }

  #start(args: Arguments, parent: Agent, signal: AbortSignal): Promise<SubagentRun> {
    const { providerName, settings } = this.#config;
    return this.#subagents.start(providerName, {
      ...settings,
      label: args.description,
      prompt: [{ type: 'text', text: args.prompt }],
      parent,
      signal,
    });
  }
}

const OUTPUT_SCHEMA: ObjectJsonSchema = {
  type: 'object',
  properties: {
    kind: { type: 'string', enum: ['foreground', 'background', 'continuable'] },
    runId: { type: 'string' },
    output: { type: 'array' },
    structured: {},
    jobId: { type: 'string' },
    subagentId: { type: 'string' },
  },
  required: ['kind'],
};

function render(_args: JsonObject, value: Json): readonly ContentBlock[] {
  return [{ type: 'text', text: textFor(value as unknown as Delegated) }];
}

function textFor(delegated: Delegated): string {
  switch (delegated.kind) {
    case 'foreground':
      return answerText(delegated);
    case 'background':
      return `started background subagent job ${delegated.jobId}\nYou will get its answer in a message.`;
    case 'continuable':
      return `started subagent ${delegated.subagentId}\nYou will get a message when it has finished.`;
    default:
      return delegated satisfies never;
  }
}
