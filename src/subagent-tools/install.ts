import { ArgumentError } from '../../protocol/errors.ts';
import type { Agent } from '../agent/agent.ts';
import type { Agents } from '../agent/agents.ts';
import { readOptions } from '../base/assert-options.ts';
import { assertTornDown } from '../base/teardown.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { PromptRegistry } from '../prompt/prompt.ts';
import { isOneShotChild } from '../subagents/descriptor.ts';
import type { ReportDelivery } from '../subagents/report.ts';
import type { SubagentRuntime } from '../subagents/runtime.ts';
import type { ToolRegistry } from '../tools/registry.ts';
import { checkedConfig } from './config.ts';
import type { SubagentToolConfig } from './config.ts';
import { controlTools } from './control.ts';
import { jobTools } from './jobs.ts';
import { reportSetup } from './report.ts';
import { subagentTool } from './subagent.ts';
import { describeSection } from './wording.ts';

/** What of a harness the tools need; a harness is one. */
export interface SubagentToolServices {
  readonly subagents: SubagentRuntime;
  readonly jobs: Jobs;
  readonly tools: ToolRegistry;
  readonly prompt: PromptRegistry;
  readonly agents: Pick<Agents, 'get' | 'toolsOf'>;
}

/** Which tools the agents get; all of it may be left out. */
export interface SubagentToolsOptions {
  /**
   * The delegation tools. Default: one, `subagent`, for the provider `spawn`, whose children in the
   * background go on. Each is there while its provider is registered.
   */
  readonly delegation?: readonly SubagentToolConfig[];
  /** `send_message`, `interrupt_agent`, `list_agents`. Default: if some tool starts children that go on. */
  readonly control?: boolean;
  /** `job_output`, `job_kill`. Default: if some tool starts jobs. */
  readonly jobs?: boolean;
  /** `report`, in children that go on. Default: as `control`, delivered as `wakeup`. */
  readonly report?: boolean | { readonly delivery: ReportDelivery };
}

const OPTIONS = { delegation: 'list', control: 'any', jobs: 'any', report: 'any' } as const;
const DEFAULT: readonly SubagentToolConfig[] = [
  { provider: 'spawn', backgroundMode: 'continuable' },
];
const DELIVERIES: readonly unknown[] = ['quiet', 'wakeup', 'next-step'];
/** Behind what else tools say, before `report`. */
const SECTION_ORDER = 116.5;

/**
 * Give the agents of a harness the tools to delegate, and to deal with whom they delegated to. All
 * of them or, when one is refused, none. Returns the idempotent disposer: the tools are gone from
 * that moment on, children that run go on.
 *
 * @throws {ArgumentError} for a setting that is none, or a name that is taken by another tool
 * @throws {SubagentError} `UNSUPPORTED_CAPABILITY` for a tool whose provider is registered and
 *   cannot do what it is configured for. One that is registered later is refused by this very
 *   error, and so not registered.
 * @throws {ToolFilterError | JsonSchemaError}
 */
export function installSubagentTools(
  harness: SubagentToolServices,
  options: SubagentToolsOptions = {},
): () => void {
  const given = readOptions('installSubagentTools', options, OPTIONS);
  const { delegation = DEFAULT } = given;
  const policies = delegation.map(
    (config) => checkedConfig('a delegation tool', config, true).policy,
  );
  const goesOn = policies.includes('continuable');
  const control = flag('control', given.control) ?? goesOn;
  const jobs = flag('jobs', given.jobs) ?? policies.includes('one-shot');
  const report = reportOf(given.report) ?? (control ? { delivery: 'wakeup' } : false);
  const undo: (() => void)[] = [];
  const withdraw = (): void => {
    const failures: unknown[] = [];
    for (const run of undo.splice(0).reverse()) {
      try {
        run();
      } catch (error) {
        failures.push(error);
      }
    }
    assertTornDown('The subagent tools', failures);
  };
  const { subagents, tools } = harness;
  try {
    for (const config of delegation) undo.push(mountWithProvider(harness, config));
    if (control) for (const tool of controlTools(harness)) undo.push(tools.register(tool as never));
    if (jobs) for (const tool of jobTools(harness.jobs)) undo.push(tools.register(tool as never));
    if (report !== false) {
      undo.push(subagents.registerContinuableSetup(reportSetup(subagents, report)));
    }
  } catch (error) {
    withdraw();
    throw error;
  }
  return withdraw;
}

/** One delegation tool, there whenever its provider is. */
function mountWithProvider(harness: SubagentToolServices, config: SubagentToolConfig): () => void {
  const { subagents } = harness;
  const { provider } = config;
  let unmount: (() => void) | undefined;
  const leave = (): void => {
    unmount?.();
    unmount = undefined;
  };
  // Its wording depends on the provider, so each registration makes another tool.
  const arrive = (): void => {
    leave();
    unmount = mount(harness, config);
  };
  const off = [
    subagents.on('subagent/provider-added', ({ name }) => {
      if (name === provider) arrive();
    }),
    subagents.on('subagent/provider-removed', (name) => {
      if (name === provider) leave();
    }),
  ];
  const dispose = (): void => {
    for (const stop of off) stop();
    leave();
  };
  try {
    if (subagents.getProvider(provider) !== undefined) arrive();
  } catch (error) {
    dispose();
    throw error;
  }
  return dispose;
}

/** The tool and, if its children go on, its part of the prompt: both or none. */
function mount(harness: SubagentToolServices, config: SubagentToolConfig): () => void {
  const { subagents, jobs, tools, prompt, agents } = harness;
  const tool = subagentTool(subagents, config, { jobs });
  const { policy, toolName } = checkedConfig('a delegation tool', config, true);
  const withdrawTool = tools.register(tool as never);
  if (policy !== 'continuable') return withdrawTool;
  let withdrawSection: () => void;
  try {
    withdrawSection = prompt.section({
      name: `tool:${toolName}`,
      order: SECTION_ORDER,
      // Not for an agent that does not see the tool, has another one of its name, or always waits.
      text: ({ agent }) => {
        const seen = agents.toolsOf(agent as Agent)?.find(toolName);
        if (seen?.kind !== 'host' || seen.tool !== (tool as never)) return '';
        return isOneShotChild((agent as Agent).session) ? '' : describeSection(toolName);
      },
    });
  } catch (error) {
    withdrawTool();
    throw error;
  }
  return () => {
    withdrawTool();
    withdrawSection();
  };
}

function flag(name: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw new ArgumentError(`"${name}" of installSubagentTools is true or false.`);
}

function reportOf(value: unknown): false | { delivery: ReportDelivery } | undefined {
  if (value === undefined || value === false) return value;
  if (value === true) return { delivery: 'wakeup' };
  const { delivery } = readOptions('report', value as { delivery?: unknown }, { delivery: 'text' });
  if (DELIVERIES.includes(delivery)) return { delivery: delivery as ReportDelivery };
  throw new ArgumentError(`A report is delivered as one of: ${DELIVERIES.join(', ')}.`);
}
