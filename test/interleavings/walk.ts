/** One run of a plan on a harness of its own: what happened, as far as anybody could see it. */
import { getEventListeners } from 'node:events';
import { setImmediate as macrotask } from 'node:timers/promises';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent, AgentHandle } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import type { Logger } from '../../src/base/logger.ts';
import { buildHarness } from '../../src/harness.ts';
import type { Harness } from '../../src/harness.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { ScriptedFunction } from '../../src/models/scripted.ts';
import type { ModelAdapter } from '../../protocol/model.ts';
import { fork } from '../../src/providers/worker-fork.ts';
import { spawn } from '../../src/providers/worker-spawn.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import type { SubagentRunEndInfo, SubagentRunInfo } from '../../src/subagents/lifecycle.ts';
import type {
  SubagentResult,
  SubagentRun,
  SubagentStartRequest,
} from '../../src/subagents/provider.ts';
import { inProcessThreads } from '../support/in-process-threads.ts';
import type { InProcessThreads } from '../support/in-process-threads.ts';
import { ManualClock } from '../support/manual-clock.ts';
import type { AgentThread } from '../../src/worker-host/thread.ts';
import { Dice, ENDERS } from './plan.ts';
import type { Act, Plan, PlannedAct, Point } from './plan.ts';
import { Tools } from './tools.ts';

/** No run takes as many turns of the event loop: one that has not ended by then is stuck. */
const MANY_TURNS = 4_000;
/** No grace ends what is stuck. */
const NEVER_MS = 2 ** 31 - 1;
const limits = {
  stopGraceMs: NEVER_MS,
  interruptGraceMs: NEVER_MS,
  startMs: NEVER_MS,
  turnMs: NEVER_MS,
};
const retryPolicy = {
  maxRetries: 9,
  retryableCodes: ['SERVER'],
  initialDelayMs: 2,
  maxDelayMs: 2,
  jitterRatio: 0,
};
const agentOptions = { provider: 'child', model: 'test' };
const outputSchema = {
  type: 'object',
  properties: { count: { type: 'integer' } },
  required: ['count'],
} as const;

/** The root repeats what it is told, and delegates when it is told to. */
const root: ScriptedFunction = ({ messages }) => {
  const [block] = messages.at(-1)?.content ?? [];
  if (block?.type !== 'text' || block.text !== 'Delegate.') return 'So be it.';
  const args = { description: 'Some work', prompt: 'Work.' };
  return { toolCalls: [{ name: 'subagent', arguments: args }] };
};

/** An act that was carried out, and how far the child was by then. */
export interface Done {
  readonly act: Act;
  /** Before the child was published. */
  readonly isEarly: boolean;
  /** Requests of the child whose end was in its log. */
  readonly finishes: number;
}

export class Walk {
  readonly plan: Plan;
  readonly harness: Harness;
  readonly threads: InProcessThreads;
  readonly tools: Tools;
  readonly controller = new AbortController();
  readonly reason = new Error('The caller gave up.');
  readonly done: Done[] = [];
  readonly starts: SubagentRunInfo[] = [];
  readonly ends: SubagentRunEndInfo[] = [];
  readonly children: Agent[] = [];
  readonly disposed: Agent[] = [];
  readonly warnings: string[] = [];
  parent!: Agent;
  result: SubagentResult | undefined;
  rejection: unknown;
  /** What began after somebody ended the child. */
  readonly late: Point[] = [];
  /** Who listened for the caller's abort when the result was there. */
  heardAfter = 0;
  /** Model streams that are being read. */
  streaming = 0;
  readonly #clock: ManualClock;
  readonly #dice: Dice;
  readonly #met = new Map<Point, number>();
  readonly #run = deferred<SubagentRun | undefined>();
  readonly #acting: Promise<unknown>[] = [];
  readonly #stuck = deferred<never>();
  #parentHandle!: AgentHandle;
  #withdraw: (() => void) | undefined;
  #isArmed = false;
  /** The child is being published: an abort ends its run from here on, not its start. */
  #isTold = false;
  /** True in the tick in which the child is told of: its owner's end still ends its start. */
  #isTelling = false;
  #isOver = false;

  private constructor(
    plan: Plan,
    harness: Harness,
    parts: { threads: InProcessThreads; tools: Tools; clock: ManualClock; warnings: string[] },
  ) {
    this.plan = plan;
    this.harness = harness;
    this.threads = parts.threads;
    this.tools = parts.tools;
    this.warnings = parts.warnings;
    this.#clock = parts.clock;
    this.#dice = new Dice(plan.seed + 0.5);
    this.#stuck.promise.catch(() => {});
  }

  static async of(plan: Plan): Promise<Walk> {
    const clock = new ManualClock();
    const warnings: string[] = [];
    const warn = (_: object, message: string): void => void warnings.push(message);
    const logger: Logger = { debug() {}, info() {}, warn, error: warn };
    const tools = new Tools(() => walk.#begins('tool body'));
    const threads = inProcessThreads({
      clock,
      delivery: plan.delivery,
      async import() {
        walk.meet('module');
        await macrotask();
        return { default: () => tools.inThread() };
      },
      failStart() {
        walk.meet('thread');
        return undefined;
      },
    });
    const model = scriptedModel(plan.script, { retryPolicy });
    const counted: ModelAdapter = {
      retryPolicy,
      async *stream(request, options) {
        walk.streaming++;
        try {
          walk.#begins('request');
          yield* model.stream(request, options);
        } finally {
          walk.streaming--;
        }
      },
    };
    const harness = await buildHarness(
      {
        workers: { warm: 0 },
        logger,
        limits,
        models: { child: counted, root: scriptedModel(root) },
        defaultModel: { provider: 'root', model: 'test' },
        tools: [...tools.onMain(), { module: new URL('file:///tools.mjs') }],
        providers: [],
      },
      {
        clock,
        threads: () => (own) => told(threads.factory(own), () => walk.meet('frame to main')),
      },
    );
    const walk = new Walk(plan, harness, { threads, tools, clock, warnings });
    return walk;
  }

  /** Everything up to the moment in which nothing of the child should be left. */
  async run(): Promise<void> {
    void this.#pump();
    await Promise.race([this.#stuck.promise, this.#walk()]);
  }

  /** End the harness, and with it the walk. */
  async end(): Promise<void> {
    await Promise.race([this.#stuck.promise, this.harness.dispose()]);
    this.#isOver = true;
  }

  /** Whatever can still happen by itself has happened. */
  async quiet(turns = 25): Promise<void> {
    for (let turn = 0; turn < turns; turn++) await macrotask();
  }

  /** This point of the walk is reached: what is planned for it is done, or comes soon. */
  meet(point: Point): void {
    if (!this.#isArmed) return;
    const nth = (this.#met.get(point) ?? 0) + 1;
    this.#met.set(point, nth);
    for (const planned of this.plan.acts) {
      if (planned.at === point && planned.nth === nth) this.#acting.push(this.#later(planned));
    }
  }

  #begins(point: 'tool body' | 'request'): void {
    if (this.done.some(({ act }) => ENDERS.includes(act))) this.late.push(point);
    this.meet(point);
  }

  async #later(planned: PlannedAct): Promise<void> {
    const { unit, count } = planned.lag;
    for (let left = count; left > 0; left--) {
      await (unit === 'microtasks' ? undefined : macrotask());
    }
    const { act } = planned;
    await this.#act(this.plan.way === 'called' && isOfTheCaller(act) ? 'cancel the parent' : act);
  }

  async #walk(): Promise<void> {
    const { harness, plan } = this;
    this.#parentHandle = await harness.agents.create();
    this.parent = this.#parentHandle.agent;
    if (plan.way === 'fork') await this.#tell('Tell me.');
    const name = plan.way === 'fork' ? 'fork' : 'spawn';
    const provider = plan.way === 'fork' ? fork() : spawn();
    this.#withdraw = harness.subagents.registerProvider(provider({ agents: harness.agents }));
    harness.tools.register(
      subagentTool(harness.subagents, { provider: name, toolName: 'subagent', agentOptions }),
    );
    this.#watch();
    this.#isArmed = true;
    this.meet('before the start');
    if (plan.way === 'called') await this.#call();
    else await this.#start(name);
    // What is planned for later than the end comes, too.
    await this.quiet();
    await Promise.all(this.#acting);
  }

  async #start(name: string): Promise<void> {
    const request: SubagentStartRequest = {
      parent: this.parent,
      prompt: [{ type: 'text', text: 'Work.' }],
      signal: this.controller.signal,
      agentOptions,
      ...(this.plan.way === 'structured' ? { outputSchema } : {}),
    };
    const starting = this.harness.subagents.start(name, request);
    starting.then(this.#run.resolve, () => this.#run.resolve(undefined));
    this.meet('after the start');
    let run: SubagentRun;
    try {
      run = await starting;
    } catch (error) {
      this.rejection = error;
      return;
    }
    this.meet('run returned');
    const { result } = run;
    this.meet('result awaited');
    this.result = await result;
    this.heardAfter = getEventListeners(this.controller.signal, 'abort').length;
    this.meet('result settled');
    await this.quiet(this.#dice.int(12));
    await run.dispose();
  }

  async #call(): Promise<void> {
    this.#run.resolve(undefined);
    try {
      await this.#tell('Delegate.');
    } catch (error) {
      this.rejection = error;
    }
  }

  #tell(text: string): Promise<void> {
    this.parent.followup(createUserMessage(text));
    return this.parent.whenIdle();
  }

  #watch(): void {
    const { harness } = this;
    const isOfChild = ({ id }: { readonly id: string }): boolean => id !== this.parent.id;
    harness.on('session/created', ({ session }) => {
      if (!isOfChild(session)) return;
      this.#isTold = true;
      this.meet('session/created');
    });
    harness.on('session/event', ({ session, event }) => {
      if (isOfChild(session)) this.meet(event.type as Point);
    });
    harness.on('agent/created', ({ agent }) => {
      this.children.push(agent);
      this.#isTelling = true;
      this.meet('agent/created');
      this.#isTelling = false;
    });
    harness.on('agent/disposed', ({ agent }) => void this.disposed.push(agent));
    for (const type of ['agent/inbox/inserted', 'agent/inbox/claimed'] as const) {
      harness.on(type, ({ agent }) => isOfChild(agent) && this.meet(type));
    }
    harness.on('agent/status', ({ agent, status }) => {
      if (isOfChild(agent) && status === 'idle') this.meet('idle');
    });
    harness.on('subagent/start', (info) => {
      this.starts.push(info);
      this.meet('subagent/start');
    });
    harness.on('subagent/end', (info) => {
      this.ends.push(info);
      this.meet('subagent/end');
    });
  }

  async #act(act: Act): Promise<void> {
    const child = this.children.at(-1);
    const note = (): void => {
      const live = child?.session.events.slice(child.session.firstLiveSeq) ?? [];
      const isFinish = (event: (typeof live)[number]): boolean =>
        event.type === 'assistant/chunk' && event.data.chunk.type === 'finish';
      const isEarly = act === 'abort' ? !this.#isTold : child === undefined || this.#isTelling;
      this.done.push({ act, isEarly, finishes: live.filter(isFinish).length });
    };
    switch (act) {
      case 'abort':
        note();
        return this.controller.abort(this.reason);
      case 'dispose':
      case 'dispose twice': {
        // Called in this tick when the run is there, or else as soon as it is.
        const run = await this.#run.promise;
        if (run === undefined) return;
        note();
        await (act === 'dispose' ? run.dispose() : Promise.all([run.dispose(), run.dispose()]));
        return;
      }
      case 'interrupt the child':
        if (child?.status !== 'running') return;
        note();
        return child.cancel({ kind: 'user' }, { keepInbox: true });
      case 'cancel the parent':
        note();
        return this.parent.cancel({ kind: 'user' });
      case 'dispose the parent':
        note();
        return this.#parentHandle.dispose();
      case 'withdraw the provider':
        note();
        return this.#withdraw?.();
      case 'dispose the harness':
        note();
        return this.harness.dispose();
      default:
        act satisfies never;
    }
  }

  /** Time goes on, and frames are delivered one by one, in a random order across all ports. */
  async #pump(): Promise<void> {
    const dice = this.#dice;
    for (let turn = 0; !this.#isOver; turn++) {
      if (turn > MANY_TURNS) return this.#stuck.reject(new Error('It does not end.'));
      await macrotask();
      if (dice.chance(0.3)) await this.#clock.advance(1 + dice.int(6));
      if (this.plan.delivery === 'auto') continue;
      for (const { ports } of this.threads.all) {
        ports?.flush(dice.int(3), dice.pick(['main', 'worker']));
      }
    }
  }
}

/** Tells of every frame of the thread, right before main reads it. */
function told(thread: AgentThread, tell: () => void): AgentThread {
  const assign = thread.assign.bind(thread);
  thread.assign = (init) => {
    const port = assign(init);
    port.on('message', tell);
    return port;
  };
  return thread;
}

const isOfTheCaller = (act: Act): boolean =>
  act === 'abort' || act === 'dispose' || act === 'dispose twice';
