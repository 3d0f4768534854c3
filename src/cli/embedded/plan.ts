/**
 * What the embedded model answers: a function of one request. It keeps nothing between
 * requests; where a task stands is read from the calls and results that the request shows.
 */
import type { Json } from '../../index.ts';
import { pageText } from '../tools/page.ts';
import type { Conversation, PastCall } from './conversation.ts';
import { parseSummary, summarize, type FileSummary } from './summary.ts';
import { counted, summaryTable, type FailedDelegation } from './table.ts';

/** One answer: some text, and tools to call. */
export interface Answer {
  readonly text: string;
  readonly calls: readonly PlannedCall[];
}
export interface PlannedCall {
  readonly name: string;
  readonly arguments: { readonly [key: string]: Json };
}

/** Delegations that one response asks for, and so the children that run together. */
export const DELEGATIONS_PER_RESPONSE = 8;

export function plan(conversation: Conversation): Answer {
  if (conversation.tools.has('structured_output')) return planChild(conversation);
  const mayDelegate = conversation.tools.has('subagent');
  const jobs = mayDelegate ? callsAskedFor(conversation.task) : [];
  if (!conversation.tools.has('list_files')) {
    return jobs.length === 0 ? says(INTRODUCTION) : planDelegations(conversation, jobs);
  }
  const listed = conversation.calls.find((call) => call.name === 'list_files');
  if (listed === undefined) return calls('I look at which files there are.', ['list_files', {}]);
  if (listed.result === undefined || listed.result.isError) {
    return says(`I could not list the files: ${listed.result?.text ?? 'no result'}`);
  }
  const files = listed.result.text.split('\n').filter((line) => line !== '');
  return mayDelegate
    ? planDelegations(conversation, [...files.map(fileJob), ...jobs])
    : planAlone(conversation, files);
}

interface Job {
  readonly name: string;
  readonly prompt: string;
}

const fileJob = (file: string): Job => ({
  name: file,
  prompt: `Read the file ${JSON.stringify(file)} and hand in its summary.`,
});

/** Lines of a task such as "- call `name`": each is a child that calls that tool. */
function callsAskedFor(task: string): readonly Job[] {
  return [...task.matchAll(/^[-*] call `([\w-]+)`/gimu)].map(([, tool = '']) => ({
    name: tool,
    prompt: `Call the tool \`${tool}\`.`,
  }));
}

/** One child per job, some at a time; when all have answered, one table. */
function planDelegations({ calls: past }: Conversation, jobs: readonly Job[]): Answer {
  const made = past.filter((call) => call.name === 'subagent');
  const next = jobs.slice(made.length, made.length + DELEGATIONS_PER_RESPONSE);
  if (next.length > 0) {
    return calls(
      `I delegate ${made.length + 1} to ${made.length + next.length} of ${jobs.length}.`,
      ...next.map(({ name, prompt }): CallTuple => ['subagent', { description: name, prompt }]),
    );
  }
  const summaries: FileSummary[] = [];
  const failures: FailedDelegation[] = [];
  for (const [index, job] of jobs.entries()) {
    const result = made[index]?.result;
    const summary = result?.isError === false ? parseSummary(result.text) : undefined;
    if (summary !== undefined) summaries.push(summary);
    else failures.push({ name: job.name, reason: reasonOf(result) });
  }
  const title = `Summaries by ${counted(jobs.length, 'child agent')} of the embedded scripted model:`;
  return says(`${title}\n\n${summaryTable(summaries, failures)}`);
}

/** Without a tool to delegate with: it reads the files itself, some at a time. */
function planAlone({ calls: past, tools }: Conversation, files: readonly string[]): Answer {
  if (!tools.has('read_file')) return says('I have no tool to read a file with, or to delegate.');
  const summaries: FileSummary[] = [];
  const failures: FailedDelegation[] = [];
  const next: CallTuple[] = [];
  const pages = new Map<string, PastCall[]>(files.map((file) => [file, []]));
  for (const call of past) {
    if (call.name === 'read_file') pages.get(pathIn(call))?.push(call);
  }
  for (const [file, calls] of pages) {
    const { text, failure, offset } = readPages(calls);
    if (failure !== undefined) failures.push({ name: file, reason: failure });
    else if (offset === undefined) summaries.push(summarize(file, text));
    else if (next.length < DELEGATIONS_PER_RESPONSE) next.push(pageCall(file, offset));
  }
  if (next.length > 0) return calls('', ...next);
  return says(
    `${counted(files.length, 'file')}, read without delegating by the embedded scripted model:` +
      `\n\n${summaryTable(summaries, failures)}`,
  );
}

const pathIn = (call: PastCall): string =>
  String((JSON.parse(call.arguments) as { readonly path?: unknown }).path);

/** The diagnostic if the failure carries one, else the first line that says something. */
function reasonOf(result: PastCall['result']): string {
  if (result === undefined) return 'it gave no result';
  if (!result.isError) return 'it returned no summary of a file';
  const diagnostic = /^Diagnostic: (.*)$/mu.exec(result.text)?.[1];
  return diagnostic ?? result.text.split('\n').find((line) => line.trim() !== '') ?? 'it failed';
}

function planChild(conversation: Conversation): Answer {
  const last = conversation.calls.at(-1);
  if (last?.name === 'structured_output') {
    return says(`My summary was not accepted: ${last.result?.text ?? 'no result'}`);
  }
  const tool = /^Call the tool `([\w-]+)`\.$/u.exec(conversation.task)?.[1];
  if (tool !== undefined) {
    if (!conversation.tools.has(tool)) return says(`There is no tool ${tool} here.`);
    return last === undefined
      ? calls('', [tool, {}])
      : says(`${tool} answered: ${last.result?.text ?? 'nothing'}`);
  }
  const file = fileAskedFor(conversation.task);
  if (file === undefined) return says(INTRODUCTION);
  if (!conversation.tools.has('read_file')) return says('I have no tool to read a file with.');
  return planReading(conversation, file);
}

/** Page after page until the end; then the summary of all of it. */
function planReading({ calls: past }: Conversation, file: string): Answer {
  const { text, failure, offset } = readPages(past.filter(({ name }) => name === 'read_file'));
  if (failure !== undefined) return says(`I could not read ${file}: ${failure}`);
  return offset === undefined
    ? calls('', ['structured_output', { ...summarize(file, text) }])
    : calls('', pageCall(file, offset));
}

/** What was read of one file; `offset` is where to go on, and absent at the end. */
function readPages(read: readonly PastCall[]): {
  readonly text: string;
  readonly failure?: string;
  readonly offset?: number;
} {
  let text = '';
  let offset = 0;
  for (const { result } of read) {
    if (result === undefined || result.isError) {
      return { text, failure: result?.text ?? 'no result' };
    }
    const page = pageText(result.text);
    text += page.text;
    if (page.next === undefined) return { text };
    offset = page.next;
  }
  return { text, offset };
}

const pageCall = (path: string, offset: number): CallTuple => [
  'read_file',
  offset === 0 ? { path } : { path, offset },
];

function fileAskedFor(task: string): string | undefined {
  const quoted = /^Read the file ("(?:[^"\\]|\\.)*") /u.exec(task)?.[1];
  return quoted === undefined ? undefined : (JSON.parse(quoted) as string);
}

type CallTuple = readonly [name: string, args: PlannedCall['arguments']];
const says = (text: string): Answer => ({ text, calls: [] });
const calls = (text: string, ...made: readonly CallTuple[]): Answer => ({
  text,
  calls: made.map(([name, args]) => ({ name, arguments: args })),
});

const INTRODUCTION = [
  'I am the embedded scripted model: a program, not a language model, so I cannot answer that.',
  'Given files I delegate one child agent per file and merge their summaries into a table:',
  '',
  "  subagents run 'Summarise the files' --files 'src/**/*.ts' '*.md'",
  '',
  'For a real answer, name a model of an OpenAI-compatible server:',
  '',
  "  subagents run '…' --base-url http://127.0.0.1:8080/v1 --model NAME --api-key-env KEY",
].join('\n');
