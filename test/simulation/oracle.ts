/**
 * What must be so, whatever happens in whichever order: looked at as events are told, after each
 * action, when all is quiet, and in what the disk holds at the end.
 */
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import { isNotice } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import type { SessionEvent, TurnEndReason } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { Harness } from '../../src/harness.ts';
import type { SubagentResult, SubagentRun } from '../../src/subagents/provider.ts';
import { watchInvariants } from '../../src/subagents/invariants.ts';
import type { InvariantWatch } from '../../src/subagents/invariants.ts';
import type { WorkerHost } from '../../src/worker-host/worker-host.ts';
import { STUCK_MS } from '../../src/worker-host/thread.ts';
import { here } from './life.ts';
import { Causes } from './causes.ts';
import type { Plan } from './plan.ts';
import type { SimThread } from './sim-thread.ts';

/** One delegation that was told of, in one life. */
export interface Delegation {
  readonly child: SessionId;
  readonly agent: Agent | undefined;
  readonly parent: SessionId | undefined;
  readonly isOneShot: boolean;
  accepted: number;
  notices: number;
}

/** A message whose acceptance somebody was told of. */
export interface Accepted {
  readonly session: SessionId;
}

export class Oracle {
  readonly violations: string[] = [];
  readonly plan: Plan;
  readonly causes: Causes;
  /** Is told of every event, if somebody wants to read them. */
  note: ((line: string) => void) | undefined;
  /** Every session whose start was told, and roots. */
  readonly known = new Set<SessionId>();
  readonly accepted = new Map<MessageId, Accepted>();
  /** Starts of children under an id of ours, and what became of them. */
  readonly starts = new Map<string, 'asked' | 'accepted' | 'refused' | 'cut'>();
  /** Turns whose end a thread posted before it ended, by session and turn. */
  readonly said = new Map<string, string>();
  /** What waited for these, or for whoever was below them, was to be thrown away. */
  readonly discarded = new Set<SessionId>();
  /** Withdrawn before it was kept, and so never accepted. */
  readonly withdrawn = new Set<string>();
  readonly #parents = new Map<SessionId, SessionId>();
  /** One that is over takes with it who is below. */
  readonly #oneShots = new Set<SessionId>();
  /** The store refused something in this life, or took too long. */
  hasStoreFailed = false;
  hasEverFailed = false;
  restarts = 0;
  /** Residencies of children that go on, over all lives. */
  readonly residencies = new Map<SessionId, number>();
  #open = new Map<string, Delegation>();
  /** Nothing of them happens any more, as somebody was promised. */
  #gone = new WeakSet<object>();
  /** Their end was told; what their store fails at then may still be taken back. */
  #ended = new WeakSet<Agent>();
  /** Messages that an inbox has taken. */
  readonly #given = new Set<string>();
  #harness: Harness | undefined;
  #host: WorkerHost | undefined;
  /** New children of this life of the root, and every child there ever was. */
  #made = 0;
  readonly #resumed = new Set<SessionId>();
  /** Children of this life of main. */
  readonly #ofThisLife = new Set<SessionId>();
  #watch: InvariantWatch | undefined;

  constructor(plan: Plan) {
    this.plan = plan;
    this.causes = new Causes(plan, this);
  }

  say(problem: string): void {
    if (this.violations.length < 20) this.violations.push(problem);
  }

  get open(): ReadonlyMap<string, Delegation> {
    return this.#open;
  }

  /** Main begins another life. */
  attach(harness: Harness, host: WorkerHost | undefined): void {
    this.#harness = harness;
    this.#host = host;
    this.#open = new Map();
    this.#made = 0;
    this.causes.begin();
    this.#watch = watchInvariants(harness);
    const { agents } = harness;
    harness.on('subagent/start', ({ runId, id }) => {
      const agent = agents.get(id);
      if (agent === undefined) return this.say(`the start of ${id} is told, and it is not live`);
      if ([...this.#open.values()].some(({ child }) => child === id)) {
        this.say(`${id} has two residencies at once`);
      }
      this.known.add(id);
      const parent = agent.session.header.parentSession;
      const { seedLength = 0 } = agent.session.header;
      const isOneShot = !agent.session
        .eventsFrom(seedLength)
        .some(
          ({ type, data }) =>
            type === 'subagent/descriptor' && 'mode' in data && data.mode === 'continuable',
        );
      if (parent !== undefined) this.#parents.set(id, parent);
      if (isOneShot) this.#oneShots.add(id);
      if (!isOneShot) this.residencies.set(id, (this.residencies.get(id) ?? 0) + 1);
      if (!this.#resumed.has(id)) this.#made++;
      this.#resumed.add(id);
      this.#ofThisLife.add(id);
      const { maxTotalChildren = Infinity } = this.plan;
      // A start that could not be kept after all is as if it had never been.
      if (this.#made > maxTotalChildren && !this.hasStoreFailed)
        this.say(`${this.#made} children were made`);
      this.#open.set(runId, { child: id, agent, parent, isOneShot, accepted: 0, notices: 0 });
    });
    harness.on('subagent/end', ({ runId, id, stopReason, diagnostic }) => {
      if ((stopReason === 'error') !== (diagnostic !== undefined) && stopReason !== 'refusal') {
        this.say(`${id} ended as ${stopReason}, and why is ${String(diagnostic)}`);
      }
      const run = this.#open.get(runId);
      if (run === undefined) return this.say(`an end of ${id} pairs with no start`);
      this.#open.delete(runId);
      if (run.isOneShot) return;
      if (agents.get(id) !== undefined) this.say(`${id} is live when its end is told`);
      for (const { child, parent } of this.#open.values()) {
        if (parent === id) this.say(`${id} ended before its child ${child}`);
      }
      if (run.agent !== undefined) this.isOver(run.agent, `the end of ${id}`);
      const isParentLive = run.parent !== undefined && agents.get(run.parent) !== undefined;
      const expected = run.accepted > 0 && isParentLive ? 1 : 0;
      // One whose task could not be kept was never there for its parent.
      const isFine = run.notices === expected || (this.hasStoreFailed && run.notices < 2);
      if (!isFine)
        this.say(`${run.notices} notices of ${id} (${stopReason}) instead of ${expected}`);
    });
    harness.on('agent/inbox/inserted', ({ agent, message }) => this.#inserted(agent, message));
    harness.on('agent/inbox/discarded', ({ message }) => void this.withdrawn.add(message.id));
    harness.on('agent/created', ({ agent }) => void this.known.add(agent.id));
    harness.on('agent/error', ({ agent, turn, error }) => {
      this.causes.told(agent.id, turn, error);
    });
    harness.on('agent/disposed', ({ agent }) => {
      this.note?.(`  ${agent.id} is disposed`);
      for (const other of agents.list()) {
        if (other.session.header.parentSession === agent.id && other !== agent) {
          this.say(`${agent.id} was disposed before its child ${other.id}`);
        }
      }
      this.#ended.add(agent);
    });
    harness.on('session/event', ({ session, event }) => {
      this.causes.event(session.id, event);
      this.note?.(
        `  log of ${session.id}: ${event.type} ${JSON.stringify(event.data).slice(0, 150)}`,
      );
      if (this.#gone.has(session)) this.say(`${event.type} of ${session.id} came after its end`);
    });
    for (const type of ['agent/status', 'agent/inbox/claimed', 'agent/error'] as const) {
      harness.on(type, ({ agent }) => {
        const isOver = type !== 'agent/error' && this.#ended.has(agent);
        if (isOver || this.#gone.has(agent)) this.say(`${type} of ${agent.id} came after its end`);
      });
    }
  }

  /** Nothing of this agent happens any more from now on. */
  isOver(agent: Agent, when: string): void {
    if (this.#harness?.agents.get(agent.id) === agent)
      this.say(`${agent.id} is live after ${when}`);
    this.#gone.add(agent);
    this.#gone.add(agent.session);
  }

  /** A model, or a tool on main, is called for this agent. */
  works(id: string | undefined, what: string): void {
    if (id === undefined || this.#harness === undefined) return;
    const agent = this.#harness.agents.get(id as SessionId);
    if (agent === undefined || this.#ended.has(agent)) this.say(`${what} for ${id} after its end`);
  }

  /** A thread posted the end of a turn. */
  heard(thread: SimThread, frame: { readonly type: string } & Record<string, unknown>): void {
    if (frame.type !== 'events' || thread.hasMisbehaved || thread.state !== 'running') return;
    const events = frame['events'] as {
      type: string;
      data: { turn: number; reason: TurnEndReason };
    }[];
    for (const { type, data } of events) {
      if (type !== 'turn/end') continue;
      this.said.set(`${thread.init?.sessionId} ${data.turn}`, data.reason.kind);
    }
  }

  resulted(run: SubagentRun, result: SubagentResult): void {
    const { session } = run.localAgent ?? {};
    const agent = [...this.#open.values()].find(({ child }) => child === run.id)?.agent;
    const log = session ?? agent?.session;
    if (log === undefined) return;
    const end = lastEnd(log.eventsFrom(log.header.seedLength ?? 0));
    if (end?.kind === 'completed' && result.stopReason !== 'completed') {
      this.say(`${run.id} completed in its log, and its result is ${result.stopReason}`);
    }
    if (result.stopReason === 'completed' && end?.kind !== 'completed') {
      this.say(`${run.id} is told as completed, and its log says ${String(end?.kind)}`);
    }
  }

  /** Whether what waited for this session may have been thrown away. */
  mayDiscard(session: SessionId): boolean {
    let at: SessionId | undefined = session;
    for (; at !== undefined; at = this.#parents.get(at)) {
      if (this.discarded.has(at) || (at !== session && this.#oneShots.has(at))) return true;
    }
    return false;
  }

  /** Its run fails with its turn, and then it takes nothing more. */
  isOneShot(session: SessionId): boolean {
    return this.#oneShots.has(session);
  }

  /** Main warned of something. */
  warned(text: string, fields: object): void {
    this.note?.(`  warned: ${text} ${JSON.stringify(fields).slice(0, 200)}`);
    const problem = this.causes.unwarranted(text, fields);
    if (problem !== undefined) this.say(problem);
  }

  /** After each action. */
  look(): void {
    this.causes.look();
    const stalls = this.#host?.stalls(this.#harness?.agents.list() ?? []) ?? [];
    for (const stall of stalls) this.say(`it stalls: ${stall}`);
    const { maxThreads, maxLiveChildren = Infinity } = this.plan;
    const live = (this.#harness?.agents.list().length ?? 0) - 1;
    if (live > maxLiveChildren) this.say(`${live} children are live`);
    let threads = 0;
    for (const { state, terminatedAt = Infinity } of here.life.threads) {
      // One that was to end and does not is given up.
      if (state !== 'gone' && here.now - terminatedAt < STUCK_MS) threads++;
    }
    if (threads > maxThreads) this.say(`there are ${threads} threads, of at most ${maxThreads}`);
  }

  /** All that can happen by itself has happened, and nothing is held up any more. */
  quiet(): void {
    for (const agent of this.#harness?.agents.list() ?? []) {
      if (agent.status === 'running') this.say(`${agent.id} runs, and nothing can move it`);
    }
    const open = [...this.#open.values()];
    for (const { child, agent, isOneShot } of open) {
      if (isOneShot) this.say(`the run of ${child} has no result`);
      else if (!open.some(({ parent }) => parent === child) && agent?.inbox.hasPending === false) {
        this.say(`${child} stays, with nothing to do or to wait for`);
      }
    }
  }

  /** The harness is disposed. */
  disposed(): void {
    const harness = this.#harness;
    if (harness === undefined) return;
    for (const { child } of this.#open.values()) this.say(`${child} has no end`);
    for (const { message } of this.#watch?.violations ?? []) this.say(message);
    if (harness.agents.list().length > 0) this.say('agents are left');
    if (harness.sessions.list().length > 0) this.say('sessions are left');
  }

  /** The process died: what was open has no end, and what was asked has no answer. */
  cut(): void {
    this.restarts++;
    this.#harness = undefined;
    this.#host = undefined;
    this.said.clear();
    this.#ofThisLife.clear();
    this.hasStoreFailed = false;
    for (const [id, fate] of this.starts) if (fate === 'asked') this.starts.set(id, 'cut');
  }

  /** It was cut off with main, and nobody has brought it back: what becomes of its claim is open. */
  isCutOff(session: SessionId): boolean {
    return this.restarts > 0 && !this.#ofThisLife.has(session);
  }

  /** What its thread said last need not be in its log. */
  isExcused(session: SessionId): boolean {
    return this.hasEverFailed || this.starts.get(session) === 'refused';
  }

  #inserted(agent: Agent, { id, source }: UserMessage): void {
    const ofSession = (id: SessionId): Delegation | undefined =>
      [...this.#open.values()].find(({ child }) => child === id);
    if (!isNotice(source) && source.kind !== 'subagent-report') {
      const run = ofSession(agent.id);
      if (run !== undefined) run.accepted++;
    }
    const { maxPending = Infinity } = this.plan;
    const waits = [...agent.inbox.nextTurn, ...agent.inbox.nextStep];
    // One that is put back was admitted before.
    const isFirst = !this.#given.has(id);
    this.#given.add(id);
    if (!isFirst) return;
    if (!isNotice(source) && waits.filter((one) => !isNotice(one.source)).length > maxPending) {
      this.say(`more than ${maxPending} messages wait for ${agent.id}`);
    }
    if (source.kind !== 'subagent-settled') return;
    const { senderSessionId: sender } = source;
    const run = ofSession(sender);
    if (run === undefined) this.say(`a notice of ${sender} came after its end was told`);
    else run.notices++;
    if (this.#harness?.agents.get(sender) !== undefined) {
      this.say(`a notice of ${sender} came before it was gone`);
    }
  }
}

export function lastEnd(events: readonly SessionEvent[]): TurnEndReason | undefined {
  const end = events.findLast(({ type }) => type === 'turn/end');
  return end?.type === 'turn/end' ? end.data.reason : undefined;
}
