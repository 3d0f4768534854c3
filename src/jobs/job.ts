import { setImmediate as othersTurn } from 'node:timers/promises';
import { isInstance } from '../../protocol/error-record.ts';
import { ArgumentError, HarnessError } from '../../protocol/errors.ts';
import { deferred, whenSettled } from '../base/deferred.ts';
import type { SubagentResult, SubagentRun } from '../subagents/provider.ts';
import { answerText, explainResult } from '../subagents/result-text.ts';
import { readRun } from '../subagents/returned-run.ts';
import { finishRun, messageOf } from '../subagents/settle-run.ts';
import type { FinishedRun } from '../subagents/settle-run.ts';

/** `starting`: nobody works on it yet. The last three are final. */
export type JobStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed';

/** One job as it stands now. */
export interface JobView {
  readonly jobId: string;
  /** The task in a few words. */
  readonly label: string;
  /** Name of the subagent provider that runs it. */
  readonly provider: string;
  readonly status: JobStatus;
  /** Of its run, once it is published. */
  readonly runId?: string;
  /** What it came to, once that is final: the answer, or why there is none and what there is. */
  readonly text?: string;
}

/** What is read of a run, once. */
interface HeldRun {
  readonly id: string;
  readonly result: PromiseLike<SubagentResult>;
  dispose(): Promise<void>;
}

interface Outcome {
  readonly status: 'completed' | 'failed' | 'killed';
  readonly text: string;
}

/** A call that waits for the end of a job, until its signal ends that. */
export interface JobWait {
  readonly signal: AbortSignal | undefined;
}

export const isAnyKept = (waits: readonly JobWait[]): boolean =>
  waits.some(({ signal }) => signal?.aborted !== true);

/** One background run, from its order to its release. Its status only ever moves forward. */
export class Job {
  readonly id: string;
  readonly label: string;
  readonly provider: string;
  /** Whoever waits for its end, each until its own signal ends that wait. */
  readonly waits = new Set<JobWait>();
  /** Its agent knows of its end, or does not want to: it is not told. */
  isQuiet = false;
  readonly #ending = new AbortController();
  readonly #done = deferred<void>();
  /** What stands for the result of a run that was disposed and has not settled it. */
  readonly #released = deferred<SubagentResult>();
  #run: HeldRun | undefined;
  #outcome: Outcome | undefined;

  constructor(id: string, { label, provider }: { label: string; provider: string }) {
    this.id = id;
    this.label = label;
    this.provider = provider;
  }

  /** The job's own, whatever becomes of the call that ordered it. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get isDone(): boolean {
    return this.#outcome !== undefined;
  }

  /** A call waits for it that nobody has given up. */
  get isAwaited(): boolean {
    return isAnyKept([...this.waits]);
  }

  /** Resolves when nothing of it is left. Never rejects. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  get view(): JobView {
    const status = this.#run === undefined ? 'starting' : 'running';
    return {
      jobId: this.id,
      label: this.label,
      provider: this.provider,
      status,
      ...(this.#run === undefined ? {} : { runId: this.#run.id }),
      ...this.#outcome,
    };
  }

  /**
   * Begins in this tick, and ends whatever its provider gives or throws.
   *
   * @param onEnd called once, in the tick in which its outcome is final
   */
  async begin(
    start: (signal: AbortSignal) => Promise<SubagentRun>,
    onEnd: () => void,
  ): Promise<void> {
    this.#outcome = await this.#drive(start).catch((error: unknown) => notRun(error));
    try {
      onEnd();
    } finally {
      this.#done.resolve();
    }
  }

  /** The first reason is the one that is told. One that is done stays what it is. */
  kill(reason: string): void {
    if (this.isDone || this.signal.aborted) return;
    this.#ending.abort(new HarnessError('CANCELLED', reason));
    this.#disposeKilled();
  }

  async #drive(start: (signal: AbortSignal) => Promise<SubagentRun>): Promise<Outcome> {
    let run: HeldRun;
    try {
      run = this.#run = held(await start(this.signal));
    } catch (error) {
      // What could not be taken back is never told as a clean kill.
      if (this.signal.aborted && !isTeardown(error)) return this.#killed();
      return { status: 'failed', text: `The subagent could not be started: ${messageOf(error)}` };
    }
    // Killed in the tick in which it was published: nobody disposed it then.
    if (this.signal.aborted) this.#disposeKilled();
    const result = Promise.race([run.result, this.#released.promise]);
    return this.#outcomeOf(await finishRun({ result, dispose: run.dispose }));
  }

  /**
   * Ends the work of a provider that does not look at the signal; nothing happens in its run from
   * then on, whether or not that says so. Whoever waits for the run disposes it again, and hears
   * of a failure.
   */
  #disposeKilled(): void {
    const run = this.#run;
    if (run === undefined) return;
    void Promise.allSettled([(async () => run.dispose())()])
      // What the disposal settles is heard before it counts as missing.
      .then(() => othersTurn())
      .then(() => this.#released.resolve({ output: [], stopReason: 'aborted' }));
  }

  #outcomeOf({ result, disposal }: FinishedRun): Outcome {
    const ended = ((): Outcome => {
      if (result.status === 'rejected') return notRun(result.reason);
      const { stopReason } = result.value;
      if (stopReason === 'completed') {
        return { status: 'completed', text: answerText(result.value) };
      }
      const text = explainResult(result.value);
      if (stopReason !== 'aborted') return { status: 'failed', text };
      return this.signal.aborted ? this.#killed(text) : { status: 'killed', text };
    })();
    if (disposal.status === 'fulfilled') return ended;
    const release = `The subagent could not be released: ${messageOf(disposal.reason)}`;
    return { status: 'failed', text: `${ended.text}\n${release}` };
  }

  #killed(more?: string): Outcome {
    const reason = messageOf(this.signal.reason);
    return { status: 'killed', text: more === undefined ? reason : `${reason}\n${more}` };
  }
}

/** A start whose cleanup failed as well. */
const isTeardown = (error: unknown): boolean =>
  isInstance(error, AggregateError) ||
  (error instanceof HarnessError && error.code === 'ACTIVATION_TEARDOWN_FAILED');

const notRun = (error: unknown): Outcome => ({
  status: 'failed',
  text: `The subagent could not be run: ${messageOf(error)}`,
});

const ignore = (): void => {};

/** @throws {ArgumentError} for what is no run; whatever it made is told to end */
function held(returned: unknown): HeldRun {
  const { id, result, dispose, problem } = readRun(returned);
  if (problem === undefined && dispose !== undefined) return { id, result, dispose };
  whenSettled(result, ignore, ignore);
  // Not waited for: what is no run says nothing of when it ends.
  void (async () => dispose?.())().catch(ignore);
  throw new ArgumentError(`What began it gave no run: ${problem}.`);
}
