/** One task, one root agent, until it is idle; then everything is let go. */
import {
  createUserMessage,
  observeRuntime,
  type Agent,
  type Harness,
  type RuntimeEvent,
  type SessionEvent,
  type TurnEndReason,
} from '../index.ts';
import { build, createRoot } from './build.ts';
import { exitCodeOf } from './exit-codes.ts';
import type { RunPlan } from './input.ts';
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

/**
 * Carry out one plan. When `signal` aborts, every request in flight is cut off and the run is
 * let go; the promise rejects with the signal's reason once nothing of it is left.
 *
 * @throws {UsageError} when the plan cannot be built: nothing was run.
 */
export async function run(
  plan: RunPlan,
  watcher: RunWatcher,
  signal: AbortSignal,
): Promise<RunOutcome> {
  const harness = await build(plan, signal);
  const withdraw = observeRuntime(harness, (event) => {
    watcher.tree.apply(event);
    watcher.tell(event);
  });
  try {
    return await drive(harness, plan, watcher.tree, signal);
  } finally {
    await harness.dispose();
    withdraw();
  }
}

async function drive(
  harness: Harness,
  plan: RunPlan,
  tree: TreeModel,
  signal: AbortSignal,
): Promise<RunOutcome> {
  signal.throwIfAborted();
  const agent = await createRoot(harness, plan, signal);
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => {
      agent.cancel({ kind: 'user' });
      reject(signal.reason as Error);
    });
  });
  const done = whenAllIsDone(harness, agent);
  agent.followup(createUserMessage(plan.task));
  await Promise.race([done(), aborted]);
  const { events } = agent.session;
  const failedDelegations = tree.failures();
  return {
    exitCode: exitCodeOf(lastTurnEnd(events), failedDelegations.length),
    answer: lastText(events),
    failure: tree.root?.failure,
    failedDelegations,
  };
}

/**
 * Watches from the call on. What it returns resolves when the root has nothing to do, and nobody
 * works for it any more: a child in the background tells it of its end, which opens a turn.
 */
export function whenAllIsDone(harness: Harness, agent: Agent): () => Promise<void> {
  const runs = new Set<string>();
  let changed = (): void => {};
  const withdrawals = [
    harness.on('subagent/start', ({ runId }) => void runs.add(runId)),
    // The parent has been told by now.
    harness.on('subagent/end', ({ runId }) => {
      runs.delete(runId);
      changed();
    }),
    harness.on('agent/status', () => changed(), { agent }),
  ];
  const isJobOpen = (): boolean =>
    harness.jobs.list(agent).some(({ status }) => status === 'starting' || status === 'running');
  return async () => {
    try {
      for (;;) {
        await agent.whenIdle();
        if (runs.size === 0 && !isJobOpen()) return;
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
