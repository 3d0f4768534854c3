/** What several commands take, and how its values are read. */
import { InvalidArgumentError, Option } from 'commander';
import type { Command } from 'commander';

/** Which model answers. */
export interface ModelArguments {
  readonly model?: string;
  readonly baseUrl?: string;
  readonly apiKeyEnv?: string;
}

/** What agents are made of. */
export interface AgentArguments extends ModelArguments {
  readonly files?: readonly string[];
  readonly tools?: readonly string[];
  readonly agents?: string;
  readonly outputSchema?: string;
  readonly turnMs?: number;
  readonly memoryMb?: number | 'unlimited';
}

export interface StoreArguments {
  readonly store: string;
  readonly json?: true;
}

/** Of one session in a store. */
export interface SessionArguments extends StoreArguments {
  /** An id, or a part of one that only one session has at its beginning or its end. */
  readonly session: string;
}

export const STORE = 'an SQLite file that sessions are kept in; it may be in use';
export const SESSION = 'an id, or enough of its beginning or its end';
export const JSON_LINES = 'print lines of JSON, for programs';

function addModelOptions(command: Command): Command {
  return command
    .option('--base-url <url>', 'an OpenAI-compatible server, e.g. http://127.0.0.1:8080/v1')
    .option('--model <name>', 'a model of that server')
    .option('--api-key-env <name>', 'environment variable that holds the API key');
}

export function addAgentOptions(command: Command): Command {
  command
    .option(
      '--files <glob...>',
      'files the agents may list and read; "!glob" leaves files out, and node_modules is left ' +
        'out unless named',
    )
    .option('--tools <module...>', "ES modules with more tools, loaded in each agent's thread")
    .option('--agents <folder>', 'definitions of agents to delegate to (default: .agents)')
    .option(
      '--output-schema <path>',
      'JSON Schema that the result of every child must satisfy; needs --model',
    );
  return addModelOptions(command)
    .option('--turn-ms <ms>', 'time limit of each turn of a child', positiveInteger)
    .option('--memory-mb <mb>', `heap limit of each agent's thread, or "unlimited"`, memoryLimit);
}

/** A number of milliseconds, of agents, … */
export const countOption = (flags: string, description: string): Option =>
  new Option(flags, description).argParser(positiveInteger);

function positiveInteger(text: string): number {
  if (isPositiveInteger(text)) return Number(text);
  throw new InvalidArgumentError('It has to be a whole number above 0.');
}

export function wholeNumber(text: string): number {
  if (text === '0') return 0;
  if (isPositiveInteger(text)) return Number(text);
  throw new InvalidArgumentError('It has to be a whole number of at least 0.');
}

function memoryLimit(text: string): number | 'unlimited' {
  if (text === 'unlimited') return text;
  if (isPositiveInteger(text)) return Number(text);
  throw new InvalidArgumentError('It has to be a whole number above 0, or "unlimited".');
}

const isPositiveInteger = (text: string): boolean =>
  /^\d+$/u.test(text) && Number(text) > 0 && Number.isSafeInteger(Number(text));
