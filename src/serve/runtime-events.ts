import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Harness } from '../harness.ts';
import { observeDelegations } from '../subagents/runtime.ts';

/**
 * What an agent is doing.
 * - `queued`: it has work and waits for a thread; `starting`: one is there, and no turn is open yet
 * - `running`: its model writes, or a step ends; `waiting`: see `WaitingOn`
 * - `idle`: it is live and has nothing to do; `settled`: it is not live
 */
export type RowStatus = 'queued' | 'starting' | 'running' | 'waiting' | 'idle' | 'settled';
/** `model`: nothing came of the request yet; `child`: a tool call or the agent waits for children. */
export type WaitingOn = 'model' | 'tool' | 'child';

export interface SessionStatus {
  readonly status: RowStatus;
  readonly waitingOn?: WaitingOn;
  /** Of one that is idle or settled: how its last turn ended, `completed`, `aborted`, … */
  readonly reason?: string;
  readonly failure?: RowFailure;
}

export interface RowFailure {
  readonly code: string;
  readonly message: string;
}

/** What the runtime tells, as plain data: one shape for the tree, for JSON lines and for the wire. */
export type RuntimeEvent =
  | {
      readonly type: 'session/created';
      readonly time: number;
      readonly session: string;
      readonly parent?: string;
      readonly depth: number;
      /** Of a child that goes on; that of another comes with its `subagent/start`. */
      readonly label?: string;
    }
  | { readonly type: 'session/event'; readonly session: string; readonly event: SessionEvent }
  /** Told with each change of it, and once when the session is there. */
  | ({
      readonly type: 'session/status';
      readonly time: number;
      readonly session: string;
    } & SessionStatus)
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
  /** The session of the child; of an external run, the run's own id. */
  readonly id: string;
  readonly parent: string;
  readonly label?: string;
  /** False: it is no agent of this process, and has no session here. */
  readonly local: boolean;
}

/** Tell `listener` of everything from here on. Returns what ends it. */
export function observeRuntime(
  harness: Harness,
  listener: (event: RuntimeEvent) => void,
): () => void {
  const withdrawals = [
    harness.on('session/created', ({ session }) => {
      const { id, parentSession, delegationDepth, createdAt, seedLength = 0 } = session.header;
      const told = session
        .eventsFrom(seedLength)
        .findLast((event) => event.type === 'subagent/descriptor');
      const label = told?.data.label;
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
    observeDelegations(harness.subagents, 'subagent/start', ({ parent, label, info }) => {
      listener({ type: 'subagent/start', ...runInfo(parent.id, label, info) });
    }),
    observeDelegations(harness.subagents, 'subagent/end', ({ parent, label, info }) => {
      const { stopReason } = info;
      listener({ type: 'subagent/end', ...runInfo(parent.id, label, info), stopReason });
    }),
    harness.on('agent/error', ({ agent, error: { code, message } }) => {
      listener({ type: 'agent/error', time: Date.now(), session: agent.id, code, message });
    }),
  ];
  return () => {
    for (const withdraw of withdrawals) withdraw();
  };
}

function runInfo(
  parent: string,
  label: string | undefined,
  { runId, provider, id, local }: Pick<RunInfo, 'runId' | 'provider' | 'id' | 'local'>,
): RunInfo {
  const named = label === undefined ? {} : { label };
  return { time: Date.now(), runId, provider, id, parent, ...named, local };
}
