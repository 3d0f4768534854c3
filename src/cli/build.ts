/** From a plan to a harness with its tools, and to the root that begins in it. */
import {
  createHarness,
  openaiCompatible,
  subagentTool,
  HarnessError,
  type Agent,
  type Harness,
} from '../index.ts';
import { rootOptionsOf, toolConfigOf } from './definitions.ts';
import type { AgentDefinition } from './definitions.ts';
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

function addDelegation(harness: Harness, { server, definitions, outputSchema }: AgentPlan): void {
  const schema = outputSchema ?? (server === undefined ? FILE_SUMMARY_SCHEMA : undefined);
  harness.tools.register(
    subagentTool(harness.subagents, {
      provider: 'spawn',
      ...(schema === undefined ? {} : { outputSchema: schema }),
    }),
  );
  for (const definition of definitions) {
    const tool = subagentTool(harness.subagents, {
      provider: 'spawn',
      ...toolConfigOf(definition, server && SERVER),
      ...(outputSchema === undefined ? {} : { outputSchema }),
    });
    const description = `${sentence(definition.description)} ${tool.description}`;
    registerFor(definition, () => harness.tools.register({ ...tool, description }));
  }
}

function registerFor({ path }: AgentDefinition, add: () => void): void {
  try {
    add();
  } catch (error) {
    if (!(error instanceof HarnessError)) throw error;
    throw new UsageError(`${path}: ${error.message}`, { cause: error });
  }
}

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

/** What the library refuses, in the words of the command line. */
function asUsageError(error: unknown): unknown {
  if (!(error instanceof HarnessError)) return error;
  const message = error.message.replace(/limits\.memoryMb|The limit memoryMb/u, '--memory-mb');
  return new UsageError(message, { cause: error });
}

const sentence = (text: string): string => (/[.?!:…)]$/u.test(text) ? text : `${text}.`);
