/**
 * Logs that may be compared: every event, in order, with all that it says. Only the time is left
 * out, and ids that are made at random are renamed by their first appearance.
 */
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';

/** What there is to compare of a session. */
export interface Logged {
  readonly header: SessionHeader;
  readonly events: readonly SessionEvent[];
}

export interface CanonicalLog {
  readonly header: unknown;
  readonly events: readonly unknown[];
}

const RANDOM_ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** Several logs of one run: an id has the same name in all of them. */
export function canonicalLogs(sessions: readonly Logged[]): CanonicalLog[] {
  const names = new Map<string, string>();
  const renamed = (id: string): string => {
    const name = names.get(id) ?? `id-${names.size + 1}`;
    names.set(id, name);
    return name;
  };
  const canonical = (value: unknown): unknown => {
    if (typeof value === 'string') return value.replace(RANDOM_ID, renamed);
    if (Array.isArray(value)) return value.map(canonical);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, canonical(of)]));
  };
  return sessions.map(({ header, events }) => {
    const { createdAt: _, ...rest } = header;
    return {
      header: canonical(rest),
      events: events.map(({ time: __, ...event }) => canonical(event)),
    };
  });
}

export function canonicalLog(session: Logged): CanonicalLog {
  return canonicalLogs([session])[0]!;
}
