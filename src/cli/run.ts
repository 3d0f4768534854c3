/** Something that agents of one harness are told to do, until all of them are done with it. */
import {
  createUserMessage,
  observeRuntime,
  openControlSocket,
  type ControlSocket,
  type Harness,
  type RuntimeEvent,
  type SessionEvent,
  type SessionId,
  type TurnEndReason,
} from '../index.ts';
import { build, createRoot } from './build.ts';
import { EXIT, exitCodeOf, UsageError } from './exit-codes.ts';
import type { AgentPlan, RunPlan } from './input.ts';
import type { FailedRun, TreeModel } from './tree-model.ts';
import type { RowFailure } from './tree-row.ts';

export interface RunOutcome {
  readonly exitCode: number;
  /** The root's last text; empty when it wrote none. */
  readonly answer: string;
  /** Why the root's turn did not complete. */
  readonly failure: RowFailure | undefined;
  readonly failedDelegations: readonly FailedRun[];
}

export interface RunWatcher {
  readonly tree: TreeModel;
  /** Told of each event after the tree has folded it. */
  tell(event: RuntimeEvent): void;
}

/** Resolves to the session that was told what to do, once it has accepted that. */
export type Begin = (harness: Harness, signal: AbortSignal) => Promise<SessionId>;

/** A new root, and its task. */
export const beginRun =
  (plan: RunPlan): Begin =>
  async (harness, signal) => {
    const agent = await createRoot(harness, plan, signal);
    agent.followup(createUserMessage(plan.task));
    return agent.id;
  };

/**
 * Build what the plan says, begin, and wait until nobody has anything to do. Other processes reach
 * it meanwhile, if it has a store. When `signal` aborts, every request in flight is cut off and the
 * run is let go; the promise rejects with the signal's reason once nothing of it is left.
 *
 * @throws {UsageError} when the plan cannot be built: nothing was run.
 */
export async function run(
  plan: AgentPlan,
  begin: Begin,
  watcher: RunWatcher,
  signal: AbortSignal,
): Promise<RunOutcome> {
  const harness = await build(plan, signal);
  const withdraw = observeRuntime(harness, (event) => {
    watcher.tree.apply(event);
    watcher.tell(event);
  });
  let socket: ControlSocket | undefined;
  try {
    socket = plan.store === undefined ? undefined : await openSocket(harness);
    return await drive(harness, begin, watcher.tree, signal);
  } finally {
    await socket?.close();
    await harness.dispose();
    withdraw();
  }
}

/** @throws {UsageError} when there can be none beside the store. */
export async function openSocket(harness: Harness): Promise<ControlSocket> {
  return openControlSocket(harness).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`Cannot open the control socket beside the store: ${why}`, {
      cause: error,
    });
  });
}

async function drive(
  harness: Harness,
  begin: Begin,
  tree: TreeModel,
  signal: AbortSignal,
): Promise<RunOutcome> {
  signal.throwIfAborted();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => {
      for (const agent of harness.agents.list()) {
        if (agent.session.header.parentSession === undefined) agent.cancel({ kind: 'user' });
      }
      reject(signal.reason as Error);
    });
  });
  const allIsDone = watchUntilDone(harness);
  const id = await Promise.race([begin(harness, signal), aborted]);
  await Promise.race([allIsDone(), aborted]);
  const { events } = await harness.sessions.inspect(id);
  const failedDelegations = tree.failures();
  const exitCode = exitCodeOf(lastTurnEnd(events), failedDelegations.length);
  const row = tree.row(id);
  return {
    exitCode,
    answer: lastText(events),
    // Without a turn only the agent itself can have told why.
    failure: row?.failure ?? (exitCode === EXIT.failed ? row?.error : undefined),
    failedDelegations,
  };
}

/**
 * Watches from the call on. What it returns resolves when no agent has anything to do, and nobody
 * works for one any more: a child in the background tells its parent of its end, which opens a turn.
 */
function watchUntilDone(harness: Harness): () => Promise<void> {
  const { agents, jobs } = harness;
  const runs = new Set<string>();
  let changed = (): void => {};
  const withdrawals = [
    harness.on('subagent/start', ({ runId }) => void runs.add(runId)),
    // The parent has been told by now.
    harness.on('subagent/end', ({ runId }) => {
      runs.delete(runId);
      changed();
    }),
    harness.on('agent/status', () => changed()),
  ];
  const isOpen = (status: string): boolean => status === 'starting' || status === 'running';
  return async () => {
    try {
      for (;;) {
        await Promise.all(agents.list().map((agent) => agent.whenIdle()));
        const all = agents.list();
        if (all.some(({ status }) => status !== 'idle')) continue;
        const hasJobs = all.some((agent) => jobs.list(agent).some((job) => isOpen(job.status)));
        if (runs.size === 0 && !hasJobs) return;
        // No await since the last look.
        await new Promise<void>((resolve) => (changed = resolve));
      }
    } finally {
      for (const withdraw of withdrawals) withdraw();
    }
  };
}

function lastTurnEnd(events: readonly SessionEvent[]): TurnEndReason | undefined {
  const end = events.findLast((event) => event.type === 'turn/end');
  return end?.data.reason;
}

function lastText(events: readonly SessionEvent[]): string {
  const texts = events.flatMap((event) =>
    event.type === 'assistant/message'
      ? [
          event.data.message.content
            .map((block) => (block.type === 'text' ? block.text : ''))
            .join(''),
        ]
      : [],
  );
  return texts.findLast((text) => text !== '') ?? '';
}
