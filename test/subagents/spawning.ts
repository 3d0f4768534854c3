/** Starts of `spawn` on a whole harness, and what tests read from a child's log. */
import type { SessionEventOf } from '../../protocol/session-events.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import { defineTool } from '../../protocol/tool.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import type { ScriptedStep } from '../../src/models/scripted.ts';
import type { SubagentStartRequest } from '../../src/subagents/provider.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarnessOptions } from '../support/harness.ts';
import { isRuntimeContext } from '../support/told.ts';
import { text } from './stubs.ts';

const signal = (): AbortSignal => new AbortController().signal;

/** A harness, and starts of `spawn` below its root, or of the provider that is named. */
export async function spawning({
  provider = 'spawn',
  ...options
}: TestHarnessOptions & { readonly provider?: string } = {}) {
  const t = await testHarness(options);
  const start = (more: Partial<SubagentStartRequest> = {}, name = provider) =>
    t.harness.subagents.start(name, {
      parent: t.root,
      prompt: [text('Work.')],
      signal: signal(),
      ...more,
    });
  return {
    ...t,
    start,
    /** Start, wait for the result, dispose. */
    async run(more: Partial<SubagentStartRequest> = {}, name = provider) {
      const run = await start(more, name);
      const result = await run.result;
      const child = run.localAgent!;
      await run.dispose();
      return { run, result, child };
    },
    live: () => ({
      agents: t.harness.agents.list().length,
      sessions: t.harness.sessions.list().length,
    }),
    [Symbol.asyncDispose]: () => t[Symbol.asyncDispose](),
  };
}

/** Resolves when the model is asked for the first time, and holds its answer open. */
export function heldModel(before: string) {
  const asked = gate();
  const hold = gate();
  const signals: AbortSignal[] = [];
  return {
    asked,
    hold,
    signals,
    script: [
      (_: ModelRequest, call: { signal: AbortSignal }): ScriptedStep => {
        signals.push(call.signal);
        const tell = { wait: async () => asked.open() };
        return { text: [before, tell, hold, 'never'] };
      },
    ],
  };
}

/** A tool that counts its calls. */
export function lookTool() {
  const calls: unknown[] = [];
  const tool = defineTool<unknown>({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: (args) => void calls.push(args),
  });
  return { tool, calls };
}

/** What an agent was told to do; what the runtime says by itself is no task. */
export const tasksOf = ({ session }: Agent) =>
  session.events.filter((event) => event.type === 'user/message' && !isRuntimeContext(event.data));

const results = (agent: Agent) =>
  agent.session.events.filter(
    (event): event is SessionEventOf<'tool/result'> => event.type === 'tool/result',
  );
export const toolResults = (agent: Agent) =>
  results(agent).flatMap(({ data }) =>
    data.message.content.flatMap((block) => (block.type === 'tool-result' ? [block] : [])),
  );
export const resultCodes = (agent: Agent) => results(agent).map(({ data }) => data.error?.code);
