import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { StoreError } from '../../protocol/errors.ts';
import { LogCheck } from './log-check.ts';

/**
 * What may be found in a store. An `error` loses something or keeps a session from being resumed;
 * a `warning` loses nothing and should not be; a `note` is how things are.
 */
export interface StoreFinding {
  readonly severity: 'error' | 'warning' | 'note';
  readonly kind:
    | 'damaged-file'
    | 'unread-part'
    | 'old-format'
    | 'orphan-rows'
    | 'unreadable-header'
    | 'wrong-row'
    | 'wrong-place'
    | 'parent-missing'
    | 'unreadable-event'
    | 'missing-events'
    | 'wrong-length'
    | 'broken-log'
    | 'open-turn'
    | 'waiting-messages'
    | 'held'
    | 'held-by-the-dead'
    | 'leading-checkpoint'
    | 'unreadable-checkpoint';
  readonly session?: SessionId;
  /** A sentence or two: what is the case, and what follows from it. */
  readonly text: string;
}

/** Looks at one log, event by event. Of each kind only the first finding is told. */
export class LogExam {
  readonly #session: SessionId;
  readonly #check: LogCheck;
  readonly #found = new Map<StoreFinding['kind'], StoreFinding>();
  #next = 0;

  constructor(session: SessionId, seedLength?: number) {
    this.#session = session;
    this.#check = new LogCheck(seedLength);
  }

  /** The next one that is there, whether or not it can be read. */
  take(seq: number, read: () => SessionEvent): void {
    if (seq !== this.#next) {
      const isOne = seq <= this.#next + 1;
      const what = isOne
        ? `event ${Math.min(seq, this.#next)}`
        : `events ${this.#next} to ${seq - 1}`;
      this.find('error', 'missing-events', `The numbers do not go on at ${what}.`);
    }
    this.#next = Math.max(this.#next, seq + 1);
    let event: SessionEvent;
    try {
      event = read();
    } catch (error) {
      this.find('error', 'unreadable-event', `Event ${seq} cannot be read: ${whyOf(error)}`);
      return;
    }
    // What comes after a hole cannot be judged.
    if (this.#found.size > 0) return;
    const problem = this.#check.problem(event);
    if (problem !== undefined) {
      this.find(
        'error',
        'broken-log',
        sentence(`Event ${seq} does not fit what is before it: ${problem}`),
      );
    }
  }

  find(severity: StoreFinding['severity'], kind: StoreFinding['kind'], text: string): void {
    if (!this.#found.has(kind)) {
      this.#found.set(kind, { severity, kind, session: this.#session, text });
    }
  }

  /** @param length how many events there are to be, as far as that is known elsewhere */
  end(length: number | undefined, isHeld: boolean): readonly StoreFinding[] {
    if (length !== undefined && length !== this.#next) {
      const text = `It is said to have ${countOf(length, 'event')}, and has ${this.#next}.`;
      this.find('error', 'wrong-length', text);
    }
    if (this.#found.size === 0) {
      const { open, waiting: count } = this.#check;
      if (open !== undefined && !isHeld) {
        const text = `Turn ${open.turn} was cut off; it is closed when the session is resumed.`;
        this.find('note', 'open-turn', text);
      }
      if (count > 0) {
        const text = `${count} ${count === 1 ? 'message waits' : 'messages wait'} to be read.`;
        this.find('note', 'waiting-messages', text);
      }
    }
    return [...this.#found.values()];
  }
}

export function unreadableHeader(session: SessionId, error: unknown): StoreFinding {
  const text = `Its header cannot be read: ${whyOf(error)}`;
  return { severity: 'error', kind: 'unreadable-header', session, text };
}

export function orphan(
  { id: session, parentSession }: Pick<SessionHeader, 'id' | 'parentSession'>,
  isThere: (id: SessionId) => boolean,
): readonly StoreFinding[] {
  if (parentSession === undefined || isThere(parentSession)) return [];
  const text = `Its parent \`${parentSession}\` is not in the store.`;
  return [{ severity: 'note', kind: 'parent-missing', session, text }];
}

/** A checkpoint that knows of what is not in the log: nobody uses it. */
export const leads = (seq: number, length: number): string =>
  `Its checkpoint knows of event ${seq}, and the log has ${countOf(length, 'event')}. It is ignored, and made again.`;

/** What an error says, and whether anything but a copy can help. */
function whyOf(error: unknown): string {
  const isNewer = error instanceof StoreError && error.code === 'STORE_FORMAT_UNSUPPORTED';
  const text = sentence(toErrorRecord(error).message);
  return isNewer ? `${text} A newer version may read it.` : text;
}

export const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

export const countOf = (count: number, what: string): string =>
  `${count} ${what}${count === 1 ? '' : 's'}`;
