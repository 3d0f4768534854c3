/** Loaded by URL as well, in a thread that folds logs: it imports nothing that a thread lacks. */
import type { SessionEvent, TurnEndReason } from '../../protocol/session-events.ts';
import type { ProjectionUnit } from '../session/projections/projection.ts';
import { isPlainObject } from '../../protocol/json.ts';

/** What a tree shows of a session besides who it is: all of it its own, nothing inherited. */
export type SessionSummary = {
  /** Time in turns that have ended, in milliseconds. */
  readonly workedMs: number;
  /** When the open turn began. */
  readonly since?: number;
  /** How the last turn ended; absent before that and while one is open. */
  readonly reason?: string;
  readonly failure?: { readonly code: string; readonly message: string };
  /** Absent: its model never told. */
  readonly tokens?: { readonly input: number; readonly output: number };
  /** The last line it wrote in this step; without one, the tool it called last. */
  readonly line: string;
  /** What it wrote goes on at the end of `line`, or is to begin a new one. */
  readonly hasWritten: boolean;
};

const LINE_CHARACTERS = 200;
const MESSAGE_CHARACTERS = 1_000;

/** How a turn ended, in one word, and what went wrong, if anything did. */
export function endOfTurn(reason: TurnEndReason): Pick<SessionSummary, 'reason' | 'failure'> {
  const failed = (code: string, message: string): Pick<SessionSummary, 'reason' | 'failure'> => ({
    reason: reason.kind,
    failure: { code, message: message.slice(0, MESSAGE_CHARACTERS) },
  });
  switch (reason.kind) {
    case 'completed':
      return { reason: 'completed' };
    case 'aborted':
      return failed('ABORTED', `It was stopped (${reason.reason.kind}).`);
    case 'error':
      return failed(reason.error.code, reason.error.message);
    case 'max-tokens':
      return failed('MAX_TOKENS', 'The answer reached its token limit.');
    case 'blocked':
      return failed('REFUSED', reason.reason ?? 'The task was refused.');
    // Open: an ending that is not known is a failure.
    default:
      return failed('INTERRUPTED', `The turn ended: ${reason.kind}.`);
  }
}

export const sessionSummary: ProjectionUnit<SessionSummary, SessionSummary> = {
  key: 'sessionSummary',
  stateVersion: 1,
  init: () => ({ workedMs: 0, line: '', hasWritten: false }),
  apply: folded,
  isState: isSummary,
  wire: { view: (state) => state, isView: isSummary },
  module: new URL(import.meta.url),
};

export default sessionSummary;

function folded(state: SessionSummary, event: SessionEvent): SessionSummary {
  switch (event.type) {
    // What was before belongs to the log that it began with; an open turn is its own.
    case 'subagent/descriptor':
      return { workedMs: 0, line: '', hasWritten: false, ...whole(state.since) };
    case 'turn/start': {
      const { reason: _, failure: __, ...rest } = state;
      return { ...rest, since: event.time };
    }
    case 'step/start':
      return state.hasWritten ? { ...state, hasWritten: false } : state;
    case 'assistant/chunk':
      return event.data.chunk.type === 'text-delta' && event.data.chunk.text !== ''
        ? { ...state, line: lastLine(state, event.data.chunk.text), hasWritten: true }
        : state;
    case 'assistant/message': {
      const { usage } = event.data;
      if (usage === undefined) return state;
      const { inputTokens, cacheReadTokens = 0, cacheWriteTokens = 0, outputTokens } = usage;
      const { input = 0, output = 0 } = state.tokens ?? {};
      return {
        ...state,
        tokens: {
          input: input + inputTokens + cacheReadTokens + cacheWriteTokens,
          output: output + outputTokens,
        },
      };
    }
    case 'llm/retry': {
      const { retry, maxRetries, failure } = event.data;
      const line = `retry ${retry} of ${maxRetries}: ${failure.message}`;
      return { ...state, line: line.slice(0, LINE_CHARACTERS), hasWritten: false };
    }
    case 'tool/call': {
      if (state.hasWritten) return state;
      const { name, arguments: given } = event.data;
      return { ...state, line: `${name} ${given}`.slice(0, LINE_CHARACTERS) };
    }
    case 'turn/end': {
      const { since = event.time, ...rest } = state;
      const workedMs = rest.workedMs + Math.max(0, event.time - since);
      return { ...rest, workedMs, ...endOfTurn(event.data.reason) };
    }
    default:
      return state;
  }
}

const whole = (since: number | undefined): { since?: number } =>
  since === undefined ? {} : { since };

/** Only the last line is kept. A text that went on after a line break begins a new one. */
function lastLine({ line, hasWritten }: SessionSummary, text: string): string {
  const lines = ((hasWritten ? line : '') + text).split('\n');
  const tail = lines.at(-1) ?? '';
  const kept =
    tail.trim() === '' ? `${lines.findLast((part) => part.trim() !== '') ?? ''}\n` : tail;
  return kept.slice(-LINE_CHARACTERS);
}

function isSummary(value: unknown): value is SessionSummary {
  if (!isPlainObject(value)) return false;
  const { workedMs, since, reason, failure, tokens, line, hasWritten } = value;
  const isTokens = isPlainObject(tokens) && isTime(tokens['input']) && isTime(tokens['output']);
  const isFailure =
    isPlainObject(failure) &&
    typeof failure['code'] === 'string' &&
    typeof failure['message'] === 'string';
  return (
    isTime(workedMs) &&
    (since === undefined || isTime(since)) &&
    (reason === undefined || typeof reason === 'string') &&
    (failure === undefined || isFailure) &&
    (tokens === undefined || isTokens) &&
    typeof line === 'string' &&
    typeof hasWritten === 'boolean'
  );
}

const isTime = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value);
