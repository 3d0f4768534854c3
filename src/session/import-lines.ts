/**
 * Sessions from JSON Lines. Nothing of a line is believed: each is checked before the next is
 * read. A session is written in one transaction once its end was read, and held until all are:
 * when the import fails, all that it wrote is taken back. One that is there already is held as
 * long: whoever wrote it cannot take it back any more, and whoever still might holds it.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Offline } from './offline.ts';
import { printed, toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import { frozenCopy, isPlainObject } from '../../protocol/json.ts';
import { assertOptions } from '../base/assert-options.ts';
import { newId } from '../base/ids.ts';
import { beyondBounds } from '../base/json-text.ts';
import { LINES_FORMAT, LINES_VERSION } from './export-lines.ts';
import { checkedHeader } from './header.ts';
import { LogCheck } from './log-check.ts';
import { renamedEvent, renamedHeader } from './renamed.ts';
import { isSame } from './same-log.ts';
import { MAX_EVENT_DEPTH } from './session.ts';
import { firstEpoch } from './store.ts';
import { giveBack } from './store-rules.ts';

/** Under which ids, and who is told of what is damaged. */
export interface ImportOptions {
  /**
   * - `keep` (the default): the ids of the file. One that exists already is refused, unless it is
   *   stored with the very same log: then it is left as it is, and counts as imported.
   * - `new`: fresh ids, in headers and wherever an event says whom it is from. Ids in what models
   *   read and wrote stay as they are.
   */
  readonly ids?: 'keep' | 'new';
  /** Is told of each session that the export says is damaged. Nothing of it is imported. */
  onDamaged?(session: { readonly id: SessionId; readonly text: string }): void;
  readonly signal?: AbortSignal;
}

/** Characters of one line. */
const MAX_LINE = 64 * 1024 * 1024;
/** Values of one line: some of a hundred bytes each, before any is made. */
const MAX_VALUES = 2_000_000;
/** Characters read before other work gets a turn; a line counts as some more. */
const AT_A_TIME = 64 * 1024;
const LINE_WEIGHT = 256;
/** Sessions given back, or taken back, in one transaction. */
const AT_ONCE = 32;
/** What a renewal of a session that is another's, or nobody's any more, fails with. */
const LOST: readonly string[] = ['STALE_EPOCH', 'SESSION_NOT_FOUND'];
/** Sessions that a message names. */
const NAMED = 20;

type Lines = AsyncIterable<string> | Iterable<string>;

/** The session whose lines are being read. */
interface Open {
  readonly given: SessionId;
  readonly header: SessionHeader;
  readonly events: SessionEvent[];
  readonly check: LogCheck;
  /** The store has one of this id. */
  readonly isThere: boolean;
}

/** @throws {ArgumentError | StoreError} */
export async function importLines(
  offline: Offline,
  source: Lines,
  options: ImportOptions,
): Promise<ReadonlyMap<SessionId, SessionId>> {
  assertOptions('importLines', options, { ids: 'text', onDamaged: 'function', signal: 'signal' });
  const { ids = 'keep' } = options;
  if (ids !== 'keep' && ids !== 'new') {
    throw new ArgumentError("\"ids\" of importLines takes 'keep' or 'new'.");
  }
  const given = source as Partial<AsyncIterable<string> & Iterable<string>> | null | undefined;
  const isLines = given?.[Symbol.asyncIterator] ?? given?.[Symbol.iterator];
  if (typeof source === 'string' || typeof isLines !== 'function') {
    throw new ArgumentError('importLines takes the lines of an export, one by one.');
  }
  const reading = new Import(offline, ids === 'new', options);
  try {
    for await (const line of source) await reading.take(line);
    const imported = reading.finish();
    await reading.keep();
    return imported;
  } catch (error) {
    await reading.takeBack(error);
    throw error;
  } finally {
    await reading.giveUp();
  }
}

class Import {
  readonly #offline: Offline;
  readonly #isNew: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #onDamaged: ImportOptions['onDamaged'];
  readonly #imported = new Map<SessionId, SessionId>();
  /** By their ids in the lines. */
  readonly #damaged = new Set<SessionId>();
  /** What this wrote and holds, by the ids here, parents first as the lines have them. */
  #written: SessionId[] = [];
  /** What this found with the very same log, and holds. */
  readonly #found: SessionId[] = [];
  readonly #reserved: (() => void)[] = [];
  /** The sessions that the first line names, by what they are called here. */
  #names: Map<SessionId, SessionId> | undefined;
  #open: Open | undefined;
  #line = 0;
  #weight = 0;

  constructor(offline: Offline, isNew: boolean, { onDamaged, signal }: ImportOptions) {
    this.#offline = offline;
    this.#isNew = isNew;
    this.#signal = signal;
    this.#onDamaged = onDamaged;
  }

  async take(text: unknown): Promise<void> {
    if (this.#signal?.aborted === true) throw this.#signal.reason;
    this.#line++;
    const value = this.#parse(text);
    await this.#rest(String(text).length + LINE_WEIGHT);
    if (value === undefined) return;
    const { type, header, end, damaged } = value;
    if (this.#names === undefined) this.#begin(value);
    else if (type !== undefined) this.#event(value as unknown as SessionEvent);
    else if (isPlainObject(header)) await this.#header(header as unknown as SessionHeader);
    else if (isPlainObject(end)) await this.#end(end['session'], end['events']);
    else if (isPlainObject(damaged)) this.#leaveOut(damaged['session'], damaged['text']);
    else this.#refuse('it is no header, no event and no end of a session');
  }

  finish(): ReadonlyMap<SessionId, SessionId> {
    const names = this.#names ?? this.#refuse('there is no line', 'The import is empty');
    const next = [...names.keys()].find((id) => !this.#imported.has(id) && !this.#damaged.has(id));
    if (next === undefined) return this.#imported;
    const what = this.#open === undefined ? 'before' : 'inside of';
    return this.#refuse('the rest is missing', `The import ends ${what} session \`${next}\``);
  }

  /** All of it stays: give it to whoever wants it. */
  async keep(): Promise<void> {
    await this.#release(this.#written);
  }

  /**
   * Nothing of it stays.
   * @throws {StoreError} naming what does, as that could not be done
   */
  async takeBack(cause: unknown): Promise<void> {
    const { store } = this.#offline;
    try {
      while (this.#written.length > 0) {
        const last = this.#written.slice(-AT_ONCE);
        await store.delete(await this.#stillHeld(last));
        this.#written = this.#written.slice(0, -AT_ONCE);
        for (const id of last) this.#offline.removed(id);
        await nextTick();
      }
    } catch (error) {
      const stay = [...this.#written];
      await this.keep();
      throw staysBehind(stay, cause, error);
    }
  }

  /** What was lost meanwhile, as by a process that stood still, is another's to keep. */
  async #stillHeld(ids: readonly SessionId[]): Promise<readonly SessionId[]> {
    try {
      await this.#offline.store.renew(ids);
      return ids;
    } catch (error) {
      if (!(error instanceof StoreError) || !LOST.includes(error.code)) throw error;
    }
    if (ids.length === 1) return [];
    const held: SessionId[] = [];
    for (const id of ids) held.push(...(await this.#stillHeld([id])));
    return held;
  }

  async giveUp(): Promise<void> {
    await this.#release(this.#found);
    for (const free of this.#reserved) free();
  }

  async #release(held: SessionId[]): Promise<void> {
    while (held.length > 0) {
      // It stays; a lease that cannot be given back runs out.
      await giveBack(this.#offline.store, held.splice(0, AT_ONCE));
      await nextTick();
    }
  }

  async #rest(weight: number): Promise<void> {
    this.#weight += weight;
    if (this.#weight < AT_A_TIME) return;
    this.#weight = 0;
    await nextTick();
  }

  #parse(text: unknown): Record<string, unknown> | undefined {
    if (typeof text !== 'string') return this.#refuse('it is no text');
    if (text.length > MAX_LINE) return this.#refuse(`it has more than ${MAX_LINE} characters`);
    const line = (this.#line === 1 ? text.replace(/^\uFEFF/, '') : text).trim();
    if (line === '') return undefined;
    if (/[\n\r]/.test(line)) return this.#refuse('it is more than one line');
    // An event is one level down at most, and its line is looked at before it is read.
    const beyond = beyondBounds(line, { depth: MAX_EVENT_DEPTH + 1, values: MAX_VALUES });
    if (beyond === 'depth') return this.#refuse('it is nested too deeply');
    if (beyond === 'values') return this.#refuse(`it has more than ${MAX_VALUES} values`);
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
    this.#assertNew(known.id);
    const header = renamedHeader(known, names);
    this.#reserved.push(await this.#offline.reserve(header.id, this.#signal));
    const isThere = await this.#isThere(header.id);
    const check = new LogCheck(header.seedLength);
    this.#open = { given: known.id, header, events: [], check, isThere };
  }

  /**
   * Whether the store has one of this id, which is held from now on: it is not compared with what
   * another import wrote and may take back.
   */
  async #isThere(id: SessionId): Promise<boolean> {
    if (!(await this.#offline.isStored(id))) return false;
    try {
      await this.#offline.store.acquire(id);
    } catch (error) {
      // Taken back, or removed, in this very moment.
      if (error instanceof StoreError && error.code === 'SESSION_NOT_FOUND') return false;
      throw error;
    }
    this.#found.push(id);
    return true;
  }

  #leaveOut(session: unknown, text: unknown): void {
    const id = session as SessionId;
    if (this.#open !== undefined && this.#open.given !== id) {
      this.#refuse(`session \`${this.#open.given}\` has no end yet`);
    }
    if (this.#names?.has(id) !== true) this.#refuse('the first line does not name its session');
    this.#assertNew(id);
    if (typeof text !== 'string') this.#refuse('it does not say what is damaged');
    this.#open = undefined;
    this.#damaged.add(id);
    // It has no other name here: who is below it, or heard from it, goes on naming it as it was.
    this.#names?.set(id, id);
    this.#onDamaged?.({ id, text: text as string });
  }

  #assertNew(id: SessionId): void {
    if (!this.#imported.has(id) && !this.#damaged.has(id)) return;
    this.#refuse('its session was there before');
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
    const { given, header, events, isThere } = this.#open ?? this.#refuse('no session is begun');
    if (session !== given) this.#refuse(`session \`${given}\` has no end yet`);
    if (count !== events.length)
      this.#refuse(`it counts ${printed(count)} events of ${events.length}`);
    if ((header.seedLength ?? 0) > events.length) this.#refuse('less was said than was inherited');
    if (isThere) await this.#assertThere(header, events);
    else {
      await this.#offline.store.append([{ id: header.id, epoch: firstEpoch(), header, events }]);
      this.#written.push(header.id);
    }
    this.#imported.set(given, header.id);
    this.#open = undefined;
  }

  /** An earlier import of the same lines was ended by the end of its process. */
  async #assertThere(header: SessionHeader, events: readonly SessionEvent[]): Promise<void> {
    const { id } = header;
    const stored = await this.#offline.store.inspect(id, this.#signal).catch((error: unknown) => {
      if (error instanceof StoreError && error.code === 'STORE_CORRUPT') return undefined;
      throw error;
    });
    if (stored?.events.length !== events.length || !isSame(stored.header, header)) throw exists(id);
    for (const [index, event] of events.entries()) {
      if (!isSame(event, stored.events[index] as SessionEvent)) throw exists(id);
      await this.#rest(LINE_WEIGHT);
    }
  }

  #checked<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      const what = toErrorRecord(error).message.replace(/\.$/, '');
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
  new ArgumentError(
    `Cannot import session \`${id}\`: the store holds one of that id with another log.`,
  );

function staysBehind(ids: readonly SessionId[], cause: unknown, error: unknown): StoreError {
  const names = ids.slice(0, NAMED).map((id) => `\`${id}\``);
  const more = ids.length > NAMED ? ` and ${ids.length - NAMED} more` : '';
  const why = toErrorRecord(error).message;
  return new StoreError(
    'STORE_IO',
    `The import failed, and these of it stay: ${names.join(', ')}${more}. They could not be taken back: ${why}`,
    { cause },
  );
}
