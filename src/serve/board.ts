/**
 * What the live sessions of one harness do, derived each time it is asked from facts that have
 * their homes elsewhere. Keeps only what nobody else does: which runs are another process's, what
 * delegations are called, and how many of what there were. One per harness, for as long as it is.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Harness } from '../harness.ts';
import { KeyLock } from '../base/key-lock.ts';
import { OpenedRoots } from './opened-roots.ts';
import { threadQueue } from '../harness.ts';
import type { Session } from '../session/session.ts';
import { observeDelegations } from '../subagents/runtime.ts';
import type { SessionStatus } from './session-status.ts';
import { endOfTurn } from '../subagents/summary-projection.ts';

/** A run without an agent here: in no store, known from live events alone. */
export interface ExternalRun {
  readonly id: string;
  readonly parent: string;
  readonly provider: string;
  readonly label: string | undefined;
  readonly startedAt: number;
}

/** Counted since the first who asked. */
export interface Counts {
  turns: number;
  failedTurns: number;
  toolCalls: number;
  inputTokens: number;
  outputTokens: number;
  delegations: number;
}

const boards = new WeakMap<Harness, Board>();

export function boardOf(harness: Harness): Board {
  let board = boards.get(harness);
  if (board === undefined) boards.set(harness, (board = new Board(harness)));
  return board;
}

export class Board {
  readonly harness: Harness;
  /** Of a session while it is made or opened by somebody outside. */
  readonly opening = new KeyLock<string>();
  readonly roots: OpenedRoots;
  readonly externals = new Map<string, ExternalRun>();
  readonly counts: Counts = {
    turns: 0,
    failedTurns: 0,
    toolCalls: 0,
    inputTokens: 0,
    outputTokens: 0,
    delegations: 0,
  };
  /** What the delegation is called that made a live child: its log may not say so yet. */
  readonly #labels = new Map<string, string>();
  readonly #children = new Map<string, Set<string>>();

  constructor(harness: Harness) {
    this.harness = harness;
    this.roots = new OpenedRoots(harness, this.opening, (id) => this.#hasLiveBelow(id));
    for (const session of harness.sessions.list()) this.#add(session);
    harness.on('session/created', ({ session }) => this.#add(session));
    harness.on('session/disposed', ({ session }) => this.#remove(session));
    harness.on('session/event', ({ event }) => this.#count(event));
    observeDelegations(harness.subagents, 'subagent/start', ({ parent, label, info }) => {
      this.counts.delegations++;
      const { id, provider, local } = info;
      if (local && label !== undefined) this.#labels.set(id, label);
      if (local) return;
      const run = { id, parent: parent.id, provider, label, startedAt: Date.now() };
      this.externals.set(id, run);
    });
    observeDelegations(harness.subagents, 'subagent/end', ({ info }) => {
      this.externals.delete(info.id);
    });
  }

  labelOf(id: string): string | undefined {
    return this.#labels.get(id);
  }

  statusOf(session: Session): SessionStatus {
    const { harness } = this;
    const { id, open } = session;
    const agent = harness.agents.get(id);
    const isLive = harness.sessions.get(id) === session;
    if (!isLive) return { status: 'settled', ...endOf(session) };
    if (open !== undefined) {
      if (open.unanswered.size > 0) {
        const isForChild = agent !== undefined && harness.agents.isWaiting(agent);
        const waitingOn = isForChild || this.#hasExternal(id) ? 'child' : 'tool';
        return { status: 'waiting', waitingOn };
      }
      if (open.step !== undefined && isAsking(session)) {
        return { status: 'waiting', waitingOn: 'model' };
      }
      return { status: 'running' };
    }
    if (agent === undefined) return { status: 'starting' };
    if (agent.status === 'running') {
      if (threadQueue(harness).has(agent)) return { status: 'queued' };
      // After a turn its loop looks whether there is more: that is still its work.
      return { status: agent.inbox.hasPending ? 'starting' : 'running' };
    }
    if (this.#hasLiveBelow(id)) return { status: 'waiting', waitingOn: 'child', ...endOf(session) };
    const end = endOf(session);
    // A child was made to be told something, which is on its way.
    const isNew = end.reason === undefined && session.header.parentSession !== undefined;
    return { status: isNew ? 'starting' : 'idle', ...end };
  }

  #hasLiveBelow(id: string): boolean {
    return (this.#children.get(id)?.size ?? 0) > 0 || this.#hasExternal(id);
  }

  #hasExternal(id: string): boolean {
    for (const { parent } of this.externals.values()) if (parent === id) return true;
    return false;
  }

  #add({ id, header: { parentSession } }: Session): void {
    if (parentSession === undefined) return;
    const siblings = this.#children.get(parentSession);
    if (siblings === undefined) this.#children.set(parentSession, new Set([id]));
    else siblings.add(id);
  }

  #remove({ id, header: { parentSession } }: Session): void {
    this.#labels.delete(id);
    if (parentSession === undefined) return;
    const siblings = this.#children.get(parentSession);
    siblings?.delete(id);
    if (siblings?.size === 0) this.#children.delete(parentSession);
  }

  #count(event: SessionEvent): void {
    const { counts } = this;
    if (event.type === 'turn/start') counts.turns++;
    else if (event.type === 'tool/call') counts.toolCalls++;
    else if (event.type === 'turn/end') {
      if (event.data.reason.kind !== 'completed') counts.failedTurns++;
    } else if (event.type === 'assistant/message' && event.data.usage !== undefined) {
      const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = event.data.usage;
      counts.inputTokens += inputTokens + (cacheReadTokens ?? 0) + (cacheWriteTokens ?? 0);
      counts.outputTokens += outputTokens;
    }
  }
}

/** The latest event that decides, from the end: a few steps in nearly every log. */
function lastOf<T>(session: Session, look: (event: SessionEvent) => T | undefined): T | undefined {
  const first = session.header.seedLength ?? 0;
  for (let seq = session.seq - 1; seq >= first; seq--) {
    const [event] = session.eventsFrom(seq, seq + 1);
    const found = event && look(event);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A request was made in the open step, and nothing came of it yet. */
function isAsking(session: Session): boolean {
  return (
    lastOf(session, ({ type }) => {
      if (type === 'assistant/chunk' || type === 'assistant/message') return false;
      return type === 'step/start' || type === 'llm/retry' ? true : undefined;
    }) ?? false
  );
}

function endOf(session: Session): Pick<SessionStatus, 'reason' | 'failure'> {
  return (
    lastOf(session, (event) =>
      event.type === 'turn/end' ? endOfTurn(event.data.reason) : undefined,
    ) ?? {}
  );
}

export const sessionOf = (harness: Harness, id: string): Session | undefined =>
  harness.sessions.get(id as SessionId);
