/** A root with the tools to delegate, on a model that plays a script; its children have another. */
import { textOf } from '../../protocol/content.ts';
import type { Message } from '../../protocol/content.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SessionEventOf } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { Script, ScriptedModel, ScriptedStep } from '../../src/models/scripted.ts';
import { installSubagentTools } from '../../src/subagent-tools/install.ts';
import type { SubagentToolsOptions } from '../../src/subagent-tools/install.ts';
import type { SubagentToolConfig } from '../../src/subagent-tools/config.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { isRuntimeContext } from '../support/told.ts';
import { until } from '../support/until.ts';

export interface Talking extends AsyncDisposable {
  readonly rt: TestHarness;
  readonly root: Agent;
  readonly childModel: ScriptedModel;
  /** Takes the tools out again. */
  readonly withdraw: () => void;
}

export const CHILD = { provider: 'child', model: 'test' } as const;
export const continuable: SubagentToolConfig = {
  provider: 'spawn',
  backgroundMode: 'continuable',
  agentOptions: CHILD,
};
export const oneShot: SubagentToolConfig = { provider: 'spawn', agentOptions: CHILD };

export async function talking(
  script: Script,
  child: Script,
  tools: SubagentToolsOptions = { delegation: [continuable] },
  options: TestHarnessOptions = {},
): Promise<Talking> {
  const childModel = scriptedModel(child);
  const rt = await testHarness({ ...options, script, models: { child: childModel } });
  const withdraw = installSubagentTools(rt.harness, tools);
  return {
    rt,
    root: rt.root,
    childModel,
    withdraw,
    [Symbol.asyncDispose]: () => rt[Symbol.asyncDispose](),
  };
}

/** Steps that call one tool. */
export const call = (name: string, args: object): ScriptedStep => ({
  toolCalls: [{ name, arguments: args }],
});
export const delegate = (more: object = {}): ScriptedStep =>
  call('subagent', { description: 'count the words', prompt: 'Count them.', ...more });

/** All that an agent was told last, results of tools included. */
export function lastText({ messages }: Pick<ModelRequest, 'messages'>): string {
  return words(messages.findLast((message) => !isRuntimeContext(message)));
}
const words = (message: Message | undefined): string =>
  (message?.content ?? [])
    .flatMap((block) => (block.type === 'tool-result' ? block.content : [block]))
    .map((block) => (block.type === 'text' ? block.text : ''))
    .join('\n');

/** The results of tools in an agent's log, in order, as its model reads them. */
export const results = ({ session }: Agent): { text: string; isError: boolean }[] =>
  session.events.flatMap((event) => {
    if (event.type !== 'tool/result') return [];
    const [block] = (event as SessionEventOf<'tool/result'>).data.message.content;
    if (block?.type !== 'tool-result') return [];
    return [{ text: textOf(block.content), isError: block.isError === true }];
  });

/** Of what kind of source each message of an agent was, turn by turn. */
export function heard({ session }: Agent): string[][] {
  const turns: string[][] = [];
  for (const event of session.events) {
    if (event.type === 'turn/start') turns.push([]);
    else if (event.type === 'user/message' && event.data.source.kind !== 'plugin') {
      turns.at(-1)?.push(event.data.source.kind);
    }
  }
  return turns;
}

/** The id that a result of `subagent` names. */
export const startedId = (text: string): string => /started subagent (\S+)/.exec(text)?.[1] ?? '';
export const startedJob = (text: string): string => /job (job_\S+)/.exec(text)?.[1] ?? '';

/** Nobody but hosts is live, and nothing waits. */
export const quiet = async ({ rt, root }: Talking): Promise<void> => {
  await until(
    () => rt.harness.agents.list().length === 1 && root.status === 'idle' && !root.inbox.hasPending,
  );
};
