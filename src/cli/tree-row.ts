/** One agent as the tree shows it. */
import type { Failure, RowDiagnostic, SessionRow, SessionStatus } from '../index.ts';

/**
 * - `queued`: it was asked for, and waits for a thread; `starting`: it has one, and no turn yet
 * - `running`: its model writes; `model`, `tool`, `child`: it waits for that
 * - `idle`: it has nothing to do, and goes on when it is told something
 * - the others: how its last turn, or its life, ended
 */
export type AgentState =
  | 'queued'
  | 'starting'
  | 'running'
  | 'model'
  | 'tool'
  | 'child'
  | 'idle'
  | 'completed'
  | 'failed'
  | 'stopped';

export type RowFailure = Pick<Failure, 'code' | 'message'>;

export interface AgentRow {
  readonly id: string;
  readonly parent: string | undefined;
  /** False for what is only asked for: its id is made up. */
  readonly hasSession: boolean;
  label: string;
  /** Takes follow-ups: between two turns it is idle, and not over. */
  goesOn: boolean;
  state: AgentState;
  /** When it was made or, if that was in an earlier life, when it was brought back. */
  startedAt: number;
  endedAt: number | undefined;
  /** Time at work that is over; and since when it is at work now. */
  workedMs: number;
  workingSince: number | undefined;
  inputTokens: number;
  outputTokens: number;
  /** Whether its model ever told how many tokens it used. */
  hasUsage: boolean;
  /** The last line it wrote in this step; without one, the tool it called last. */
  lastLine: string;
  hasWritten: boolean;
  /** Calls that have no result yet. */
  readonly calls: Map<string, 'tool' | 'child'>;
  failure: RowFailure | undefined;
  /** What went wrong with the agent itself, outside of its turns. */
  error: RowFailure | undefined;
  readonly children: AgentRow[];
}

export function newRow(
  given: Pick<AgentRow, 'id' | 'parent' | 'label' | 'startedAt'> & Partial<AgentRow>,
): AgentRow {
  return {
    hasSession: true,
    goesOn: false,
    state: 'starting',
    endedAt: undefined,
    workedMs: 0,
    workingSince: given.startedAt,
    inputTokens: 0,
    outputTokens: 0,
    hasUsage: false,
    lastLine: '',
    hasWritten: false,
    calls: new Map(),
    failure: undefined,
    error: undefined,
    children: [],
    ...given,
  };
}

/** Without a label of its own. */
export const nameOf = (id: string): string => id.slice(-8);

export function rowOfSession(session: SessionRow): AgentRow {
  const { id, parentId, mode, tokens, workedMs, workingSince, lastLine = '' } = session;
  const goesOn = mode === 'continuable' || mode === 'root';
  return newRow({
    id,
    parent: parentId,
    label: session.label ?? (mode === 'root' ? 'root' : nameOf(id)),
    goesOn,
    state: stateOf(session, goesOn),
    startedAt: session.createdAt,
    workedMs,
    workingSince,
    inputTokens: tokens?.input ?? 0,
    outputTokens: tokens?.output ?? 0,
    hasUsage: tokens !== undefined,
    lastLine,
    hasWritten: lastLine !== '',
    failure: session.failure ?? failureOf(session.reason),
  });
}

export const rowOfDiagnostic = ({ id, parentId, reason }: RowDiagnostic): AgentRow =>
  newRow({
    id,
    parent: parentId,
    label: nameOf(id),
    state: 'failed',
    startedAt: 0,
    workingSince: undefined,
    failure: { code: reason.toUpperCase(), message: 'Its log cannot be read.' },
  });

/** What the process that runs it says it does: more than its log tells. */
export function applyStatus(row: AgentRow, told: SessionStatus): void {
  const isOver = told.status === 'idle' || told.status === 'settled';
  // How it failed is known better by now than from how its last turn ended.
  if (isOver && row.failure !== undefined) return;
  row.state = stateOf(told, row.goesOn);
}

function stateOf(
  { status, waitingOn, reason, failure }: SessionStatus,
  goesOn: boolean,
): AgentState {
  if (status === 'waiting') return waitingOn ?? 'model';
  if (status !== 'idle' && status !== 'settled') return status;
  if (reason === 'aborted') return 'stopped';
  if (failure !== undefined || failureOf(reason) !== undefined) return 'failed';
  if (status === 'idle' && (goesOn || reason === undefined)) return 'idle';
  return reason === undefined ? 'stopped' : 'completed';
}

/** An ending that is not known is a failure. */
const failureOf = (reason: string | undefined): RowFailure | undefined =>
  reason === undefined || reason === 'completed'
    ? undefined
    : { code: reason.toUpperCase().replaceAll('-', '_'), message: `The turn ended: ${reason}.` };
