/** A run and what a person or a program sees of it. */
import type { RuntimeEvent } from '../index.ts';
import type { RunArguments } from './args/run.ts';
import type { Streams } from './call.ts';
import { Stopped } from './exit-codes.ts';
import type { AgentPlan, RunPlan, Surroundings } from './input.ts';
import { PlainLines } from './plain.ts';
import type { Begin, RunOutcome, RunWatcher } from './run.ts';
import { cleanLine, cleanText, withoutSecrets } from './text.ts';
import { TreeModel } from './tree-model.ts';

/**
 * Run a plan and show it: events as JSON, or progress on stderr and the answer on stdout. The
 * first line comes with the first event, so that a plan that cannot be built prints nothing.
 */
export function runShown(
  plan: RunPlan,
  given: Pick<RunArguments, 'json'>,
  streams: Omit<Streams, 'stdin'>,
  surroundings: Pick<Surroundings, 'env'>,
  signal: AbortSignal,
): Promise<RunOutcome> {
  // Loaded only then: what is refused before needs none of it.
  const begin: Begin = async (...args) => (await import('./run.ts')).beginRun(plan)(...args);
  return showRun(plan, begin, given, streams, surroundings, signal);
}

/** The same for anything that agents can be told to do. */
export async function showRun(
  plan: AgentPlan,
  begin: Begin,
  { json }: Pick<RunArguments, 'json'>,
  { stdout, stderr }: Omit<Streams, 'stdin'>,
  { env }: Pick<Surroundings, 'env'>,
  signal: AbortSignal,
): Promise<RunOutcome> {
  const tree = new TreeModel();
  if (json === true) return runAsJson(plan, begin, tree, stdout, signal);
  const { run } = await import('./run.ts');
  const tell = (line: string): void => void stderr.write(`${line}\n`);
  const view = await openView(tree, stderr, env);
  try {
    const watcher = { tree, tell: after(() => tell(headline(plan)), view.tell) };
    const outcome = await run(plan, begin, watcher, signal);
    view.close();
    if (outcome.answer !== '') stdout.write(`${cleanText(outcome.answer)}\n`);
    // A screen shows the answer as well as the progress, if both go there.
    const isAnswerSeen = !stderr.isTTY || stdout.isTTY;
    for (const line of problems(outcome, plan, isAnswerSeen)) tell(line);
    return outcome;
  } finally {
    view.close();
  }
}

/** Also a run that is stopped ends with its outcome, if it has begun. */
async function runAsJson(
  plan: AgentPlan,
  begin: Begin,
  tree: TreeModel,
  stdout: NodeJS.WriteStream,
  signal: AbortSignal,
): Promise<RunOutcome> {
  const { run } = await import('./run.ts');
  const write = (value: object): void => void stdout.write(`${JSON.stringify(value)}\n`);
  const end = (outcome: RunOutcome): void => write({ type: 'run/end', ...outcome });
  let hasBegun = false;
  const start = (): void => {
    hasBegun = true;
    write({ type: 'run/start', model: plan.server?.model ?? 'embedded scripted model' });
  };
  try {
    const outcome = await run(plan, begin, { tree, tell: after(start, write) }, signal);
    end(outcome);
    return outcome;
  } catch (error) {
    if (hasBegun && signal.reason instanceof Stopped) {
      end({
        exitCode: signal.reason.exitCode,
        answer: '',
        failure: tree.root?.failure ?? { code: 'ABORTED', message: signal.reason.message },
        failedDelegations: tree.failures(),
      });
    }
    throw error;
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

const headline = ({ server }: AgentPlan): string =>
  server === undefined
    ? 'No model was named: using the embedded scripted model (a program, not a language model).'
    : `Model ${cleanLine(server.model)} at ${withoutSecrets(server.baseURL)}`;

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
  const live = new LiveTree(tree, stderr, { color: (env['NO_COLOR'] ?? '') === '' });
  return { tell: () => {}, close: () => live.close() };
}

function* problems(
  { answer, failure, failedDelegations }: RunOutcome,
  { server }: AgentPlan,
  isAnswerSeen: boolean,
): Iterable<string> {
  // The embedded model lists what failed at the end of its answer; another model may not.
  const listed = server === undefined && isAnswerSeen ? answer : '';
  for (const { label, code, message } of failedDelegations) {
    if (listed.includes(`\n- ${label}: `)) continue;
    yield `Failed: ${cleanLine(label)}: ${code}: ${cleanLine(message)}`;
  }
  if (failure === undefined) return;
  const hint = server === undefined ? undefined : HINTS[failure.code];
  yield `subagents: the task failed: ${failure.code}: ${sentence(cleanLine(failure.message))}${
    hint === undefined ? '' : ` ${hint}`
  }`;
}

/** What another program said, so that more can follow it. */
const sentence = (text: string): string => (/[.?!:…)]$/u.test(text) ? text : `${text}.`);

/** What a person can do about a failure of the model's server. */
const HINTS: Readonly<Record<string, string>> = {
  AUTH: 'Is the key right that --api-key-env names?',
  INVALID_REQUEST: 'Are --model and --base-url right?',
  MISSING_CREDENTIAL: 'Name the variable that holds the key with --api-key-env.',
  TRANSPORT: 'Does the server still run?',
};
