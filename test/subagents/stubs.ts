/** Edge fakes: an agent that only has an identity, a provider that only counts, a logger. */
import { vi } from 'vitest';
import type { ContentBlock } from '../../protocol/content.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { Agent, AgentOptions } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { NO_START_CAPABILITIES } from '../../src/subagents/provider.ts';
import type { Logger } from '../../src/base/logger.ts';
import type {
  ResolvedSubagentStartRequest,
  SubagentCapabilities,
  SubagentProvider,
  SubagentResult,
  SubagentRun,
  SubagentStartRequest,
} from '../../src/subagents/provider.ts';
import { SubagentRuntime } from '../../src/subagents/runtime.ts';

export const ALL_CAPABILITIES: SubagentCapabilities = {
  outputSchema: true,
  depthLimit: true,
  toolFilter: true,
  persona: true,
};
export const NO_CAPABILITIES = NO_START_CAPABILITIES;

export const text = (value: string): ContentBlock => ({ type: 'text', text: value });

export function stubAgent(
  id: string,
  made: { readonly header?: Partial<SessionHeader>; readonly options?: AgentOptions } = {},
): Agent {
  const header = { version: 0, id: SessionId(id), createdAt: 0, ...made.header };
  const { options = {} } = made;
  // Enough of an agent to be taken for one.
  return { id: SessionId(id), options, session: { header }, followup() {} } as unknown as Agent;
}

/** A run whose result the test settles. */
export function stubRun(made: { readonly id?: string; readonly localAgent?: Agent } = {}) {
  const result = deferred<SubagentResult>();
  let disposals = 0;
  const run: SubagentRun = {
    id: SessionId(made.id ?? 'child'),
    localAgent: made.localAgent,
    result: result.promise,
    dispose: async () => void disposals++,
  };
  return {
    run,
    settle: result.resolve,
    fail: result.reject,
    get disposals() {
      return disposals;
    },
  };
}

export const completed = (...output: ContentBlock[]): SubagentResult => ({
  output,
  stopReason: 'completed',
});

/** Hands out `run` for every start, and keeps the requests. */
export function stubProvider(made: {
  readonly name?: string;
  readonly capabilities?: SubagentCapabilities;
  readonly inheritsParentContext?: boolean;
  readonly start?: (request: ResolvedSubagentStartRequest) => Promise<SubagentRun>;
}) {
  const requests: ResolvedSubagentStartRequest[] = [];
  const provider: SubagentProvider = {
    name: made.name ?? 'stub',
    capabilities: made.capabilities ?? ALL_CAPABILITIES,
    inheritsParentContext: made.inheritsParentContext ?? false,
    start(request) {
      requests.push(request);
      return made.start?.(request) ?? Promise.resolve(stubRun().run);
    },
  };
  return { provider, requests };
}

export interface Warning {
  readonly event?: string;
  readonly error?: { readonly message: string };
}
export function recordingLogger(): Logger & { readonly warnings: Warning[] } {
  const warnings: Warning[] = [];
  return {
    warnings,
    debug: () => {},
    info: () => {},
    warn: (fields) => void warnings.push(fields as Warning),
    error: () => {},
  };
}

/** The real service, over agents that only have an identity. */
export function testRuntime(
  made: { readonly agents?: readonly Agent[]; readonly maxDepth?: number } = {},
) {
  const parent = stubAgent('parent');
  const live = new Map([parent, ...(made.agents ?? [])].map((agent) => [agent.id, agent]));
  const logger = recordingLogger();
  const subagents = new SubagentRuntime({
    agents: live,
    logger,
    ...(made.maxDepth === undefined ? {} : { maxDepth: made.maxDepth }),
  });
  const request = (more: Partial<SubagentStartRequest> = {}): SubagentStartRequest => ({
    prompt: [text('Work.')],
    parent,
    signal: new AbortController().signal,
    ...more,
  });
  return { subagents, parent, live, logger, request };
}

/** What a promise was rejected with; `undefined` when it was not. */
export const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

/** A promise whose `then` throws. */
export function brokenPromise(): Promise<never> {
  const promise = new Promise<never>(() => {});
  vi.spyOn(promise, 'then').mockImplementation(() => {
    throw new Error('not to be waited for');
  });
  return promise;
}
