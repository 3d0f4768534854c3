/** One task, one root agent, until it is idle; then everything is let go. */
import {
  createHarness,
  createUserMessage,
  observeRuntime,
  openaiCompatible,
  subagentTool,
  HarnessError,
  type Agent,
  type Harness,
  type RuntimeEvent,
  type SessionEvent,
  type TurnEndReason,
} from '../index.ts';
import { FILE_SUMMARY_SCHEMA } from './embedded/summary.ts';
import { exitCodeOf, UsageError } from './exit-codes.ts';
import type { RunPlan } from './input.ts';
import { DELEGATION_TOOL, type FailedRun, type RowFailure, type TreeModel } from './tree-model.ts';

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

/** How soon a turn that ran out of time has to obey before its thread is ended. */
const INTERRUPT_GRACE_MS = 500;

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
  if (plan.store !== undefined) await rehearse(plan, signal);
  const harness = await build(plan);
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

/** The same without the store: what cannot be built is found before there is a file. */
async function rehearse({ store: _, ...plan }: RunPlan, signal: AbortSignal): Promise<void> {
  const harness = await build(plan);
  try {
    // Only a thread can tell whether a module loads.
    if (plan.toolModules.length > 0) await createRoot(harness, plan, signal);
  } finally {
    await harness.dispose();
  }
}

async function build(plan: RunPlan): Promise<Harness> {
  const { server, files, cwd } = plan;
  let harness: Harness | undefined;
  try {
    harness = await createHarness({
      ...(plan.store === undefined ? {} : { store: plan.store }),
      models: {
        embedded: { module: new URL('./embedded/model.js', import.meta.url) },
        ...(server === undefined ? {} : { server: openaiCompatible(server) }),
      },
      defaultModel:
        server === undefined
          ? { provider: 'embedded', model: 'scripted' }
          : { provider: 'server', model: server.model },
      tools: [
        ...(files === undefined
          ? []
          : [
              {
                module: new URL('./tools/files.js', import.meta.url),
                options: { root: cwd, files },
              },
            ]),
        ...plan.toolModules.map((module) => ({ module })),
      ],
      limits: { ...plan.limits, interruptGraceMs: INTERRUPT_GRACE_MS },
    });
    const outputSchema =
      plan.outputSchema ?? (server === undefined ? FILE_SUMMARY_SCHEMA : undefined);
    harness.tools.register(
      subagentTool(harness.subagents, {
        provider: 'spawn',
        toolName: DELEGATION_TOOL,
        ...(outputSchema === undefined ? {} : { outputSchema }),
      }),
    );
    return harness;
  } catch (error) {
    await harness?.dispose();
    throw asUsageError(error);
  }
}

async function createRoot(harness: Harness, plan: RunPlan, signal: AbortSignal): Promise<Agent> {
  try {
    const { agent } = await harness.agents.create({ meta: { cwd: plan.cwd }, signal });
    return agent;
  } catch (error) {
    signal.throwIfAborted();
    throw asUsageError(error);
  }
}

/** What the library refuses, in the words of the command line. */
function asUsageError(error: unknown): unknown {
  if (!(error instanceof HarnessError)) return error;
  const message = error.message.replace(/limits\.memoryMb|The limit memoryMb/u, '--memory-mb');
  return new UsageError(message, { cause: error });
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
