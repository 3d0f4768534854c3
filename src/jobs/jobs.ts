/**
 * One-shot runs that go on in the background, by job id. Each belongs to the very agent that
 * started it, whose model reads, awaits and kills it by that id; it ends with that agent. Nothing
 * of it is kept: the end of the process is the end of every job.
 */
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import { notAnAgent } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { Agents } from '../agent/agents.ts';
import { readOptions } from '../base/assert-options.ts';
import type { Clock } from '../base/clock.ts';
import { deferred, raceSignal } from '../base/deferred.ts';
import { newId } from '../base/ids.ts';
import type { Logger } from '../base/logger.ts';
import { durationOf } from '../base/limit-values.ts';
import type { SubagentRun } from '../subagents/provider.ts';
import type { JobSupport } from '../subagents/runtime.ts';
import { isAnyKept, Job } from './job.ts';
import type { JobView, JobWait } from './job.ts';
import { deliverJobNotice } from './job-notice.ts';

export type { JobStatus, JobView } from './job.ts';

/** What a job is called, and who runs it. */
export interface JobStart {
  /** The task in a few words. */
  readonly label: string;
  /** Name of a subagent provider. */
  readonly provider: string;
}

/** How an ended job is read. */
export interface JobOutputOptions {
  /** Until it has ended. Default true. */
  readonly wait?: boolean;
  /** Ends the wait only. */
  readonly signal?: AbortSignal;
}

export interface JobsOptions {
  readonly agents: Agents;
  readonly support: JobSupport;
  readonly logger: Logger;
  readonly clock: Clock;
  /** How long an agent that ends waits for its jobs, with some time on top. */
  readonly stopGraceMs: number;
  /** An agent begins to wait for a job: whoever wants a thread may have nobody to wait for. */
  onWait(): void;
}

/** Ended jobs that an agent can still read; the oldest is forgotten first. */
const KEPT_ENDED = 100;
/** What a provider's own release may take beyond the time that a child of ours has to stop. */
const MARGIN_MS = 1_000;
const KILLED = 'The job was killed by the agent that started it.';

/**
 * One-shot children in the background, each by its job id and for the very agent that started it.
 * Somebody else's job and none look the same.
 */
export class Jobs {
  readonly #options: JobsOptions;
  readonly #jobs = new Map<Agent, Map<string, Job>>();
  readonly #ending = new WeakSet<Agent>();

  /**
   * Made by `createHarness`.
   * @internal
   */
  constructor(options: JobsOptions) {
    this.#options = options;
    options.agents.onEnding((agent) => this.#endOf(agent));
    options.agents.observers.on('agent/disposed', ({ agent }) => void this.#jobs.delete(agent));
  }

  /**
   * Begin a run in the background. The agent is looked at before `begin` is called, in this tick;
   * the run that it gives is the job's, which disposes it. Whatever goes wrong from then on is the
   * job's outcome. When it has ended, the agent is told once, in a message, unless it has read
   * the outcome or killed the job.
   *
   * @throws {SubagentError} `UNAUTHORIZED`, `DRAINING`, `ACTIVATION_CLOSING`
   * @throws {ArgumentError}
   */
  start(
    agent: Agent,
    given: JobStart,
    begin: (signal: AbortSignal) => Promise<SubagentRun>,
  ): { jobId: string } {
    const { label, provider } = readOptions('a job', given, { label: 'text', provider: 'text' });
    if (typeof label !== 'string' || typeof provider !== 'string' || typeof begin !== 'function') {
      throw new ArgumentError('A job takes a label, a provider and the function that begins it.');
    }
    this.#assertAdmits(agent);
    const job = new Job(`job_${newId()}`, { label, provider });
    const { agents, support } = this.#options;
    agents.inBackground(job.signal);
    const own = this.#jobs.get(agent) ?? new Map<string, Job>();
    this.#jobs.set(agent, own.set(job.id, job));
    const release = support.hold(agent);
    void job.begin(
      async (signal) => begin(signal),
      () => {
        this.#forgetOldest(own);
        this.#ended(agent, job, release);
      },
    );
    return { jobId: job.id };
  }

  /**
   * What a job of this very agent has come to; by default once it has ended. The same text however
   * often it is read.
   *
   * @throws {SubagentError} (rejects) `UNAUTHORIZED` for any id that is none of its jobs
   * Whatever the signal was aborted with is passed on.
   */
  async output(agent: Agent, jobId: string, options: JobOutputOptions = {}): Promise<JobView> {
    const { wait = true, signal } = readOptions('the output of a job', options, {
      wait: 'any',
      signal: 'signal',
    });
    const job = this.#find(agent, jobId);
    signal?.throwIfAborted();
    if (wait && !job.isDone) {
      const waiting = { signal };
      job.waits.add(waiting);
      this.#options.onWait();
      try {
        await raceSignal(job.done, signal);
      } finally {
        job.waits.delete(waiting);
      }
      // It may have ended first: until that is handed over the abort wins, and a notice comes.
      signal?.throwIfAborted();
    }
    return job.view;
  }

  /**
   * End a job, and wait until nothing of it is left; one that has ended stays what it is. It is not
   * told any more: the outcome is what this resolves with.
   *
   * @param options.reason for whoever reads the job
   * @throws {SubagentError} (rejects) `UNAUTHORIZED` for any id that is none of its jobs
   * Whatever the signal was aborted with is passed on; the job ends all the same.
   */
  async kill(
    agent: Agent,
    jobId: string,
    options: { readonly reason?: string; readonly signal?: AbortSignal } = {},
  ): Promise<JobView> {
    const { reason = KILLED, signal } = readOptions('the end of a job', options, {
      reason: 'text',
      signal: 'signal',
    });
    const job = this.#find(agent, jobId);
    if (!job.isDone) job.isQuiet = true;
    job.kill(reason);
    await raceSignal(job.done, signal);
    return job.view;
  }

  /** The jobs of this very agent, in the order of their starts. Long ended ones are forgotten. */
  list(agent: Agent): JobView[] {
    return [...(this.#jobs.get(agent)?.values() ?? [])].map(({ view }) => view);
  }

  /**
   * A call of this agent waits for one of its jobs.
   * @internal
   */
  isAwaitedBy(agent: Agent): boolean {
    return [...(this.#jobs.get(agent)?.values() ?? [])].some((job) => !job.isDone && job.isAwaited);
  }

  #assertAdmits(agent: Agent): void {
    const { agents, support } = this.#options;
    const problem = notAnAgent(agent);
    if (problem !== undefined) {
      throw new SubagentError('UNAUTHORIZED', `Only an agent starts a job: ${problem}.`);
    }
    if (agents.get(agent.id) !== agent || this.#ending.has(agent)) {
      const text = `"${agent.id}" starts no job: it has ended, is ending, or never was.`;
      throw new SubagentError('UNAUTHORIZED', text);
    }
    support.assertAdmits(agent);
  }

  /** An unknown id and somebody else's look the same. */
  #find(agent: Agent, jobId: string): Job {
    const job = this.#jobs.get(agent)?.get(jobId);
    if (job !== undefined) return job;
    throw new SubagentError('UNAUTHORIZED', `"${String(jobId)}" is no job of this agent.`);
  }

  /**
   * In the tick in which the outcome is final. A call that waits for it reads it, one whose wait
   * was aborted by then does not, even if its agent has not noticed yet. The race is between here
   * and the end of that call, a few reactions later: one that is aborted in between comes to
   * nothing, as does a tool that is stopped before its result is taken. So those that wait are
   * looked at once more when all reactions have run; by then no abort reaches a call that has read.
   */
  #ended(agent: Agent, job: Job, release: () => void): void {
    const waits = [...job.waits];
    const tell = (): void => {
      try {
        this.#tell(agent, job, waits);
      } finally {
        // After the notice, which is what a child that waited for its jobs goes on with.
        release();
      }
    };
    if (isAnyKept(waits)) setImmediate(tell);
    else tell();
  }

  /** Once at most. Whoever reads it later reads it beside the notice. */
  #tell(agent: Agent, job: Job, waits: readonly JobWait[]): void {
    const { agents, support, logger } = this.#options;
    if (job.isQuiet || isAnyKept(waits) || this.#ending.has(agent)) return;
    if (agents.get(agent.id) !== agent) return;
    try {
      deliverJobNotice(
        agent,
        job.view,
        admits(() => support.assertAdmits(agent)),
      );
      agent.session.committed().catch((error: unknown) => {
        const fields = { agent: agent.id, job: job.id, error: toErrorRecord(error) };
        logger.warn(fields, 'The notice of a job could not be kept.');
      });
    } catch (error) {
      // It ends, or an observer of the message failed: nobody is left to be told.
      const fields = { agent: agent.id, job: job.id, error: toErrorRecord(error) };
      logger.warn(fields, 'An agent could not be told of its job.');
    }
  }

  #forgetOldest(own: Map<string, Job>): void {
    const ended = [...own.values()].filter(({ isDone }) => isDone);
    for (const { id } of ended.slice(0, Math.max(0, ended.length - KEPT_ENDED))) own.delete(id);
  }

  /** The agent ends, and so do its jobs, of which it is not told. Waits for them only so long. */
  async #endOf(agent: Agent): Promise<void> {
    this.#ending.add(agent);
    const own = [...(this.#jobs.get(agent)?.values() ?? [])].filter(({ isDone }) => !isDone);
    if (own.length === 0) return;
    const { clock, stopGraceMs, logger } = this.#options;
    for (const job of own) job.kill('The agent that started the job has ended.');
    const isLate = deferred<true>();
    const waitMs = durationOf(stopGraceMs, MARGIN_MS);
    const timer = clock.after(waitMs, () => isLate.resolve(true), true);
    const all = Promise.all(own.map(({ done }) => done));
    const late = await Promise.race([all, isLate.promise]);
    timer.cancel();
    if (late !== true) return;
    logger.warn({ agent: agent.id }, 'A job did not end in time: it is left to its provider.');
  }
}

function admits(assert: () => void): boolean {
  try {
    assert();
    return true;
  } catch {
    // Being ended: the only thing that it says.
    return false;
  }
}
