/** What an event of its log changes of a row. */
import type { SessionEvent } from '../index.ts';
import type { AgentRow, AgentState, RowFailure } from './tree-row.ts';

type DataOf<T extends SessionEvent['type']> = Extract<SessionEvent, { type: T }>['data'];

const LAST_LINE_CHARACTERS = 200;

/** What the call of a delegation tool says of the child that is to be. */
export function delegationLabel(name: string, rawArguments: string): string | undefined {
  try {
    const args = JSON.parse(rawArguments) as { description?: unknown; prompt?: unknown } | null;
    if (typeof args?.description === 'string' && typeof args.prompt === 'string') {
      return args.description;
    }
  } catch {
    // Arguments that are no JSON: the call has no name to show.
  }
  return name === DELEGATION_TOOL ? name : undefined;
}

/** The name that a delegation tool has when it was given no other. */
const DELEGATION_TOOL = 'subagent';

export function foldEvent(row: AgentRow, event: SessionEvent): void {
  switch (event.type) {
    case 'subagent/descriptor':
      row.label = event.data.label ?? row.label;
      row.goesOn = event.data.mode === 'continuable';
      return;
    case 'turn/start':
      row.state = 'running';
      row.workingSince ??= event.time;
      // One that is brought back was made long ago.
      if (event.data.turn > 1 && row.workingSince === row.startedAt) {
        row.startedAt = event.time;
        row.workingSince = event.time;
      }
      row.endedAt = undefined;
      row.failure = undefined;
      return;
    case 'step/start':
      row.state = 'model';
      row.hasWritten = false;
      return;
    case 'assistant/chunk':
      row.state = 'running';
      if (event.data.chunk.type === 'text-delta') addText(row, event.data.chunk.text);
      return;
    case 'assistant/message': {
      const { usage } = event.data;
      row.hasUsage ||= usage !== undefined;
      row.inputTokens +=
        (usage?.inputTokens ?? 0) + (usage?.cacheReadTokens ?? 0) + (usage?.cacheWriteTokens ?? 0);
      row.outputTokens += usage?.outputTokens ?? 0;
      row.lastLine += row.lastLine === '' ? '' : '\n';
      return;
    }
    case 'llm/retry': {
      const { retry, maxRetries, failure } = event.data;
      row.state = 'model';
      row.lastLine = `retry ${retry} of ${maxRetries}: ${failure.message}\n`;
      return;
    }
    case 'tool/call': {
      const { name, callId, arguments: args } = event.data;
      if (!row.hasWritten) {
        row.lastLine = `${`${name} ${args}`.slice(0, LAST_LINE_CHARACTERS)}\n`;
      }
      const isDelegation = delegationLabel(name, args) !== undefined || name === 'job_output';
      row.calls.set(callId, isDelegation ? 'child' : 'tool');
      return waitForCalls(row);
    }
    case 'tool/result':
      row.calls.delete(event.data.message.source.callId);
      return waitForCalls(row);
    case 'turn/end':
      return endTurn(row, event.data.reason, event.time);
    // The other events change nothing that is shown.
    default:
  }
}

/** A tool is what it waits for while one runs; then children. */
function waitForCalls(row: AgentRow): void {
  const waited = new Set(row.calls.values());
  row.state = waited.has('tool') ? 'tool' : waited.has('child') ? 'child' : 'running';
}

function endTurn(row: AgentRow, reason: DataOf<'turn/end'>['reason'], time: number): void {
  row.calls.clear();
  const fail = (code: string, message: string, state: AgentState = 'failed'): void => {
    row.failure = { code, message };
    end(row, state, time);
  };
  switch (reason.kind) {
    case 'completed':
      return end(row, row.goesOn ? 'idle' : 'completed', time);
    case 'aborted':
      return fail('ABORTED', `It was stopped (${reason.reason.kind}).`, 'stopped');
    case 'error':
      return fail(reason.error.code, reason.error.message);
    case 'max-tokens':
      return fail('MAX_TOKENS', 'The answer reached its token limit.');
    case 'blocked':
      return fail('REFUSED', 'The task was refused.');
    // Open: an ending that is not known is a failure.
    default:
      return fail('INTERRUPTED', `The turn ended: ${reason.kind}.`);
  }
}

/** The end of a run, as its owner is told of it. */
export function foldEnd(row: AgentRow, stopReason: string, time: number): void {
  if (stopReason === 'completed') {
    if (row.failure === undefined) end(row, 'completed', time);
    return;
  }
  row.failure ??= failureOfRun(row, stopReason);
  end(row, stopReason === 'aborted' ? 'stopped' : 'failed', time);
}

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

function end(row: AgentRow, state: AgentState, time: number): void {
  row.state = state;
  row.endedAt ??= time;
  if (row.workingSince === undefined) return;
  row.workedMs += Math.max(0, time - row.workingSince);
  row.workingSince = undefined;
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
