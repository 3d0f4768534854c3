/**
 * Sessions from JSON Lines. Nothing of a line is believed: each is checked before the next is
 * read, a session is kept in one transaction once its end was read, and of one whose end is
 * missing nothing is kept.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Offline } from './offline.ts';
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import { frozenCopy, isPlainObject } from '../../protocol/json.ts';
import { assertOptions } from '../base/assert-options.ts';
import { newId } from '../base/ids.ts';
import { LINES_FORMAT, LINES_VERSION } from './export-lines.ts';
import { checkedHeader } from './header.ts';
import { LogCheck } from './log-check.ts';
import { renamedEvent, renamedHeader } from './renamed.ts';
import { MAX_EVENT_DEPTH } from './session.ts';
import { FIRST_EPOCH } from './store.ts';

export interface ImportOptions {
  /**
   * - `keep` (the default): the ids of the file. One that exists already is refused.
   * - `new`: fresh ids, in headers and wherever an event says whom it is from. Ids in what models
   *   read and wrote stay as they are.
   */
  readonly ids?: 'keep' | 'new';
  readonly signal?: AbortSignal;
}

/** Characters of one line. */
const MAX_LINE = 64 * 1024 * 1024;

type Lines = AsyncIterable<string> | Iterable<string>;

/** The session whose lines are being read. */
interface Open {
  readonly given: SessionId;
  readonly header: SessionHeader;
  readonly events: SessionEvent[];
  readonly check: LogCheck;
  free(): void;
}

/** @throws {ArgumentError | StoreError} */
export async function importLines(
  offline: Offline,
  source: Lines,
  options: ImportOptions,
): Promise<ReadonlyMap<SessionId, SessionId>> {
  assertOptions('importLines', options, { ids: 'text', signal: 'signal' });
  const { ids = 'keep', signal } = options;
  if (ids !== 'keep' && ids !== 'new') {
    throw new ArgumentError("\"ids\" of importLines takes 'keep' or 'new'.");
  }
  const given = source as Partial<AsyncIterable<string> & Iterable<string>> | null | undefined;
  const isLines = given?.[Symbol.asyncIterator] ?? given?.[Symbol.iterator];
  if (typeof source === 'string' || typeof isLines !== 'function') {
    throw new ArgumentError('importLines takes the lines of an export, one by one.');
  }
  const reading = new Import(offline, ids === 'new', signal);
  try {
    for await (const line of source) await reading.take(line);
    return reading.finish();
  } finally {
    reading.giveUp();
  }
}

class Import {
  readonly #offline: Offline;
  readonly #isNew: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #imported = new Map<SessionId, SessionId>();
  /** The sessions that the first line names, by what they are called here. */
  #names: ReadonlyMap<SessionId, SessionId> | undefined;
  #open: Open | undefined;
  #line = 0;

  constructor(offline: Offline, isNew: boolean, signal: AbortSignal | undefined) {
    this.#offline = offline;
    this.#isNew = isNew;
    this.#signal = signal;
  }

  async take(text: unknown): Promise<void> {
    if (this.#signal?.aborted === true) throw this.#signal.reason;
    this.#line++;
    const value = this.#parse(text);
    if (value === undefined) return;
    const { type, header, end } = value;
    if (this.#names === undefined) this.#begin(value);
    else if (type !== undefined) this.#event(value as unknown as SessionEvent);
    else if (isPlainObject(header)) await this.#header(header as unknown as SessionHeader);
    else if (isPlainObject(end)) await this.#end(end['session'], end['events']);
    else this.#refuse('it is no header, no event and no end of a session');
  }

  finish(): ReadonlyMap<SessionId, SessionId> {
    const names = this.#names ?? this.#refuse('there is no line', 'The import is empty');
    const next = [...names.keys()].find((id) => !this.#imported.has(id));
    if (next === undefined) return this.#imported;
    const what = this.#open === undefined ? 'before' : 'inside of';
    return this.#refuse('the rest is missing', `The import ends ${what} session \`${next}\``);
  }

  giveUp(): void {
    this.#open?.free();
    this.#open = undefined;
  }

  #parse(text: unknown): Record<string, unknown> | undefined {
    if (typeof text !== 'string') return this.#refuse('it is no text');
    if (text.length > MAX_LINE) return this.#refuse(`it has more than ${MAX_LINE} characters`);
    const line = (this.#line === 1 ? text.replace(/^\uFEFF/, '') : text).trim();
    if (line === '') return undefined;
    if (/[\n\r]/.test(line)) return this.#refuse('it is more than one line');
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (error) {
      return this.#refuse('it is no JSON', undefined, error);
    }
    return isPlainObject(value) ? value : this.#refuse('it is no object');
  }

  #begin({ format, version, sessions }: Record<string, unknown>): void {
    if (format !== LINES_FORMAT) this.#refuse('it does not begin an export of sessions');
    if (version !== LINES_VERSION) {
      throw new StoreError(
        'STORE_FORMAT_UNSUPPORTED',
        `The import has version ${printed(version)}, and ${LINES_VERSION} is known.`,
      );
    }
    const ids: readonly unknown[] = Array.isArray(sessions) ? sessions : [undefined];
    if (!ids.every((id) => typeof id === 'string') || new Set(ids).size !== ids.length) {
      this.#refuse('it does not name the sessions');
    }
    this.#names = new Map(
      (ids as SessionId[]).map((id) => [id, this.#isNew ? sessionId(newId()) : id]),
    );
  }

  async #header(given: SessionHeader): Promise<void> {
    if (this.#open !== undefined) this.#refuse(`session \`${this.#open.given}\` has no end yet`);
    const known = this.#checked(() => checkedHeader(given));
    const stranger = Object.keys(given).find((key) => !Object.hasOwn(known, key));
    if (stranger !== undefined) this.#refuse(`its header has the unknown key \`${stranger}\``);
    const names = this.#names ?? new Map<SessionId, SessionId>();
    if (!names.has(known.id)) this.#refuse('the first line does not name its session');
    if (this.#imported.has(known.id)) this.#refuse('its session was there before');
    const header = renamedHeader(known, names);
    const free = await this.#offline.reserve(header.id, this.#signal);
    this.#open = { given: known.id, header, events: [], check: new LogCheck(), free };
    if (await this.#offline.isStored(header.id)) throw exists(header.id);
  }

  #event(given: SessionEvent): void {
    const { events, check } = this.#open ?? this.#refuse('no session is begun');
    const renamed = this.#isNew ? renamedEvent(given, this.#names ?? new Map()) : given;
    const event = this.#checked(() => frozenCopy(renamed, MAX_EVENT_DEPTH)) as unknown;
    const problem = check.problem(event as SessionEvent);
    if (problem !== undefined) this.#refuse(problem);
    events.push(event as SessionEvent);
  }

  async #end(session: unknown, count: unknown): Promise<void> {
    const { given, header, events, free } = this.#open ?? this.#refuse('no session is begun');
    if (session !== given) this.#refuse(`session \`${given}\` has no end yet`);
    if (count !== events.length)
      this.#refuse(`it counts ${printed(count)} events of ${events.length}`);
    if ((header.seedLength ?? 0) > events.length) this.#refuse('less was said than was inherited');
    const { store } = this.#offline;
    await store.append([{ id: header.id, epoch: FIRST_EPOCH, header, events }]);
    // It is kept; a lease that cannot be given back runs out.
    await store.release([header.id]).catch(() => {});
    this.#imported.set(given, header.id);
    this.#open = undefined;
    free();
  }

  #checked<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      const what = error instanceof Error ? error.message.replace(/\.$/, '') : String(error);
      return this.#refuse(what, undefined, error);
    }
  }

  #refuse(
    problem: string,
    what = `Line ${this.#line} of the import is refused`,
    cause?: unknown,
  ): never {
    throw new ArgumentError(`${what}: ${problem}.`, cause === undefined ? {} : { cause });
  }
}

const exists = (id: SessionId): ArgumentError =>
  new ArgumentError(`Cannot import session \`${id}\`: the store holds one of that id.`);
