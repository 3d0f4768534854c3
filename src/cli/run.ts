/** One task, one root agent, until it is idle; then everything is let go. */
import {
  createUserMessage,
  observeRuntime,
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
  agent.followup(createUserMessage(plan.task));
  await Promise.race([agent.whenIdle(), aborted]);
  const { events } = agent.session;
  const failedDelegations = tree.failures();
  return {
    exitCode: exitCodeOf(lastTurnEnd(events), failedDelegations.length),
    answer: lastText(events),
    failure: tree.root?.failure,
    failedDelegations,
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
