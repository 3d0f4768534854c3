/** The tool with which a subagent that goes on tells its parent something before it is finished. */
import { ArgumentError } from '../../protocol/errors.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import { assertTornDown } from '../base/teardown.ts';
import type { ReportDelivery } from '../subagents/report.ts';
import type { SubagentRuntime } from '../subagents/runtime.ts';
import type { SetupContribution } from '../subagents/setup.ts';
import { REPORT_ADVICE, withAdvice } from './failures.ts';

const SECTION = {
  name: 'tool:report',
  order: 117,
  text: [
    'The agent that started you can hear from you before you are finished: `report` hands it a',
    'finding, or says that you are stuck, and you go on. It may answer with a message, which you',
    'read in a later turn; do not wait for it. Your last message is handed over in any case, so',
    'never repeat it with `report`.',
  ].join(' '),
};

/**
 * Puts the tool and a section of the prompt into every continuable child that is built from then
 * on, for `harness.subagents.registerContinuableSetup`. Nobody else ever sees them.
 */
export function reportSetup(
  subagents: Pick<SubagentRuntime, 'reportFrom'>,
  options: { readonly delivery?: ReportDelivery } = {},
): SetupContribution {
  const { delivery = 'wakeup' } = options;
  const tool = reportTool(subagents, delivery);
  return ({ tools, prompt }) => {
    const withdrawSection = prompt.section(SECTION);
    let withdrawTool: () => void;
    try {
      withdrawTool = tools.register(tool);
    } catch (error) {
      const failures = [error, ...failuresOf([withdrawSection])];
      if (failures.length > 1) assertTornDown('The tool `report`', failures);
      throw error;
    }
    return () => assertTornDown('The tool `report`', failuresOf([withdrawTool, withdrawSection]));
  };
}

const reportTool = (
  subagents: Pick<SubagentRuntime, 'reportFrom'>,
  delivery: ReportDelivery,
): ToolDefinition<Agent> => ({
  name: 'report',
  description:
    'Tell the agent that started you something now, while you go on: a finding it can use, or what ' +
    'keeps you from going on. It does not end your work, and no answer comes back from this call. ' +
    'A call that failed may have arrived all the same: do not repeat it blindly.',
  parameters: {
    type: 'object',
    properties: { output: { type: 'string', description: 'What it is to read.' } },
    required: ['output'],
    additionalProperties: false,
  },
  output: {
    schema: {
      type: 'object',
      properties: { messageId: { type: 'string' } },
      required: ['messageId'],
    },
    render: () => [{ type: 'text', text: 'Delivered to the agent that started you. Go on.' }],
  },
  isConcurrencySafe: () => false,
  async execute(args, { agent, signal }) {
    if (agent === undefined) throw new ArgumentError('Only an agent can call this.');
    const { output } = args as { output: string };
    try {
      const { messageId } = await subagents.reportFrom(agent, output, { delivery, signal });
      return { messageId };
    } catch (error) {
      throw withAdvice(error, 'The report failed.', REPORT_ADVICE);
    }
  },
});

/** All of them are tried. */
function failuresOf(undo: readonly (() => void)[]): unknown[] {
  return undo.flatMap((run) => {
    try {
      run();
      return [];
    } catch (error) {
      return [error];
    }
  });
}
