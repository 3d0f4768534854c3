/** The agents of one run as data: a fold over what the runtime tells. Knows no terminal. */
import type { Failure, RuntimeEvent, SessionEvent } from '../index.ts';

export type AgentState = 'starting' | 'running' | 'completed' | 'failed' | 'stopped';

export interface AgentRow {
  readonly id: string;
  readonly parent: string | undefined;
  label: string;
  state: AgentState;
  readonly startedAt: number;
  endedAt: number | undefined;
  inputTokens: number;
  outputTokens: number;
  /** Whether its model ever told how many tokens it used. */
  hasUsage: boolean;
  /** The last line it wrote in this step; without one, the tool it called last. */
  lastLine: string;
  hasWritten: boolean;
  failure: RowFailure | undefined;
  /** What went wrong with the agent itself, outside of its turns. */
  error: RowFailure | undefined;
  readonly children: AgentRow[];
}
export type RowFailure = Pick<Failure, 'code' | 'message'>;

/** A delegation that brought no result, with or without a child of its own. */
export interface FailedRun extends RowFailure {
  readonly label: string;
}

/** The name under which a run's agents delegate. */
export const DELEGATION_TOOL = 'subagent';

const LAST_LINE_CHARACTERS = 200;

export class TreeModel {
  readonly #rows = new Map<string, AgentRow>();
  readonly #delegations = new Map<string, string>();
  /** Delegations whose call failed, with the agent that made it. */
  readonly #unanswered: (FailedRun & { readonly by: AgentRow })[] = [];
  #root: AgentRow | undefined;

  get root(): AgentRow | undefined {
    return this.#root;
  }

  get rows(): readonly AgentRow[] {
    return [...this.#rows.values()];
  }

  row(id: string): AgentRow | undefined {
    return this.#rows.get(id);
  }

  /** Children that did not complete, and delegations that were refused a child. */
  failures(): readonly FailedRun[] {
    const failed = this.rows.filter(
      ({ parent, failure }) => parent !== undefined && failure !== undefined,
    );
    // Either can be told first: what a call tells again of its child counts once.
    const told = new Set<AgentRow>();
    const refused = this.#unanswered.filter(({ by, label }) => {
      const child = by.children.find(
        (each) => each.label === label && each.failure !== undefined && !told.has(each),
      );
      if (child !== undefined) told.add(child);
      return child === undefined;
    });
    return [
      ...failed.map(({ label, failure }) => ({ label, ...(failure as RowFailure) })),
      ...refused.map(({ label, code, message }) => ({ label, code, message })),
    ];
  }

  apply(event: RuntimeEvent): void {
    switch (event.type) {
      case 'session/created':
        return this.#create(event);
      case 'session/event': {
        const row = this.#rows.get(event.session);
        if (row !== undefined) this.#fold(row, event.event);
        return;
      }
      case 'subagent/end': {
        const row = this.#rows.get(event.id);
        if (row === undefined || event.stopReason === 'completed') return;
        row.failure ??= failureOfRun(row, event.stopReason);
        end(row, event.stopReason === 'aborted' ? 'stopped' : 'failed', event.time);
        return;
      }
      case 'agent/error': {
        const row = this.#rows.get(event.session);
        if (row !== undefined) row.error = { code: event.code, message: event.message };
        return;
      }
      // Folded from the events.
      case 'session/status':
        return;
      case 'subagent/start': {
        const row = this.#rows.get(event.id);
        if (row !== undefined) row.label = event.label ?? row.label;
        return;
      }
      default:
        event satisfies never;
    }
  }

  #create({ session: id, parent, time, label }: EventOf<'session/created'>): void {
    const above = parent === undefined ? undefined : this.#rows.get(parent);
    const row: AgentRow = {
      id,
      parent,
      label: above === undefined ? 'root' : (label ?? id.slice(-8)),
      state: 'starting',
      startedAt: time,
      endedAt: undefined,
      inputTokens: 0,
      outputTokens: 0,
      hasUsage: false,
      lastLine: '',
      hasWritten: false,
      failure: undefined,
      error: undefined,
      children: [],
    };
    this.#rows.set(id, row);
    if (above === undefined) this.#root ??= row;
    else above.children.push(row);
  }

  #fold(row: AgentRow, event: SessionEvent): void {
    switch (event.type) {
      case 'subagent/descriptor':
        row.label = event.data.label ?? row.label;
        return;
      case 'turn/start':
        row.state = 'running';
        row.endedAt = undefined;
        row.failure = undefined;
        return;
      case 'step/start':
        row.hasWritten = false;
        return;
      case 'assistant/chunk':
        if (event.data.chunk.type === 'text-delta') addText(row, event.data.chunk.text);
        return;
      case 'assistant/message': {
        const { usage } = event.data;
        row.hasUsage ||= usage !== undefined;
        row.inputTokens +=
          (usage?.inputTokens ?? 0) +
          (usage?.cacheReadTokens ?? 0) +
          (usage?.cacheWriteTokens ?? 0);
        row.outputTokens += usage?.outputTokens ?? 0;
        row.lastLine += row.lastLine === '' ? '' : '\n';
        return;
      }
      case 'llm/retry': {
        const { retry, maxRetries, failure } = event.data;
        row.lastLine = `retry ${retry} of ${maxRetries}: ${failure.message}\n`;
        return;
      }
      case 'tool/call': {
        const { name, callId } = event.data;
        if (!row.hasWritten) {
          row.lastLine = `${`${name} ${event.data.arguments}`.slice(0, LAST_LINE_CHARACTERS)}\n`;
        }
        if (name === DELEGATION_TOOL) {
          this.#delegations.set(`${row.id} ${callId}`, labelOf(event.data.arguments));
        }
        return;
      }
      case 'tool/result':
        return this.#settleDelegation(row, event.data);
      case 'turn/end':
        return endTurn(row, event.data.reason, event.time);
      // The other events change nothing that is shown.
      default:
    }
  }

  #settleDelegation(row: AgentRow, { message, error }: ToolResultData): void {
    const key = `${row.id} ${message.source.callId}`;
    const label = this.#delegations.get(key);
    this.#delegations.delete(key);
    const block = message.content[0];
    if (label === undefined || block?.type !== 'tool-result' || block.isError !== true) return;
    const text = block.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
    this.#unanswered.push({ by: row, label, code: error?.code ?? 'FAILED', message: text });
  }
}

type EventOf<T extends RuntimeEvent['type']> = Extract<RuntimeEvent, { type: T }>;
type DataOf<T extends SessionEvent['type']> = Extract<SessionEvent, { type: T }>['data'];
type ToolResultData = DataOf<'tool/result'>;

/** Why a run brought no result although no turn of it failed: the code its parent is told. */
function failureOfRun(row: AgentRow, stopReason: string): RowFailure {
  if (stopReason === 'aborted') {
    return { code: 'ABORTED', message: 'It was stopped before it was done.' };
  }
  if (row.state === 'completed') {
    const message = 'The child finished without handing in a valid structured result.';
    return { code: 'NO_STRUCTURED_OUTPUT', message };
  }
  return row.error ?? { code: 'FAILED', message: 'It ended before its turn was finished.' };
}

function endTurn(row: AgentRow, reason: DataOf<'turn/end'>['reason'], time: number): void {
  switch (reason.kind) {
    case 'completed':
      return end(row, 'completed', time);
    case 'aborted':
      row.failure = { code: 'ABORTED', message: `It was stopped (${reason.reason.kind}).` };
      return end(row, 'stopped', time);
    case 'error':
      row.failure = { code: reason.error.code, message: reason.error.message };
      return end(row, 'failed', time);
    case 'max-tokens':
      row.failure = { code: 'MAX_TOKENS', message: 'The answer reached its token limit.' };
      return end(row, 'failed', time);
    case 'blocked':
      row.failure = { code: 'REFUSED', message: 'The task was refused.' };
      return end(row, 'failed', time);
    // Open: an ending that is not known is a failure.
    default:
      row.failure = { code: 'INTERRUPTED', message: `The turn ended: ${reason.kind}.` };
      return end(row, 'failed', time);
  }
}

function end(row: AgentRow, state: AgentState, time: number): void {
  row.state = state;
  row.endedAt ??= time;
}

/** Keep the last line only. A text that went on after a line break begins a new one. */
function addText(row: AgentRow, text: string): void {
  const lines = (row.lastLine + text).split('\n');
  const tail = lines.at(-1) ?? '';
  const line =
    tail.trim() === '' ? `${lines.findLast((part) => part.trim() !== '') ?? ''}\n` : tail;
  row.lastLine = line.slice(-LAST_LINE_CHARACTERS);
  row.hasWritten = true;
}

function labelOf(rawArguments: string): string {
  try {
    const { description } = JSON.parse(rawArguments) as { description?: unknown };
    if (typeof description === 'string') return description;
  } catch {
    // Arguments that are no JSON: the call has no name to show.
  }
  return DELEGATION_TOOL;
}
