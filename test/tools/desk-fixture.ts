import type { ToolCallReply, ToolCallRequest } from '../../protocol/host-services.ts';
import { textOf } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { CallId, MessageId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ToolSpec } from '../../protocol/tool.ts';
import { Hooks } from '../../src/base/hooks.ts';
import type { Logger } from '../../src/base/logger.ts';
import { silentLogger } from '../../src/base/logger.ts';
import type { DeskPorts, ToolResult } from '../../src/tools/desk.ts';
import { ToolDesk } from '../../src/tools/desk.ts';
import type { ToolHookChains } from '../../src/tools/hooked.ts';
import type { ToolHooks } from '../../src/tools/hooks.ts';
import type { HostTool } from '../../src/tools/registry.ts';
import { ToolRegistry } from '../../src/tools/registry.ts';
import type { Gate } from '../support/gate.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';

export const anyObject = { type: 'object' } as const;

export const theAgent = { name: 'the agent' };

export const note: UserMessage = {
  id: MessageId('note'),
  role: 'user',
  content: [{ type: 'text', text: 'remember' }],
  source: { kind: 'plugin', plugin: 'test' },
};

/** A tool of a few words: what is not given does nothing. */
export function tool(name: string, more: Partial<HostTool> = {}): HostTool {
  return { name, description: '', parameters: anyObject, execute: () => name, ...more };
}

/** A tool whose body is held at its gate. */
export function heldTool(name: string, more: Partial<HostTool> = {}): HostTool & { gate: Gate } {
  const held = gate();
  return { ...tool(name, { execute: () => held.wait().then(() => name), ...more }), gate: held };
}

export const overlapping = { isConcurrencySafe: () => true };

export interface DeskFixture {
  readonly desk: ToolDesk;
  readonly clock: ManualClock;
  /** What the log and the bodies saw, in order: `call a`, `result a`, `result a CODE`. */
  readonly events: string[];
  readonly results: Map<string, ToolResult>;
  readonly warnings: string[];
  readonly turn: AbortController;
  readonly scope: ReturnType<ToolRegistry['scope']>;
  /** Ask for one call; its id is `id`, or its tool's name. */
  call(name: string, args?: JsonObject | string, id?: string): Promise<ToolCallReply>;
  text(id: string): string;
}

export function deskFixture(
  tools: readonly HostTool[],
  o: {
    readonly modules?: readonly ToolSpec[];
    readonly concurrency?: number;
    readonly abandonAfterMs?: number;
    readonly committed?: (call: ToolCallRequest) => Promise<void>;
    readonly ports?: Partial<DeskPorts>;
    readonly hooks?: ToolHookChains;
  } = {},
): DeskFixture {
  const registry = new ToolRegistry();
  for (const each of tools) registry.register(each);
  const scope = registry.scope();
  scope.addModuleTools(o.modules ?? []);
  const clock = new ManualClock();
  const events: string[] = [];
  const results = new Map<string, ToolResult>();
  const warnings: string[] = [];
  const logger: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message) };
  const turn = new AbortController();
  const desk = new ToolDesk({
    scope,
    clock,
    logger,
    ...(o.hooks === undefined ? {} : { hooks: o.hooks }),
    ...(o.concurrency === undefined ? {} : { concurrency: o.concurrency }),
    ...(o.abandonAfterMs === undefined ? {} : { abandonAfterMs: () => o.abandonAfterMs! }),
    ports: {
      agent: theAgent,
      started(request) {
        events.push(`call ${request.callId}`);
        return o.committed?.(request) ?? Promise.resolve();
      },
      settled(request, result) {
        const code = result.isError ? ` ${result.error?.code ?? 'failed'}` : '';
        events.push(`result ${request.callId}${code}`);
        results.set(request.callId, result);
      },
      ...o.ports,
    },
  });
  return {
    desk,
    clock,
    events,
    results,
    warnings,
    turn,
    scope,
    call: (name, args = {}, id = name) =>
      desk.call(
        {
          turn: 1,
          step: 1,
          callId: CallId(id),
          name,
          arguments: typeof args === 'string' ? args : JSON.stringify(args),
        },
        turn.signal,
      ),
    text: (id) => textOf(results.get(id)?.content ?? []),
  };
}

/** A desk with hooks; `noteAll` writes down when they are asked: `pre a`, `post a`. */
export function hooked(
  tools: readonly HostTool[],
  o: Parameters<typeof deskFixture>[1] = {},
): DeskFixture & { readonly hooks: Hooks<ToolHooks>; noteAll(): void } {
  const hooks = new Hooks<ToolHooks>(['tool/pre-execute', 'tool/post-execute']);
  const t = deskFixture(tools, { ...o, hooks });
  return {
    ...t,
    hooks,
    noteAll() {
      hooks.on('tool/pre-execute', ({ callId }) => void t.events.push(`pre ${callId}`));
      hooks.on('tool/post-execute', ({ callId }) => void t.events.push(`post ${callId}`));
    },
  };
}

/** Every promise that can settle now has settled. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
