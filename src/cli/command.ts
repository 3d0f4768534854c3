/** The command without its process: from arguments and streams to an exit code. */
import { parseLine, type RunArguments } from './args.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { planRun, type RunPlan, type Surroundings } from './input.ts';
import { PlainLines } from './plain.ts';
import type { RunOutcome, RunWatcher } from './run.ts';
import type { RuntimeEvent } from './runtime-events.ts';
import { cleanLine, cleanText } from './text.ts';
import { TreeModel } from './tree-model.ts';

export interface Streams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/**
 * Carry out one command line. `signal` stops it; then this rejects with the signal's reason,
 * once everything it had begun is let go.
 */
export async function runCommand(
  argv: readonly string[],
  streams: Streams,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<number> {
  try {
    const line = parseLine(argv);
    if (line.kind === 'print') {
      streams.stdout.write(line.text);
      return EXIT.completed;
    }
    const plan = await planRun(line.arguments, surroundings, signal);
    const outcome = await runShown(plan, line.arguments, streams, surroundings, signal);
    return outcome.exitCode;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    streams.stderr.write(`subagents: ${cleanLine(error.message)}\n`);
    return EXIT.usage;
  }
}

/**
 * Run a plan and show it: events as JSON, or progress on stderr and the answer on stdout. The
 * first line comes with the first event, so that a plan that cannot be built prints nothing.
 */
export async function runShown(
  plan: RunPlan,
  { json }: Pick<RunArguments, 'json'>,
  { stdout, stderr }: Streams,
  { env }: Pick<Surroundings, 'env'>,
  signal: AbortSignal,
): Promise<RunOutcome> {
  // Loaded only now: what is refused before needs none of it.
  const { run } = await import('./run.ts');
  const tree = new TreeModel();
  if (json === true) {
    const write = (value: object): void => void stdout.write(`${JSON.stringify(value)}\n`);
    const start = { type: 'run/start', model: plan.server?.model ?? 'embedded scripted model' };
    const outcome = await run(plan, { tree, tell: after(() => write(start), write) }, signal);
    write({ type: 'run/end', ...outcome });
    return outcome;
  }
  const tell = (line: string): void => void stderr.write(`${line}\n`);
  const view = await openView(tree, stderr, env);
  try {
    const watcher = { tree, tell: after(() => tell(headline(plan)), view.tell) };
    const outcome = await run(plan, watcher, signal);
    view.close();
    if (outcome.answer !== '') stdout.write(`${cleanText(outcome.answer)}\n`);
    for (const line of problems(outcome, plan)) tell(line);
    return outcome;
  } finally {
    view.close();
  }
}

/** `tell`, and `begin` once before it. */
function after(begin: () => void, tell: RunWatcher['tell']): RunWatcher['tell'] {
  let hasBegun = false;
  return (event) => {
    if (!hasBegun) begin();
    hasBegun = true;
    tell(event);
  };
}

const headline = ({ server }: RunPlan): string =>
  server === undefined
    ? 'No model was named: using the embedded scripted model (a program, not a language model).'
    : `Model ${cleanLine(server.model)} at ${server.baseURL}`;

interface View {
  tell(event: RuntimeEvent): void;
  close(): void;
}

async function openView(
  tree: TreeModel,
  stderr: NodeJS.WriteStream,
  env: Surroundings['env'],
): Promise<View> {
  if (!stderr.isTTY || env['TERM'] === 'dumb') {
    const plain = new PlainLines(tree, (line) => void stderr.write(`${line}\n`));
    return { tell: (event) => plain.tell(event), close: () => {} };
  }
  const { LiveTree } = await import('./live-tree.ts');
  const live = new LiveTree(tree, stderr, (env['NO_COLOR'] ?? '') === '');
  return { tell: () => {}, close: () => live.close() };
}

function* problems({ failure, failedDelegations }: RunOutcome, plan: RunPlan): Iterable<string> {
  for (const { label, code, message } of failedDelegations) {
    yield `Failed: ${cleanLine(label)}: ${code}: ${cleanLine(message)}`;
  }
  if (failure === undefined) return;
  const hint = plan.server === undefined ? undefined : HINTS[failure.code];
  yield `subagents: the task failed: ${failure.code}: ${cleanLine(failure.message)}${
    hint === undefined ? '' : ` ${hint}`
  }`;
}

/** What a person can do about a failure of the model's server. */
const HINTS: Readonly<Record<string, string>> = {
  AUTH: 'Is the key right that --api-key-env names?',
  INVALID_REQUEST: 'Are --model and --base-url right?',
  MISSING_CREDENTIAL: 'Name the variable that holds the key with --api-key-env.',
  TRANSPORT: 'Does the server still run?',
};
