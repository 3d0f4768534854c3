import type { ContentBlock } from '../../protocol/content.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import { CallId, SessionId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { AgentHookChains } from '../../src/agent/hooks.ts';
import { systemClock } from '../../src/base/clock.ts';
import { newId } from '../../src/base/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Scope } from '../../src/base/scope.ts';
import { PromptRegistry } from '../../src/prompt/prompt.ts';
import { Session } from '../../src/session/session.ts';
import { installStructuredOutput } from '../../src/subagents/structured.ts';
import { ToolDesk } from '../../src/tools/desk.ts';
import type { ToolResult } from '../../src/tools/desk.ts';
import { ToolRegistry } from '../../src/tools/registry.ts';

/** One count, and nothing else. */
export const schema: ObjectJsonSchema = {
  type: 'object',
  properties: { count: { type: 'integer' } },
  required: ['count'],
  additionalProperties: false,
};
export const registries = () => ({ tools: new ToolRegistry(), prompt: new PromptRegistry() });

/** One child with the real registries, hooks, desk and log, and its first step open. */
export function childOf({ tools, prompt }: ReturnType<typeof registries>, outputSchema = schema) {
  const id = SessionId(newId());
  const session = new Session({ header: { version: 0, id, createdAt: 0 }, clock: systemClock });
  const agent = { id, session } as unknown as Agent;
  const scope = new Scope();
  const child = {
    tools: tools.scope(),
    prompt: prompt.scope(),
    onDispose: (undo: () => void | Promise<void>) => void scope.add(undo),
  };
  const ran: unknown[] = [];
  child.tools.register({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: (args) => void ran.push(args),
    isConcurrencySafe: () => true,
  });
  const capture = installStructuredOutput(child, outputSchema);
  session.append('turn/start', { turn: 1 });
  session.append('step/start', { turn: 1, step: 1 });

  const results: ToolResult[] = [];
  const hooks = new AgentHookChains();
  const controller = new AbortController();
  const newDesk = () =>
    new ToolDesk({
      scope: child.tools,
      hooks,
      clock: systemClock,
      logger: silentLogger,
      ports: {
        agent,
        started: async ({ turn, step, callId, name, arguments: raw }) =>
          void session.append('tool/call', { turn, step, callId, name, arguments: raw }),
        settled({ turn, step, callId }, result) {
          results.push(result);
          const { content, isError } = result;
          session.append('tool/result', {
            turn,
            step,
            message: {
              id: newId() as never,
              role: 'user',
              source: { kind: 'tool', callId },
              content: [{ type: 'tool-result', toolCallId: callId, content, isError }],
            },
          });
        },
      },
    });
  const desk = newDesk();
  const call = (
    name: string,
    args: JsonObject | string,
    callId = newId(),
    at: { readonly step?: number; readonly desk?: ToolDesk } = {},
  ) => {
    const request: ToolCallRequest = {
      turn: 1,
      step: at.step ?? 1,
      callId: CallId(callId),
      name,
      arguments: typeof args === 'string' ? args : JSON.stringify(args),
    };
    return (at.desk ?? desk).call(request, controller.signal);
  };
  return {
    capture,
    call,
    child,
    results,
    ran,
    hooks,
    turn: controller,
    desk,
    newDesk,
    log: session,
    assemble: async () => {
      const { signal } = new AbortController();
      return (await child.prompt.assemble({ agent, signal })).system();
    },
    dispose: () => scope.dispose(),
  };
}

export const textOf = (result: ToolResult | undefined): string =>
  result?.content.map((block: ContentBlock) => ('text' in block ? block.text : '')).join('') ?? '';
