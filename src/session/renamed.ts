import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { isPlainObject } from '../../protocol/json.ts';

type Names = ReadonlyMap<SessionId, SessionId>;

/** Where a header names sessions: its own, and the one above it. Others keep their names. */
export function renamedHeader(header: SessionHeader, names: Names): SessionHeader {
  const { id, parentSession } = header;
  return {
    ...header,
    id: names.get(id) ?? id,
    ...(parentSession && { parentSession: names.get(parentSession) ?? parentSession }),
  };
}

/**
 * Where an event names sessions: whom a message is from, as it is told and as it waits. Nothing is
 * known of the event's shape yet, and what does not look like it should stays as it is.
 */
export function renamedEvent(event: SessionEvent, names: Names): SessionEvent {
  const data: unknown = event.data;
  if (!isPlainObject(data)) return event;
  if (event.type === 'user/message')
    return { ...event, data: renamedMessage(data, names) } as never;
  if (event.type !== 'agent/inbox/spliced' || !Array.isArray(data['inserted'])) return event;
  const inserted = data['inserted'].map((message: unknown) => renamedMessage(message, names));
  return { ...event, data: { ...data, inserted } } as never;
}

function renamedMessage(message: unknown, names: Names): unknown {
  if (!isPlainObject(message) || !isPlainObject(message['source'])) return message;
  const sender = message['source']['senderSessionId'] as SessionId;
  const name = names.get(sender);
  if (name === undefined) return message;
  return { ...message, source: { ...message['source'], senderSessionId: name } };
}
