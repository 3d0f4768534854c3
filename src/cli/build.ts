/** From a plan to a harness with its tools, and to the root that begins in it. */
import {
  createHarness,
  HarnessError,
  installSubagentTools,
  openaiCompatible,
  SessionId,
  type Agent,
  type Harness,
  type ObjectJsonSchema,
  type SubagentToolConfig,
} from '../index.ts';
import { rootOptionsOf, toolConfigOf } from './definitions.ts';
import { FILE_SUMMARY_SCHEMA } from './embedded/summary.ts';
import { UsageError } from './exit-codes.ts';
import type { AgentPlan } from './input.ts';

/** How soon a turn that ran out of time has to obey before its thread is ended. */
const INTERRUPT_GRACE_MS = 500;
/** The name under which the models of --base-url are. */
const SERVER = 'server';

/**
 * Build a harness, without its store first: what cannot be built is found before there is a file.
 *
 * @throws {UsageError} when the plan cannot be built.
 */
export async function build(plan: AgentPlan, signal: AbortSignal): Promise<Harness> {
  if (plan.store !== undefined) {
    const { store: _, ...rehearsal } = plan;
    await using harness = await assemble(rehearsal);
    // Only a thread can tell whether a module loads.
    if (plan.toolModules.length > 0) await createRoot(harness, rehearsal, signal);
  }
  return assemble(plan);
}

async function assemble(plan: AgentPlan): Promise<Harness> {
  const { server, files, cwd } = plan;
  let harness: Harness | undefined;
  try {
    harness = await createHarness({
      ...(plan.store === undefined ? {} : { store: plan.store }),
      models: {
        embedded: { module: new URL('./embedded/model.js', import.meta.url) },
        ...(server === undefined ? {} : { [SERVER]: openaiCompatible(server) }),
      },
      defaultModel:
        server === undefined
          ? { provider: 'embedded', model: 'scripted' }
          : { provider: SERVER, model: server.model },
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
    addDelegation(harness, plan);
    return harness;
  } catch (error) {
    await harness?.dispose();
    throw asUsageError(error);
  }
}

/**
 * The tools to delegate with, and to deal with whom was delegated to. Children in the background
 * go on where they are kept; a child that answers with a value of a schema is a job.
 */
function addDelegation(harness: Harness, plan: AgentPlan): void {
  const { server, definitions, outputSchema, store } = plan;
  const own = outputSchema ?? (server === undefined ? FILE_SUMMARY_SCHEMA : undefined);
  const settings = (
    schema: ObjectJsonSchema | undefined,
  ): Omit<SubagentToolConfig, 'toolName'> => ({
    provider: 'spawn',
    backgroundMode: store === undefined || schema !== undefined ? 'one-shot' : 'continuable',
    ...(schema === undefined ? {} : { outputSchema: schema }),
  });
  const first = settings(own);
  const named = definitions.map((definition) => ({
    ...settings(outputSchema),
    ...toolConfigOf(definition, server && SERVER),
  }));
  const modes = new Set([first, ...named].map(({ backgroundMode }) => backgroundMode));
  const goesOn = modes.has('continuable');
  installSubagentTools(harness, {
    delegation: [first],
    control: goesOn,
    report: goesOn,
    jobs: modes.has('one-shot'),
  });
  for (const [index, config] of named.entries()) {
    try {
      installSubagentTools(harness, { delegation: [config], ...NO_MORE });
    } catch (error) {
      if (!(error instanceof HarnessError)) throw error;
      const path = definitions[index]?.path;
      throw new UsageError(`${path}: ${error.message}`, { cause: error });
    }
  }
}

const NO_MORE = { control: false, jobs: false, report: false } as const;

/** A root, as the plan says what one is. */
export async function createRoot(
  harness: Harness,
  plan: AgentPlan,
  signal: AbortSignal,
): Promise<Agent> {
  const { root, cwd, server } = plan;
  try {
    const { agent } = await harness.agents.create({
      ...(root === undefined ? {} : rootOptionsOf(root, server && SERVER)),
      meta: { cwd },
      signal,
    });
    return agent;
  } catch (error) {
    signal.throwIfAborted();
    throw asUsageError(error);
  }
}

/** A stored root again, as the plan says what one is. Does nothing for one that is live. */
export async function resumeRoot(
  harness: Harness,
  { root, server }: AgentPlan,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  if (harness.agents.get(SessionId(id)) !== undefined) return;
  const options = root === undefined ? {} : rootOptionsOf(root, server && SERVER);
  await harness.agents.resume(id, { ...options, signal });
}

/** What the library refuses, in the words of the command line. */
function asUsageError(error: unknown): unknown {
  if (!(error instanceof HarnessError)) return error;
  const message = error.message.replace(/limits\.memoryMb|The limit memoryMb/u, '--memory-mb');
  return new UsageError(message, { cause: error });
}
