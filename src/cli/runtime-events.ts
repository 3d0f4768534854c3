import { AsyncLocalStorage } from 'node:async_hooks';
import type { Harness, SessionEvent, subagentTool } from '../index.ts';

/** What the runtime tells of one run, as plain data: one shape for the tree and for JSON lines. */
export type RuntimeEvent =
  | {
      readonly type: 'session/created';
      readonly time: number;
      readonly session: string;
      readonly parent?: string;
      readonly depth: number;
      /** What the delegation that made it is called. */
      readonly label?: string;
    }
  | { readonly type: 'session/event'; readonly session: string; readonly event: SessionEvent }
  | (RunInfo & { readonly type: 'subagent/start' })
  | (RunInfo & { readonly type: 'subagent/end'; readonly stopReason: string })
  | {
      readonly type: 'agent/error';
      readonly time: number;
      readonly session: string;
      readonly code: string;
      readonly message: string;
    };

interface RunInfo {
  readonly time: number;
  readonly runId: string;
  readonly provider: string;
  readonly id: string;
  readonly local: boolean;
}

type Delegation = Parameters<typeof subagentTool>[0];

const labels = new AsyncLocalStorage<string | undefined>();

/**
 * The same, and each session tells with its creation what its delegation is called: a child that
 * is stopped before its first turn has no label in its log.
 */
export const labelled = (subagents: Delegation): Delegation => ({
  getProvider: (name) => subagents.getProvider(name),
  start: (name, request) => labels.run(request.label, () => subagents.start(name, request)),
});

/** Tell `listener` of everything from here on. Returns what ends it. */
export function observe(harness: Harness, listener: (event: RuntimeEvent) => void): () => void {
  const withdrawals = [
    harness.on('session/created', ({ session }) => {
      const { id, parentSession, delegationDepth, createdAt } = session.header;
      const label = labels.getStore();
      listener({
        type: 'session/created',
        time: createdAt,
        session: id,
        ...(parentSession === undefined ? {} : { parent: parentSession }),
        depth: delegationDepth ?? 0,
        ...(label === undefined ? {} : { label }),
      });
    }),
    harness.on('session/event', ({ session, event }) => {
      listener({ type: 'session/event', session: session.id, event });
    }),
    harness.on('subagent/start', ({ runId, provider, id, local }) => {
      listener({ type: 'subagent/start', time: Date.now(), runId, provider, id, local });
    }),
    harness.on('subagent/end', ({ runId, provider, id, local, stopReason }) => {
      const time = Date.now();
      listener({ type: 'subagent/end', time, runId, provider, id, local, stopReason });
    }),
    harness.on('agent/error', ({ agent, error: { code, message } }) => {
      listener({ type: 'agent/error', time: Date.now(), session: agent.id, code, message });
    }),
  ];
  return () => {
    for (const withdraw of withdrawals) withdraw();
  };
}
