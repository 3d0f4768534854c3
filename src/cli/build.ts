/** From a plan to a harness with its tools, and to the root that begins in it. */
import {
  createHarness,
  HarnessError,
  installSubagentTools,
  openaiCompatible,
  SessionId,
  type Agent,
  type CreateAgentOptions,
  type Harness,
  type ObjectJsonSchema,
  type SubagentToolConfig,
} from '../index.ts';
import { rootOptionsOf, toolConfigOf, type AgentDefinition } from './definitions.ts';
import { FILE_SUMMARY_SCHEMA } from './embedded/summary.ts';
import { UsageError } from './exit-codes.ts';
import type { AgentPlan } from './input.ts';
import { mindStuckThreads } from './last-resort.ts';

/** How soon a turn that ran out of time has to obey before its thread is ended. */
const INTERRUPT_GRACE_MS = 500;
/** What comes with `--files`. */
const FILE_TOOLS: ReadonlySet<string> = new Set(['list_files', 'read_file']);
/** The name under which the models of --base-url are. */
export const SERVER = 'server';

/**
 * Build a harness, without its store first: what cannot be built is found before there is a file.
 *
 * @throws {UsageError} when the plan cannot be built.
 */
export async function build(given: AgentPlan, signal: AbortSignal): Promise<Harness> {
  const plan = given.files === undefined ? withoutFileTools(given) : given;
  const { store, toolModules, definitions } = plan;
  const namesTools = definitions.some(({ tools }) => tools !== undefined);
  // Only a thread can tell whether a module loads, and which tools it has.
  const needsThread = namesTools || (store !== undefined && toolModules.length > 0);
  if (store !== undefined || needsThread) {
    await using harness = await assemble(plan, undefined);
    if (needsThread) await rehearse(harness, plan, signal);
  }
  return assemble(plan, store);
}

/** Whom nobody gave files has no tools for them, and its definition is as good as before. */
function withoutFileTools(plan: AgentPlan): AgentPlan {
  const definitions = plan.definitions.map((definition) => {
    const { name, tools } = definition;
    // Whoever begins with it means it.
    if (tools === undefined || name === plan.root?.name) return definition;
    return { ...definition, tools: tools.filter((tool) => !FILE_TOOLS.has(tool)) };
  });
  return { ...plan, definitions };
}

/** @throws {UsageError} naming the definition that it is about, if it is about one. */
async function rehearse(harness: Harness, plan: AgentPlan, signal: AbortSignal): Promise<void> {
  const { definitions } = plan;
  const withTools = (tools: readonly string[]): Promise<unknown> => {
    const setup: CreateAgentOptions['setup'] = (child) =>
      void child.tools.restrict({ allow: tools });
    return createRoot(harness, { ...plan, root: undefined }, signal, setup);
  };
  try {
    await withTools(definitions.flatMap(({ tools = [] }) => tools));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    // It is one of them, or all that they have in common.
    await withTools([]).catch((common: Error) => {
      const named = definitions.find(({ name }) => common.message.includes(`\`${name}\``));
      throw named === undefined ? common : at(named.places.name, common);
    });
    for (const { tools = [], places } of definitions) {
      await withTools(tools).catch((own: Error) => {
        throw at(places.tools, own);
      });
    }
    throw error;
  }
}

const at = (place: string, error: Error): Error =>
  error instanceof UsageError
    ? new UsageError(`${place}: ${error.message}`, { cause: error })
    : error;

/** The agents are those of the plan, kept in `store` or nowhere. */
async function assemble(plan: AgentPlan, store: string | undefined): Promise<Harness> {
  const { server, files, cwd } = plan;
  let harness: Harness | undefined;
  try {
    harness = await createHarness({
      ...(store === undefined ? {} : { store }),
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
    mindStuckThreads(harness);
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
  if (outputSchema !== undefined && server === undefined) {
    throw new UsageError(
      '--output-schema needs a model: name one with --base-url and --model. The embedded scripted ' +
        'model knows no results but its own.',
    );
  }
  for (const [index, config] of named.entries()) {
    try {
      installSubagentTools(harness, { delegation: [config], ...NO_MORE });
    } catch (error) {
      if (!(error instanceof HarnessError)) throw error;
      const place = definitions[index]?.places.name;
      throw new UsageError(`${place}: ${error.message}`, { cause: error });
    }
  }
}

const NO_MORE = { control: false, jobs: false, report: false } as const;

/** A root, as the plan says what one is. */
export async function createRoot(
  harness: Harness,
  {
    root,
    cwd,
    server,
  }: Pick<AgentPlan, 'cwd' | 'server'> & {
    readonly root?: AgentDefinition | undefined;
  },
  signal: AbortSignal,
  setup?: CreateAgentOptions['setup'],
): Promise<Agent> {
  try {
    const { agent } = await harness.agents.create({
      ...(root === undefined ? {} : rootOptionsOf(root, server && SERVER)),
      ...(setup === undefined ? {} : { setup }),
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
