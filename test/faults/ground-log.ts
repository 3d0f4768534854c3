/** Reads from logs what became of an agent, in the words of an observation. */
import type { Agent, Harness, SubagentResult } from '../../src/index.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { textOf, textOfBlocks } from './ground-stage.ts';
import type { Observation, Told } from './observation.ts';

/** A word with the time at which it was told, by main's clock. */
export interface TimedTold extends Told {
  readonly at: number;
}

const CODE = /\b(?:[A-Z]+_[A-Z_]+[A-Z]|DRAINING|CAPACITY)\b/g;
const codesIn = (text: string): readonly string[] => [...new Set(text.match(CODE) ?? [])];

/** The code of an error and those of what caused it. */
export function codesOf(error: unknown): readonly string[] {
  const codes: string[] = [];
  for (let at = error; at !== null && typeof at === 'object' && codes.length < 8;) {
    const { code, cause } = at as { code?: unknown; cause?: unknown };
    if (typeof code === 'string') codes.push(code);
    at = cause;
  }
  return codes;
}

export const rejection = (error: unknown): TimedTold => ({
  by: 'rejection',
  stopReason: 'rejected',
  codes: codesOf(error),
  text: String(error),
  at: Date.now(),
});

export function ofResult({ stopReason, diagnostic, output }: SubagentResult): TimedTold {
  const text = diagnostic ?? '';
  const said = textOfBlocks(output);
  return { by: 'result', stopReason, codes: codesIn(text), text: text || said, at: Date.now() };
}

/** What a parent's log has of the end of this child: every notice about it. */
export function noticesOf(events: readonly SessionEvent[], child: SessionId): TimedTold[] {
  return events.flatMap((event) => {
    if (event.type !== 'agent/inbox/spliced') return [];
    return event.data.inserted.flatMap((message): TimedTold[] => {
      const { source } = message;
      if (source.kind !== 'subagent-settled' || source.senderSessionId !== child) return [];
      const [first] = message.content;
      const head = first?.type === 'text' ? first.text : '';
      const { stopReason = '' } = source;
      const text = textOf(message);
      return [{ by: 'notice', stopReason, codes: codesIn(head), text, at: event.time }];
    });
  });
}

/** What a parent was answered to its call of this tool: every result. */
export function toolResultsOf(
  events: readonly SessionEvent[],
  tool: string,
  wasMade: boolean,
): TimedTold[] {
  const calls = new Set<string>();
  return events.flatMap((event): TimedTold[] => {
    if (event.type === 'tool/call' && event.data.name === tool) calls.add(event.data.callId);
    if (event.type !== 'tool/result') return [];
    const { message, error } = event.data;
    const [block] = message.content;
    if (block?.type !== 'tool-result' || !calls.has(block.toolCallId)) return [];
    const text = textOf(message);
    const codes = [...(error === undefined ? [] : [error.code]), ...codesIn(text)];
    const stopReason = block.isError !== true ? 'completed' : wasMade ? reasonIn(text) : 'rejected';
    return [{ by: 'tool result', stopReason, codes, text, at: event.time }];
  });
}

const reasonIn = (text: string): string =>
  text.includes('was stopped before') ? 'aborted' : 'error';

/** How turns ended, from this place on. */
export function turnEndsOf(events: readonly SessionEvent[], from = 0): TimedTold[] {
  return events.slice(from).flatMap((event): TimedTold[] => {
    if (event.type !== 'turn/end') return [];
    const { reason } = event.data;
    const error = reason.kind === 'error' ? reason.error : undefined;
    const codes = error === undefined ? [] : [error.code];
    const text = error === undefined ? '' : `${error.code}: ${error.message}`;
    const stopReason = reason.kind === 'interrupted' ? 'aborted' : reason.kind;
    return [{ by: 'turn', stopReason, codes, text, at: event.time }];
  });
}

export async function storedLog(
  harness: Harness,
  id: SessionId,
): Promise<readonly SessionEvent[] | undefined> {
  try {
    const { events } = await harness.sessionPersistence.inspect(id);
    return events;
  } catch {
    // It was never kept.
    return undefined;
  }
}

export function logFacts(events: readonly SessionEvent[] | undefined): Observation['log'] {
  if (events === undefined) return undefined;
  const count = (type: SessionEvent['type']): number =>
    events.filter((event) => event.type === type).length;
  const last = turnEndsOf(events).at(-1);
  return {
    turnStarts: count('turn/start'),
    turnEnds: count('turn/end'),
    lastEnd: last === undefined ? '' : `${last.stopReason} ${last.codes.join()}`.trim(),
  };
}

/** What an agent had said by its end: its last words, or what it streamed of them. */
export function saidIn(events: readonly SessionEvent[] | undefined): string {
  let said = '';
  let streamed = '';
  for (const event of events ?? []) {
    if (event.type === 'step/start') streamed = '';
    if (event.type === 'assistant/message') said = textOf(event.data.message) || said;
    if (event.type === 'assistant/chunk' && event.data.chunk.type === 'text-delta') {
      streamed += event.data.chunk.text;
      if (streamed.length < 1_000) said = streamed;
    }
  }
  return said;
}

export const isGone = (harness: Harness, agent: Pick<Agent, 'id'>): boolean =>
  harness.agents.get(agent.id) === undefined;
