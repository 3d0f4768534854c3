/** The tools for one-shot subagents in the background. */
import type { ContentBlock } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import type { Json, JsonObject } from '../../protocol/json.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import type { Jobs, JobView } from '../jobs/jobs.ts';
import { JOB_ADVICE, withAdvice } from './failures.ts';

const JOB_ID = {
  type: 'string',
  description: 'The id that the call which started the job returned.',
};
const OUTPUT = {
  schema: {
    type: 'object',
    properties: {
      jobId: { type: 'string' },
      status: { enum: ['starting', 'running', 'completed', 'failed', 'killed'] },
      text: { type: 'string' },
    },
    required: ['jobId', 'status'],
  },
  render,
} as const;

/** `job_output` and `job_kill`. They act for the calling agent, on jobs of its own. */
export function jobTools(jobs: Jobs): readonly ToolDefinition<Agent>[] {
  return [
    {
      name: 'job_output',
      description:
        'Read what a background job has come to. Waits until the job has ended, unless `wait` is ' +
        'false. You get the answer in a message of its own when the job ends, so call this only ' +
        'when you cannot go on without the answer, or to read it again; never in a loop. The ' +
        'answer is the same each time.',
      parameters: {
        type: 'object',
        properties: {
          job_id: JOB_ID,
          wait: {
            type: 'boolean',
            description: 'Wait until the job has ended. Default: true.',
          },
        },
        required: ['job_id'],
        additionalProperties: false,
      },
      output: OUTPUT,
      isConcurrencySafe: () => true,
      async execute(args, { agent, signal }) {
        const { job_id: jobId, wait = true } = args as { job_id: string; wait?: boolean };
        const reading = jobs.output(callerOf(agent), jobId, { wait, signal });
        return valueOf(await reading.catch(refuse));
      },
    },
    {
      name: 'job_kill',
      description:
        'End a background job that is not needed any more. Returns when it has ended, with what ' +
        'became of it; no message will come about it. A job that had ended before keeps its answer.',
      parameters: {
        type: 'object',
        properties: { job_id: JOB_ID },
        required: ['job_id'],
        additionalProperties: false,
      },
      output: OUTPUT,
      isConcurrencySafe: () => true,
      async execute(args, { agent, signal }) {
        const { job_id: jobId } = args as { job_id: string };
        const killing = jobs.kill(callerOf(agent), jobId, { signal });
        return valueOf(await killing.catch(refuse));
      },
    },
  ];
}

function callerOf(agent: Agent | undefined): Agent {
  if (agent !== undefined) return agent;
  throw new ArgumentError('Jobs belong to agents: only one can call this.');
}

function refuse(error: unknown): never {
  throw withAdvice(error, 'Nothing was read or ended.', JOB_ADVICE);
}

const valueOf = ({ jobId, status, text }: JobView): Json => ({
  jobId,
  status,
  ...(text === undefined ? {} : { text }),
});

const WORDS: Readonly<Record<JobView['status'], string>> = {
  starting: 'has not begun yet. You will get a message when it has ended.',
  running: 'is running. You will get a message when it has ended.',
  completed: 'has finished. Its answer:',
  failed: 'failed.',
  killed: 'was stopped before it finished.',
};

function render(_args: JsonObject, value: Json): readonly ContentBlock[] {
  const { jobId, status, text } = value as unknown as JobView;
  const head = `Job ${jobId} ${WORDS[status]}`;
  return [{ type: 'text', text: text === undefined ? head : `${head}\n${text}` }];
}
