import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import { addAgentOptions } from './options.ts';
import type { AgentArguments } from './options.ts';

export interface ServeArguments extends AgentArguments {
  readonly stdio?: true;
  readonly http?: true;
  readonly host?: string;
  readonly port?: number;
  readonly tokenEnv?: string;
  readonly store?: string;
}

export function declareServe(program: Command, take: (given: ServeArguments) => void): void {
  const command = program
    .command('serve')
    .description('Let other programs run agents here, by stdin and stdout or by HTTP.')
    .option('--stdio', 'JSON-RPC, one message a line: the far end of the `remote` provider')
    .option('--http', 'HTTP with server-sent events, and /metrics')
    .option('--host <address>', 'where --http listens (default: 127.0.0.1)')
    .option('--port <number>', 'its port (default: any that is free)', port)
    .option('--token-env <name>', 'environment variable with the token (default: a new one)');
  addAgentOptions(command)
    .option('--store <file>', 'SQLite file that keeps the sessions (default: they are not kept)')
    .addHelpText('after', HELP)
    .action((options: ServeArguments) => take(options));
}

function port(text: string): number {
  if (/^\d{1,5}$/u.test(text) && Number(text) < 65_536) return Number(text);
  throw new InvalidArgumentError('It has to be a port: 0 to 65535.');
}

const HELP = `
With --stdio, stdout belongs to the protocol; what a person reads is on stderr. With --http the
address and a token that was made are printed on stdout; each request carries the token as
"Authorization: Bearer <token>".

Examples:
  subagents serve --stdio --store runs.db
  subagents serve --http --port 8787 --token-env SUBAGENTS_TOKEN
  subagents serve --http --base-url http://127.0.0.1:8080/v1 --model qwen3

Exit codes: 0 it was asked to end, or its client is gone; 1 it could not be ended cleanly;
2 bad input, nothing was served; 130 Ctrl-C; 143 SIGTERM.`;
