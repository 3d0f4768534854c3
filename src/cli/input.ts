/**
 * From the command line to what a run needs. Everything that can be wrong with the input is
 * found here, before a store, a thread or a session exists.
 */
import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ObjectJsonSchema } from '../index.ts';
import type { AgentArguments, ModelArguments } from './args/options.ts';
import type { RunArguments } from './args/run.ts';
import { assertFile, reasonOf } from './checks.ts';
import { definitionOf, loadDefinitions } from './definitions.ts';
import type { AgentDefinition } from './definitions.ts';
import { UsageError } from './exit-codes.ts';
import { findFiles } from './find-files.ts';
import { assertReachable } from './reachable.ts';
import { readText } from './read-text.ts';
import { withoutSecrets } from './text.ts';

export interface ModelServer {
  readonly baseURL: string;
  readonly model: string;
  readonly apiKey?: string;
}

/** What agents are made of, checked. */
export interface AgentPlan {
  readonly cwd: string;
  /** Paths that start from `cwd`; absent when no files were given. */
  readonly files?: readonly string[];
  readonly toolModules: readonly URL[];
  readonly definitions: readonly AgentDefinition[];
  /** What a root is; absent: an agent without a definition. */
  readonly root?: AgentDefinition;
  readonly outputSchema?: ObjectJsonSchema;
  /** Absent: the embedded scripted model. */
  readonly server?: ModelServer;
  readonly store?: string;
  readonly limits: { readonly turnMs?: number; readonly memoryMb?: number | 'unlimited' };
}

/** A run, checked. */
export interface RunPlan extends AgentPlan {
  readonly task: string;
}

export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * When `signal` aborts, whatever is waited for is given up and the promise rejects with its reason.
 *
 * @throws {UsageError} naming what to change.
 */
export async function planRun(
  args: RunArguments,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<RunPlan> {
  const task = await readTask(args, { cwd: surroundings.cwd, signal });
  return { task, ...(await planAgents(args, surroundings, signal)) };
}

/** The same for agents that are given their tasks later. */
export async function planAgents(
  args: AgentArguments & { readonly agent?: string; readonly store?: string },
  { cwd, env }: Surroundings,
  signal: AbortSignal,
): Promise<AgentPlan> {
  const definitions = await loadDefinitions(args.agents, { cwd, signal });
  const root = args.agent === undefined ? undefined : rootOf(args.agent, args, definitions);
  const server = modelServer(args, root?.model, env);
  const files = args.files === undefined ? undefined : await findFiles(args.files, cwd, signal);
  const toolModules = await Promise.all((args.tools ?? []).map((path) => toolModule(path, cwd)));
  const schema =
    args.outputSchema === undefined
      ? undefined
      : await readSchema(args.outputSchema, { cwd, signal });
  const store = args.store === undefined ? undefined : await storeFile(resolve(cwd, args.store));
  if (server !== undefined) await assertReachable(server.baseURL, signal);
  const { turnMs, memoryMb } = args;
  return {
    cwd,
    toolModules,
    definitions,
    limits: {
      ...(turnMs === undefined ? {} : { turnMs }),
      ...(memoryMb === undefined ? {} : { memoryMb }),
    },
    ...(root === undefined ? {} : { root }),
    ...(files === undefined ? {} : { files }),
    ...(schema === undefined ? {} : { outputSchema: schema }),
    ...(server === undefined ? {} : { server }),
    ...(store === undefined ? {} : { store }),
  };
}

/** What the command line says of its model wins over its definition. */
function rootOf(
  name: string,
  { agents, model }: AgentArguments,
  definitions: readonly AgentDefinition[],
): AgentDefinition {
  const { model: own, ...root } = definitionOf(definitions, name, agents);
  return model === undefined && own !== undefined ? { ...root, model: own } : root;
}

type Reading = Parameters<typeof readText>[0];

async function readTask(
  { prompt, taskFile, files }: RunArguments,
  reading: Reading,
): Promise<string> {
  if (taskFile !== undefined && prompt !== '') {
    throw new UsageError('Give the task either as a prompt or with --task-file, not both.');
  }
  const task =
    taskFile === undefined
      ? prompt
      : (await readText(reading, taskFile, `the task file "${taskFile}"`)).trim();
  if (task !== '') return task;
  if (taskFile !== undefined) throw new UsageError(`The task file "${taskFile}" is empty.`);
  const hint = files === undefined ? '' : ' A prompt goes before --files, or after --.';
  throw new UsageError(`There is no task: give a prompt or --task-file <path>.${hint}`);
}

/** `own`: the model that the definition of the root names. */
function modelServer(
  { model: given, baseUrl, apiKeyEnv }: ModelArguments,
  own: string | undefined,
  env: Surroundings['env'],
): ModelServer | undefined {
  if (baseUrl === undefined) {
    if (given !== undefined) {
      throw new UsageError(
        `No server for the model "${given}": name one with --base-url, or leave --model out to ` +
          'use the embedded scripted model.',
      );
    }
    if (apiKeyEnv !== undefined)
      throw new UsageError('--api-key-env needs --base-url and --model.');
    return undefined;
  }
  const model = given ?? own;
  if (model === undefined) {
    throw new UsageError('--base-url needs --model: the name of a model of that server.');
  }
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new UsageError(
      `"${withoutSecrets(baseUrl)}" is no address of a server: --base-url takes one such as ` +
        'http://127.0.0.1:8080/v1.',
    );
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError(
      `--base-url takes no user name and no password, as in "${withoutSecrets(baseUrl)}": put a ` +
        'key in an environment variable, and name that with --api-key-env.',
    );
  }
  if (apiKeyEnv === undefined) return { baseURL: baseUrl, model };
  const apiKey = env[apiKeyEnv];
  if (apiKey !== undefined && apiKey !== '') return { baseURL: baseUrl, model, apiKey };
  throw new UsageError(
    `The environment variable ${apiKeyEnv} is not set: put the API key for ${url.host} in it.`,
  );
}

async function toolModule(path: string, cwd: string): Promise<URL> {
  await assertFile(resolve(cwd, path), path);
  return pathToFileURL(resolve(cwd, path));
}

async function readSchema(path: string, reading: Reading): Promise<ObjectJsonSchema> {
  const text = await readText(reading, path, `the output schema "${path}"`);
  try {
    return JSON.parse(text) as ObjectJsonSchema;
  } catch (error) {
    throw new UsageError(`The output schema "${path}" is no JSON: ${reasonOf(error)}.`, {
      cause: error,
    });
  }
}

/** @throws {UsageError} when a store cannot be at `path`. */
export async function storeFile(path: string): Promise<string> {
  const folder = dirname(path);
  const status = await stat(folder).catch((error: unknown) => {
    throw new UsageError(`Cannot keep the store in "${folder}": ${reasonOf(error)}.`, {
      cause: error,
    });
  });
  if (!status.isDirectory()) throw new UsageError(`"${folder}" is no folder to keep the store in.`);
  const existing = await stat(path).catch(() => undefined);
  if (existing?.isFile() === false) throw new UsageError(`The store "${path}" is no file.`);
  return path;
}
