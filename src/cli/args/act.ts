/** The commands that act on sessions: `send`, `interrupt`, `drain`. */
import type { Command } from 'commander';
import { addAgentOptions, JSON_LINES, SESSION, STORE } from './options.ts';
import type { AgentArguments, SessionArguments } from './options.ts';

export interface SendArguments extends SessionArguments, AgentArguments {
  readonly text: string;
  /** A root that is brought back is one of this definition. */
  readonly agent?: string;
}

export function declareSend(program: Command, take: (given: SendArguments) => void): void {
  const command = program
    .command('send')
    .description('Tell a session something more. One that nobody runs is brought back here.')
    .argument('<store>', STORE)
    .argument('<session>', SESSION)
    .argument('<text...>', 'what to tell it (put it before --files, or after --)')
    .option('--agent <name>', 'a root that is brought back here is of this definition');
  addAgentOptions(command)
    .option('--json', JSON_LINES)
    .addHelpText('after', SEND_HELP)
    .action(
      (
        store: string,
        session: string,
        text: readonly string[],
        options: Omit<SendArguments, 'store' | 'session' | 'text'>,
      ) => take({ store, session, text: text.join(' ').trim(), ...options }),
    );
}

export function declareInterrupt(program: Command, take: (given: SessionArguments) => void): void {
  program
    .command('interrupt')
    .description('Stop the open turn of a session that another process runs.')
    .argument('<store>', STORE)
    .argument('<session>', SESSION)
    .option('--json', JSON_LINES)
    .addHelpText('after', INTERRUPT_HELP)
    .action((store: string, session: string, options: { readonly json?: true }) =>
      take({ store, session, ...options }),
    );
}

export function declareDrain(program: Command, take: (given: SessionArguments) => void): void {
  program
    .command('drain')
    .description('End all children that go on below a session which another process runs.')
    .argument('<store>', STORE)
    .argument('<session>', SESSION)
    .option('--json', JSON_LINES)
    .addHelpText('after', DRAIN_HELP)
    .action((store: string, session: string, options: { readonly json?: true }) =>
      take({ store, session, ...options }),
    );
}

const SEND_HELP = `
A session that runs is told by the process that runs it, which goes on by itself. Otherwise this
process brings it back (a child with the agents above it), waits for its answer and prints that;
it then needs the model and the tools that it had: the options of "run".

Examples:
  subagents send runs.db 3f9c 'And what about the tests?'
  subagents send runs.db 3f9c 'Go on.' --base-url http://127.0.0.1:8080/v1 --model qwen3

Exit codes: 0 accepted by who runs it, or answered here; 1 it was refused or its turn failed;
2 bad input, nothing was sent; 3 answered, but some delegations failed; 130 Ctrl-C; 143 SIGTERM.`;

const INTERRUPT_HELP = `
What waits for it, its children and its place stay; the next message goes on with it.

Examples:
  subagents interrupt runs.db 3f9c

Exit codes: 0 told to stop; 1 nobody runs it; 2 bad input, no store, or no such session.`;

const DRAIN_HELP = `
Nothing new is taken on below it until they have ended; what waits for them is discarded.

Examples:
  subagents drain runs.db 3f9c

Exit codes: 0 all have ended; 1 nobody runs it, or one could not be ended cleanly;
2 bad input, no store, or no such session.`;
