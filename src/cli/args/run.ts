import type { Command } from 'commander';
import { addAgentOptions } from './options.ts';
import type { AgentArguments } from './options.ts';

/** The command line as it was given; nothing of it is checked against the world yet. */
export interface RunArguments extends AgentArguments {
  readonly prompt: string;
  readonly taskFile?: string;
  /** The root is one of this definition. */
  readonly agent?: string;
  readonly store?: string;
  readonly json?: true;
}

export function declareRun(program: Command, take: (given: RunArguments) => void): void {
  const command = program
    .command('run')
    .description('Give a task to a root agent and print its answer.')
    .argument('[prompt...]', 'the task (put it before --files, or after --)')
    .option('--task-file <path>', 'read the task from a file')
    .option('--agent <name>', 'the root is the agent that is defined under this name');
  addAgentOptions(command)
    .option('--store <file>', 'SQLite file that keeps the sessions (default: they are not kept)')
    .option('--json', 'print every event as one line of JSON on stdout')
    .addHelpText('after', HELP)
    .action((prompt: readonly string[], options: Omit<RunArguments, 'prompt'>) =>
      take({ prompt: prompt.join(' ').trim(), ...options }),
    );
}

const HELP = `
Without --model the embedded scripted model is used: no key, no network, no language model.
With --store, other terminals reach the run by that file: ls, show, send, interrupt, drain.

Examples:
  subagents run 'Summarise the files.' --files 'src/**/*.ts' '*.md'
  subagents run --task-file task.md --store runs.db
  subagents run 'Review this change.' --agent reviewer --files '**/*.ts' \\
    --base-url http://127.0.0.1:8080/v1 --model qwen3 --api-key-env LLM_KEY

Exit codes: 0 completed; 1 the root's turn failed; 2 bad input, nothing was run;
3 completed, but some delegations failed; 130 Ctrl-C; 143 SIGTERM.
A stdout that is closed early ends the run, quietly and with 0.`;
