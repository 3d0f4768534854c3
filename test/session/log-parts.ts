import type { AssistantMessage, ContentBlock, UserMessage } from '../../protocol/content.ts';
import { CallId, MessageId, SessionId } from '../../protocol/ids.ts';
import type {
  SessionEvent,
  SessionEventMap,
  SessionEventType,
  SessionHeader,
} from '../../protocol/session-events.ts';
import { Session } from '../../src/session/session.ts';
import { ManualClock } from '../support/manual-clock.ts';

/** Parts of a log, for tests that write one event by event. */

let messages = 0;
const nextId = (): MessageId => MessageId(`m${++messages}`);

export const text = (value: string): ContentBlock => ({ type: 'text', text: value });

export function userMessage(value: string): UserMessage {
  return { id: nextId(), role: 'user', content: [text(value)], source: { kind: 'user' } };
}

export function assistantMessage(...content: readonly ContentBlock[]): AssistantMessage {
  const source = { kind: 'model', provider: 'p', model: 'm' } as const;
  return { id: nextId(), role: 'assistant', content, source };
}

export const asks = (id: string, name = 'look'): ContentBlock => ({
  type: 'tool-call',
  id: CallId(id),
  name,
  arguments: '{}',
});

export function toolResult(
  id: string,
  at = { turn: 1, step: 1 },
  block: { isError?: boolean } = {},
): SessionEventMap['tool/result'] {
  const callId = CallId(id);
  return {
    ...at,
    message: {
      id: nextId(),
      role: 'user',
      content: [{ type: 'tool-result', toolCallId: callId, content: [text('seen')], ...block }],
      source: { kind: 'tool', callId },
    },
  };
}

export const toolCall = (id: string, at = { turn: 1, step: 1 }): SessionEventMap['tool/call'] => ({
  ...at,
  callId: CallId(id),
  name: 'look',
  arguments: '{}',
});

export const delta = (value: string, at = { turn: 1, step: 1 }) => ({
  ...at,
  chunk: { type: 'text-delta', index: 0, text: value } as const,
});

export function header(id = 's', more: Partial<SessionHeader> = {}): SessionHeader {
  return { version: 0, id: SessionId(id), createdAt: 1, ...more };
}

export function aSession(seed?: readonly SessionEvent[], clock = new ManualClock(1_000)): Session {
  return new Session({ header: header(), clock, ...(seed && { seed }) });
}

/** A session with turn 1 and, unless told otherwise, its step 1 open. */
export function inStep(isStepOpen = true): Session {
  const session = aSession();
  session.append('turn/start', { turn: 1 });
  if (isStepOpen) session.append('step/start', { turn: 1, step: 1 });
  return session;
}

/** One complete turn without tools, answering `said`. */
export function appendTurn(session: Session, said: string): void {
  const turn = session.lastTurn + 1;
  session.append('turn/start', { turn });
  session.append('step/start', { turn, step: 1 });
  session.append('user/message', userMessage('go'));
  session.append('assistant/message', { turn, step: 1, message: assistantMessage(text(said)) });
  session.append('step/end', { turn, step: 1 });
  session.append('turn/end', { turn, reason: { kind: 'completed' } });
}

export const typesOf = (events: readonly SessionEvent[]): readonly SessionEventType[] =>
  events.map(({ type }) => type);
