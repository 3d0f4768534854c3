/** Runs agents in worker threads: gives each its thread, its link and what its calls reach. */
import { ProtocolError, SubagentError, WorkerError } from '../../protocol/errors.ts';
import { MessageId } from '../../protocol/ids.ts';
import type { ToolResultMessage } from '../../protocol/content.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import type { ToolModule } from '../../protocol/tool.ts';
import { utf8Bytes } from '../../protocol/text-size.ts';
import { DEFAULT_WINDOW } from '../../protocol/window.ts';
import type { WorkerInit } from '../../protocol/worker-init.ts';
import type { Agent, AgentEvents } from '../agent/agent.ts';
import type { AgentHost, AgentSpec, PreparedAgent } from '../agent/agent-host.ts';
import type { Clock } from '../base/clock.ts';
import type { Emitter } from '../base/emitter.ts';
import { newId } from '../base/ids.ts';
import type { Logger } from '../base/logger.ts';
import { ModelGateway } from '../models/gateway.ts';
import type { ModelRoute } from '../models/routes.ts';
import { ToolDesk } from '../tools/desk.ts';
import type { ToolResult } from '../tools/results.ts';
import { createUserMessage } from '../agent/agent.ts';
import { AgentServices } from './agent-services.ts';
import { Attendance } from './attendance.ts';
import type { AgentHealth } from './health.ts';
import { durationOf, memoryMb } from '../base/limit-values.ts';
import { atMost, turnBounds } from './limits.ts';
import type { ResolvedLimits } from './limits.ts';
import { Residency } from './residency.ts';
import { ThreadAgent } from './thread-agent.ts';
import { STUCK_MS } from './thread.ts';
import type { ThreadWarning } from './supervision.ts';
import type { ThreadFactory } from './thread.ts';
import { Threads } from './threads.ts';
import type { Capacity } from './threads.ts';

export interface WorkerHostOptions {
  readonly limits: ResolvedLimits;
  readonly factory: ThreadFactory;
  /** Unused threads to keep ready. */
  readonly warm: number;
  readonly startingAtOnce: number;
  /** What the machine bears; absent: nothing is known of it. */
  readonly machine?: Capacity;
  /** Tells of a thread that needs attention. */
  warn(warning: ThreadWarning): void;
  readonly clock: Clock;
  /** In [0, 1): spreads retries. */
  random(): number;
  readonly logger: Logger;
  readonly observers: Emitter<AgentEvents>;
  /** The model that goes by a name now. */
  routeOf(provider: string): ModelRoute | undefined;
  /** The tools that every thread loads. */
  toolModules(): readonly ToolModule[];
  /** The uppermost agent of the tree that this one belongs to. */
  rootOf(agent: Agent): Agent;
  /** True while an agent can only go on when a child of its own does. */
  isWaiting(agent: Agent): boolean;
}

/** Who waits for a thread, as of now. */
export interface ThreadQueue {
  has(agent: Agent): boolean;
  readonly size: number;
  /** Told after an agent entered it or left it. The listener throws nothing. */
  onChange(listener: (agent: Agent) => void): () => void;
}

/** Tool calls of one step that may be in flight together. */
const TOOL_CONCURRENCY = 10;
/** For everything between the end of a child and the result of the call that waited for it. */
const MARGIN_MS = 1_000;

export class WorkerHost implements AgentHost {
  readonly #options: WorkerHostOptions;
  readonly #threads: Threads;
  readonly #attendance: Attendance;
  /**
   * Agents that have a thread, with the tool calls of that thread; longest first, which is the
   * order in which idle ones give theirs up.
   */
  readonly #resident = new Map<ThreadAgent, ToolDesk>();
  readonly #queued = new Set<Agent>();
  readonly #queueListeners = new Set<(agent: Agent) => void>();

  constructor(options: WorkerHostOptions) {
    this.#options = options;
    const { limits, factory, warm, startingAtOnce, machine, clock } = options;
    this.#threads = new Threads({
      factory,
      defaults: { memoryMb: limits.memoryMb },
      warm: Math.min(warm, limits.maxThreads),
      maxThreads: limits.maxThreads,
      machine,
      clock,
      startingAtOnce,
      onFull: () => this.#makeRoom(),
    });
    const { unresponsiveMs } = limits;
    this.#attendance = new Attendance({ clock, unresponsiveMs, warn: options.warn });
    // A new agent is idle, and may give its thread up, without any change of its status.
    options.observers.on('agent/created', () => this.#threads.review());
    options.observers.on('agent/status', ({ status }) => {
      if (status === 'idle') this.#threads.review();
    });
  }

  get threads(): Threads {
    return this.#threads;
  }

  /** Agents that have to wait for a thread. */
  get queue(): ThreadQueue {
    return {
      has: (agent) => this.#queued.has(agent),
      size: this.#queued.size,
      onChange: (listener) => {
        const entry = (agent: Agent): void => listener(agent);
        this.#queueListeners.add(entry);
        return () => void this.#queueListeners.delete(entry);
      },
    };
  }

  build(spec: AgentSpec): PreparedAgent {
    const { limits, clock, observers } = this.#options;
    const isChild = (spec.session.header.delegationDepth ?? 0) > 0;
    const { memoryMb: ownMb = limits.memoryMb } = spec.limits;
    const memory = memoryMb(ownMb);
    return new ThreadAgent({
      spec,
      limits: {
        ...turnBounds(limits, spec.limits, isChild),
        interruptGraceMs: limits.interruptGraceMs,
        stopGraceMs: limits.stopGraceMs,
        restarts: limits.restarts,
        maxPending: atMost(limits.maxPending),
      },
      clock,
      observers,
      review: () => this.#threads.review(),
      isHeldUp: (self) => this.#resident.get(self)?.hasBodyHere === true,
      reside: (self, ending, isFirst) => this.#reside(self, spec, memory, ending, isFirst),
    });
  }

  /**
   * What is wrong with these agents, in words, when some of them would never move again: see
   * `stallOf`. For tests to look at between two tasks of the event loop; there is nothing, ever.
   */
  stalls(agents: readonly Agent[]): readonly string[] {
    const own = agents.filter((agent) => agent instanceof ThreadAgent);
    const stalls = own.flatMap(({ id, stall }) => (stall === undefined ? [] : `${id}: ${stall}`));
    const idle = own.find(({ unusedThread }) => unusedThread === 'reclaimable');
    if (idle !== undefined && this.#threads.isStuck && !own.some(({ isLeaving }) => isLeaving)) {
      stalls.push(`${idle.id}: it has no use for its thread, and others wait for one`);
    }
    return stalls;
  }

  /** What each of these does; those of a host have no loop, and are left out. */
  healthOf(agents: readonly Agent[]): readonly AgentHealth[] {
    const own = agents.filter((agent) => agent instanceof ThreadAgent);
    return own.map((agent) =>
      this.#attendance.healthOf(agent, this.#resident.get(agent), {
        isQueued: this.#queued.has(agent),
        isWaiting: this.#options.isWaiting(agent),
      }),
    );
  }

  /** An agent began to wait for something: whoever is queued may have nobody left to wait for. */
  review(): void {
    this.#threads.review();
  }

  /** Refuse what waits and end the threads that have no agent; those of agents are theirs. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  async #reside(
    agent: ThreadAgent,
    spec: AgentSpec,
    memory: number | 'unlimited',
    signal: AbortSignal,
    isFirst: boolean,
  ): Promise<Residency> {
    const { clock, logger, limits } = this.#options;
    const thread = await this.#threads.checkout(
      { memoryMb: memory },
      {
        signal,
        isRefusable: isFirst,
        root: this.#options.rootOf(agent),
        queued: (isQueued) => {
          if (isQueued) this.#queued.add(agent);
          // It never had to wait.
          else if (!this.#queued.delete(agent)) return;
          for (const listener of [...this.#queueListeners]) listener(agent);
        },
      },
    );
    const modules = this.#options.toolModules();
    const gateway = new ModelGateway(clock);
    const desk = new ToolDesk({
      scope: spec.tools,
      ports: deskPorts(agent, () => this.#threads.review()),
      clock,
      logger,
      hooks: spec.hooks,
      concurrency: TOOL_CONCURRENCY,
      abandonAfterMs: () => (agent.isClosing ? limits.stopGraceMs : giveUpMs(limits)),
      isForChild: () => this.#options.isWaiting(agent),
    });
    let residency: Residency;
    try {
      residency = new Residency({
        thread,
        init: this.#init(spec, modules),
        clock,
        startMs: limits.startMs,
        stopGraceMs: limits.stopGraceMs,
        claimMs: limits.unresponsiveMs,
        isInTurn: () => agent.conversation.open !== undefined,
        keepsState: modules.some(({ keepsState }) => keepsState === true),
        services: (self) =>
          new AgentServices({
            agent,
            residency: self,
            desk,
            gateway,
            clock,
            logger,
            random: () => this.#options.random(),
            routeOf: (provider) => this.#options.routeOf(provider),
          }),
        durable: () => agent.session.durable,
        event(event) {
          if (event.type === 'step/end' && desk.pending > 0) {
            const text = 'A thread ended its step while calls of it are under way.';
            throw new ProtocolError('PROTOCOL_VIOLATION', text);
          }
          agent.onEvent(event);
        },
        received: (bytes) => agent.meter.frame(bytes),
      });
    } catch (error) {
      // What the init holds cannot be cloned, or the thread died in between.
      thread.kill(new WorkerError('WORKER_START_FAILED', 'The agent could not be handed over.'));
      await thread.ended;
      throw error;
    }
    this.#resident.set(agent, desk);
    this.#attendance.attend(agent, thread, residency);
    void residency.ended.then(() => {
      this.#resident.delete(agent);
      desk.abandon();
      void gateway.abortAll();
    });
    const tools = await residency.ready(signal);
    try {
      spec.tools.addModuleTools(tools);
      if (isFirst) spec.tools.assertFilters();
    } catch (error) {
      residency.kill(new WorkerError('WORKER_START_FAILED', 'The start was refused.'));
      await residency.ended;
      throw error;
    }
    return residency;
  }

  #init(spec: AgentSpec, modules: readonly ToolModule[]): Omit<WorkerInit, 'cancel'> {
    const { session, route } = spec;
    const { cwd, delegationDepth = 0 } = session.header;
    return {
      sessionId: session.id,
      ...(cwd === undefined ? {} : { cwd }),
      depth: delegationDepth,
      toolModules: modules.map(({ module, options }) => ({
        url: module.href,
        ...(options === undefined ? {} : { options }),
      })),
      ...(route?.kind === 'module' ? { modelModule: route.module } : {}),
      window: DEFAULT_WINDOW,
      toolConcurrency: TOOL_CONCURRENCY,
    };
  }

  #noThread(keeps: boolean): string {
    const { liveCount, bound } = this.#threads;
    const held =
      `all ${liveCount} are held by agents that wait for children of their own` +
      `${keeps ? ', or keep the state of a module' : ''}. `;
    if (bound === undefined) {
      return `No thread is free: ${held}Delegate less deeply, dispose what is done, or raise limits.maxThreads.`;
    }
    const now = liveCount === 0 ? 'none lives now. ' : held;
    return (
      `No thread is free: the machine bears no further one, for want of ${bound}, and ${now}` +
      'Delegate less deeply, or dispose what is done.'
    );
  }

  /**
   * Every thread has an agent and someone waits for one. An idle agent's thread is taken, unless
   * it keeps the state of a module. If every other agent waits for a child of its own, nothing
   * would ever move, so the newest start is refused. A thread that is being ended already makes
   * the room.
   */
  #makeRoom(): void {
    const agents = [...this.#resident.keys()];
    // A child that a tool call or a hook waits for; one that main started by itself holds nobody up.
    const waits = ([agent, desk]: [ThreadAgent, ToolDesk]): boolean =>
      (desk.pending > 0 || agent.isAsking) && this.#options.isWaiting(agent);
    if (agents.some((agent) => agent.isLeaving)) return;
    const idle = agents.find((agent) => agent.unusedThread === 'reclaimable');
    if (idle !== undefined) {
      void idle.leaveThread();
      return;
    }
    const moves = [...this.#resident].some(
      (entry) => entry[0].unusedThread !== 'kept' && !waits(entry),
    );
    if (moves) return;
    const keeps = agents.some((agent) => agent.unusedThread === 'kept');
    this.#threads.refuseNewest(new SubagentError('CAPACITY', this.#noThread(keeps)));
  }
}

/**
 * How long a call on main whose turn was cancelled is waited for. It may wait for a child, which
 * was told in the same tick, and may need all of this: its turn has the grace to stop, its
 * thread another to end, and one that is ended by force some time to be gone. A call that is
 * given up before would be blamed for its child, and its agent would go on beside it. In a
 * disposal nothing is waited for longer than the agent's own thread.
 */
function giveUpMs({ interruptGraceMs, stopGraceMs }: ResolvedLimits): number {
  return durationOf(interruptGraceMs, stopGraceMs, STUCK_MS, MARGIN_MS);
}

/** Where a tool call and its result enter the log, and what it wants shown next. */
function deskPorts(
  agent: ThreadAgent,
  /** The agent begins to wait: whoever is queued may have nobody left to wait for. */
  onWait: () => void,
): ConstructorParameters<typeof ToolDesk>[0]['ports'] {
  const { session, meter } = agent;
  return {
    agent,
    started({ turn, step, callId, name, arguments: raw }: ToolCallRequest) {
      session.append('tool/call', { turn, step, callId, name, arguments: raw });
      meter.callStarted(callId, name);
      if (meter.countsBytes) meter.added(utf8Bytes(raw));
      onWait();
      return session.committed();
    },
    settled({ turn, step, callId }: ToolCallRequest, result: ToolResult) {
      const call = session.open?.unanswered.get(callId);
      const message: ToolResultMessage = {
        id: MessageId(newId()),
        role: 'user',
        content: [
          {
            type: 'tool-result',
            toolCallId: callId,
            content: result.content,
            ...(result.isError ? { isError: true } : {}),
          },
        ],
        source: { kind: 'tool', callId },
      };
      const event = session.append(
        'tool/result',
        {
          turn,
          step,
          message,
          ...(result.error === undefined ? {} : { error: result.error }),
          ...(result.meta === undefined ? {} : { meta: result.meta }),
        },
        call === undefined ? {} : { sources: [call.seq] },
      );
      meter.callSettled(callId);
      if (meter.countsBytes) meter.added(utf8Bytes(JSON.stringify(event.data)));
      for (const { content, source } of result.contexts) {
        // An agent that is being ended reads nothing more. An observer of the result, or of the
        // context before, may just have ended it.
        if (agent.isClosing) return;
        if (meter.countsBytes) meter.added(utf8Bytes(JSON.stringify(content)));
        agent.defer(createUserMessage(content, source));
      }
    },
  };
}
