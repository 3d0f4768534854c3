import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Harness } from '../harness.ts';
import { threadQueue } from '../harness.ts';
import type { Session } from '../session/session.ts';
import { observeDelegations } from '../subagents/runtime.ts';
import { boardOf, sessionOf } from './board.ts';
import type { SessionStatus } from './session-status.ts';

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

/** @inline */
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
  const board = boardOf(harness);
  const statuses = new Map<string, string>();
  /** After what it was derived from was told. Says nothing when it is what it was. */
  const review = (id: string | undefined): void => {
    const session = id === undefined ? undefined : sessionOf(harness, id);
    if (session !== undefined) tellStatus(session);
  };
  const tellStatus = (session: Session): void => {
    const status = board.statusOf(session);
    const told = JSON.stringify(status);
    if (statuses.get(session.id) === told) return;
    if (status.status === 'settled') statuses.delete(session.id);
    else statuses.set(session.id, told);
    listener({ type: 'session/status', time: Date.now(), session: session.id, ...status });
  };
  for (const session of harness.sessions.list()) {
    statuses.set(session.id, JSON.stringify(board.statusOf(session)));
  }
  const withdrawals = [
    harness.on('session/created', ({ session }) => {
      const { id, parentSession, delegationDepth, createdAt } = session.header;
      const label = labelIn(session);
      listener({
        type: 'session/created',
        time: createdAt,
        session: id,
        ...(parentSession === undefined ? {} : { parent: parentSession }),
        depth: delegationDepth ?? 0,
        ...(label === undefined ? {} : { label }),
      });
      tellStatus(session);
      review(parentSession);
    }),
    harness.on('session/event', ({ session, event }) => {
      listener({ type: 'session/event', session: session.id, event });
      tellStatus(session);
    }),
    harness.on('session/disposed', ({ session }) => {
      tellStatus(session);
      review(session.header.parentSession);
    }),
    harness.on('agent/created', ({ agent }) => review(agent.id)),
    harness.on('agent/status', ({ agent }) => review(agent.id)),
    threadQueue(harness).onChange((agent) => review(agent.id)),
    observeDelegations(harness.subagents, 'subagent/start', ({ parent, label, info }) => {
      listener({ type: 'subagent/start', ...runInfo(parent.id, label, info) });
      review(parent.id);
    }),
    observeDelegations(harness.subagents, 'subagent/end', ({ parent, label, info }) => {
      const { stopReason } = info;
      listener({ type: 'subagent/end', ...runInfo(parent.id, label, info), stopReason });
      review(parent.id);
    }),
    harness.on('agent/error', ({ agent, error: { code, message } }) => {
      listener({ type: 'agent/error', time: Date.now(), session: agent.id, code, message });
    }),
  ];
  return () => {
    for (const withdraw of withdrawals) withdraw();
  };
}

/** As the log itself says it: a child that goes on is told who it is before anything else. */
function labelIn(session: Session): string | undefined {
  const told = session
    .eventsFrom(session.header.seedLength ?? 0)
    .findLast((event) => event.type === 'subagent/descriptor');
  return told?.data.label;
}

function runInfo(
  parent: string,
  label: string | undefined,
  { runId, provider, id, local }: Pick<RunInfo, 'runId' | 'provider' | 'id' | 'local'>,
): RunInfo {
  const named = label === undefined ? {} : { label };
  return { time: Date.now(), runId, provider, id, parent, ...named, local };
}
