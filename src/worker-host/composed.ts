import type { ToolSpec } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import type { AgentSpec } from '../agent/agent-host.ts';
import type { AssembledPrompt } from '../prompt/prompt.ts';

/** Prompt and tools for the next step of an agent. */
export async function composed(
  agent: Agent,
  { prompt, tools }: Pick<AgentSpec, 'prompt' | 'tools'>,
  signal: AbortSignal,
): Promise<{ prompt: AssembledPrompt; tools: readonly ToolSpec[] }> {
  const { provider, model } = agent.options;
  const { cwd } = agent.session.header;
  const assembled = await prompt.assemble({
    agent,
    ...(provider === undefined ? {} : { provider }),
    ...(model === undefined ? {} : { model }),
    ...(cwd === undefined ? {} : { cwd }),
    signal,
  });
  return { prompt: assembled, tools: tools.view() };
}
