/**
 * From the command line to what a run needs. Everything that can be wrong with the input is
 * found here, before a store, a thread or a session exists.
 */
import { constants } from 'node:fs';
import { access, readFile, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { escapePath, glob, isDynamicPattern } from 'tinyglobby';
import type { ObjectJsonSchema } from '../index.ts';
import type { RunArguments } from './args.ts';
import { UsageError } from './exit-codes.ts';

export interface ModelServer {
  readonly baseURL: string;
  readonly model: string;
  readonly apiKey?: string;
}

/** A run, checked. */
export interface RunPlan {
  readonly task: string;
  readonly cwd: string;
  /** Paths below `cwd`, or absolute; absent when no files were given. */
  readonly files?: readonly string[];
  readonly toolModules: readonly URL[];
  readonly outputSchema?: ObjectJsonSchema;
  /** Absent: the embedded scripted model. */
  readonly server?: ModelServer;
  readonly store?: string;
  readonly limits: { readonly turnMs?: number; readonly memoryMb?: number };
}

export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const MAX_FILES = 5000;
const CONNECT_MS = 5000;

/** @throws {UsageError} naming what to change. */
export async function planRun(args: RunArguments, { cwd, env }: Surroundings): Promise<RunPlan> {
  const task = await readTask(args, cwd);
  const server = modelServer(args, env);
  const files = args.files === undefined ? undefined : await findFiles(args.files, cwd);
  const toolModules = await Promise.all((args.tools ?? []).map((path) => toolModule(path, cwd)));
  const schema =
    args.outputSchema === undefined ? undefined : await readSchema(resolve(cwd, args.outputSchema));
  const store = args.store === undefined ? undefined : await storeFile(resolve(cwd, args.store));
  if (server !== undefined) await assertReachable(server.baseURL);
  const { turnMs, memoryMb } = args;
  return {
    task,
    cwd,
    toolModules,
    limits: {
      ...(turnMs === undefined ? {} : { turnMs }),
      ...(memoryMb === undefined ? {} : { memoryMb }),
    },
    ...(files === undefined ? {} : { files }),
    ...(schema === undefined ? {} : { outputSchema: schema }),
    ...(server === undefined ? {} : { server }),
    ...(store === undefined ? {} : { store }),
  };
}

async function readTask({ prompt, taskFile, files }: RunArguments, cwd: string): Promise<string> {
  if (taskFile !== undefined && prompt !== '') {
    throw new UsageError('Give the task either as a prompt or with --task-file, not both.');
  }
  const task =
    taskFile === undefined ? prompt : (await readText(resolve(cwd, taskFile), 'task file')).trim();
  if (task !== '') return task;
  if (taskFile !== undefined) throw new UsageError(`The task file "${taskFile}" is empty.`);
  const hint = files === undefined ? '' : ' A prompt goes before --files, or after --.';
  throw new UsageError(`There is no task: give a prompt or --task-file <path>.${hint}`);
}

function modelServer(
  { model, baseUrl, apiKeyEnv }: RunArguments,
  env: Surroundings['env'],
): ModelServer | undefined {
  if (baseUrl === undefined) {
    if (model !== undefined) {
      throw new UsageError(
        `No server for the model "${model}": name one with --base-url, or leave --model out to ` +
          'use the embedded scripted model.',
      );
    }
    if (apiKeyEnv !== undefined)
      throw new UsageError('--api-key-env needs --base-url and --model.');
    return undefined;
  }
  if (model === undefined) {
    throw new UsageError('--base-url needs --model: the name of a model of that server.');
  }
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new UsageError(
      `"${baseUrl}" is no address of a server: --base-url takes one such as http://127.0.0.1:8080/v1.`,
    );
  }
  if (apiKeyEnv === undefined) return { baseURL: baseUrl, model };
  const apiKey = env[apiKeyEnv];
  if (apiKey !== undefined && apiKey !== '') return { baseURL: baseUrl, model, apiKey };
  throw new UsageError(
    `The environment variable ${apiKeyEnv} is not set: put the API key for ${url.host} in it.`,
  );
}

async function findFiles(patterns: readonly string[], cwd: string): Promise<readonly string[]> {
  const portable: string[] = [];
  for (const pattern of patterns) {
    const isFile = await stat(resolve(cwd, pattern)).then(
      (status) => status.isFile(),
      () => false,
    );
    if (!isFile && !pattern.startsWith('!') && !isDynamicPattern(pattern)) {
      await assertFile(resolve(cwd, pattern), pattern);
    }
    // A file of that very name is meant, whatever its name would match as a pattern.
    portable.push(isFile ? escapePath(toSlashes(pattern)) : toSlashes(pattern));
  }
  const ignore = portable.some((pattern) => pattern.includes('node_modules'))
    ? []
    : ['**/node_modules/**'];
  const found = await glob(portable, { cwd, ignore, expandDirectories: false });
  if (found.length === 0) {
    throw new UsageError(`No file matches --files ${patterns.join(' ')} in ${cwd}.`);
  }
  if (found.length > MAX_FILES) {
    throw new UsageError(
      `--files matches ${found.length} files; at most ${MAX_FILES} can be given to one run.`,
    );
  }
  for (const path of found) await assertReadable(resolve(cwd, path), path);
  return found.sort();
}

const toSlashes = (path: string): string => (sep === '\\' ? path.replaceAll('\\', '/') : path);

async function assertFile(absolute: string, path: string): Promise<void> {
  const status = await stat(absolute).catch((error: unknown) => {
    throw new UsageError(`Cannot read "${path}": ${reasonOf(error)}.`, { cause: error });
  });
  if (status.isDirectory()) {
    throw new UsageError(`"${path}" is a folder: name its files, for example "${path}/**/*.md".`);
  }
}

async function assertReadable(absolute: string, path: string): Promise<void> {
  await access(absolute, constants.R_OK).catch((error: unknown) => {
    throw new UsageError(`Cannot read "${path}": ${reasonOf(error)}.`, { cause: error });
  });
}

async function toolModule(path: string, cwd: string): Promise<URL> {
  await assertFile(resolve(cwd, path), path);
  return pathToFileURL(resolve(cwd, path));
}

async function readSchema(path: string): Promise<ObjectJsonSchema> {
  const text = await readText(path, 'output schema');
  try {
    return JSON.parse(text) as ObjectJsonSchema;
  } catch (error) {
    throw new UsageError(`The output schema "${path}" is no JSON: ${reasonOf(error)}.`, {
      cause: error,
    });
  }
}

async function storeFile(path: string): Promise<string> {
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

async function readText(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`Cannot read the ${what} "${path}": ${reasonOf(error)}.`, {
      cause: error,
    });
  }
}

/** One connection, closed at once: a wrong address should not cost a run and its retries. */
async function assertReachable(baseURL: string): Promise<void> {
  const { hostname, port, protocol, origin } = new URL(baseURL);
  const socket = connect({
    host: hostname.replace(/^\[(.*)\]$/u, '$1'),
    port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    timeout: CONNECT_MS,
  });
  try {
    await new Promise<void>((connected, failed) => {
      socket.once('connect', connected);
      socket.once('error', failed);
      socket.once('timeout', () => failed(new Error(`no answer within ${CONNECT_MS / 1000} s`)));
    });
  } catch (error) {
    throw new UsageError(
      `Cannot reach ${origin}: ${reasonOf(error)}. Is the server running, and is --base-url right?`,
      { cause: error },
    );
  } finally {
    socket.destroy();
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of its path is no folder',
  EACCES: 'permission denied',
  EISDIR: 'it is a folder',
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'the host name is not known',
};

function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  return REASONS[code ?? ''] ?? code ?? message ?? 'it failed';
}
