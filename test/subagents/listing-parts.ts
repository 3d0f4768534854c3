/** Families of sessions, live and stored, and a service that has nothing but what listings read. */
import type { Json } from '../../protocol/json.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { encodeEntry } from '../../src/session/event-codec.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { ColdFolds } from '../../src/session/projections/cold-folds.ts';
import type { ProjectionUnit } from '../../src/session/projections/projection.ts';
import type { Session } from '../../src/session/session.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import type {
  Checkpoint,
  DamagedSession,
  PackedSession,
  SessionPersistence,
  StoredSession,
} from '../../src/session/store.ts';
import { subagentIdentity } from '../../src/subagents/identity-projection.ts';
import type { ListingServices } from '../../src/subagents/listing.ts';
import { SubagentRuntime } from '../../src/subagents/runtime.ts';
import { projectionsOf } from '../session/projection-parts.ts';
import type { Gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';

export const ROOT = SessionId('root');

/** What the log of a child says it is; `none` is a log without a descriptor. */
export type Said = 'one-shot' | 'none' | { readonly label: string } | { readonly raw: Json };

export interface Made {
  readonly parent?: string;
  /** An ordinary session, as a fork of a user has it. */
  readonly isOrdinary?: boolean;
  readonly says?: Said | readonly Said[];
  readonly header?: Partial<SessionHeader>;
}

/** A store whose reads can be seen, held and failed. */
export class SeenStore extends MemoryStore {
  readonly inspected: string[] = [];
  /** Lookups of headers wait here once they have their answer. */
  answered: Gate | undefined;
  /** As `answered`, of logs. */
  read: Gate | undefined;
  listFails: Error | undefined;
  /** A child whose header cannot be read. */
  damaged: DamagedSession | undefined;
  readonly broken = new Set<string>();
  inFlight = 0;
  mostInFlight = 0;

  override async list(signal?: AbortSignal, onDamaged?: (one: DamagedSession) => void) {
    if (this.listFails !== undefined) throw this.listFails;
    if (this.damaged !== undefined) onDamaged?.(this.damaged);
    return super.list(signal);
  }

  override async listBelow(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
    onDamaged?: (one: DamagedSession) => void,
  ) {
    const { damaged } = this;
    if (damaged !== undefined) onDamaged?.(damaged);
    const all = damaged === undefined ? roots : [...roots, damaged.id];
    const headers = await super.listBelow(all, levels, signal);
    await this.answered?.wait();
    return headers;
  }

  override async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    this.inspected.push(id);
    this.mostInFlight = Math.max(this.mostInFlight, ++this.inFlight);
    try {
      await this.read?.wait();
      if (this.broken.has(id)) throw new Error(`${id} cannot be read now`);
      return await super.inspect(id, signal);
    } finally {
      this.inFlight--;
    }
  }

  override async inspectPacked(id: SessionId, signal?: AbortSignal): Promise<PackedSession> {
    const { header, events } = await this.inspect(id, signal);
    return { header, bodies: encodeEntry({ id, epoch: FIRST_EPOCH, events }).bodies };
  }
}

/** A store of somebody else: what it must have, and nothing more. */
export function plainly(store: SeenStore): SessionPersistence {
  return {
    async list(signal, onDamaged) {
      const headers = await store.list(signal, onDamaged);
      await store.answered?.wait();
      return headers;
    },
    inspect: (id, signal) => store.inspect(id, signal),
    readFrom: (...given) => store.readFrom(...given),
    acquire: (id) => store.acquire(id),
    append: (batch) => store.append(batch),
    renew: (ids) => store.renew(ids),
    release: () => store.release(),
    delete: (ids) => store.delete(ids),
    close: () => store.close(),
  };
}

export function headerOf(id: string, made: Made = {}): SessionHeader {
  const { parent = ROOT, isOrdinary = false } = made;
  return {
    version: 0,
    id: SessionId(id),
    createdAt: 1,
    parentSession: SessionId(parent),
    ...(isOrdinary ? {} : { origin: 'subagent' }),
    ...made.header,
  };
}

/** What a child writes that says so, with its first event number `from`. */
export function logOf(id: string, { says = { label: id } }: Made = {}, from = 0): SessionEvent[] {
  const all = Array.isArray(says) ? (says as readonly Said[]) : [says as Said];
  return all
    .filter((one) => one !== 'none')
    .map((one, index) => {
      const data = dataOf(one);
      return { type: 'subagent/descriptor', seq: from + index, time: 1, data } as SessionEvent;
    });
}

function dataOf(said: Said): unknown {
  if (typeof said === 'object' && 'raw' in said) return said.raw;
  const provider = 'spawn';
  if (typeof said === 'string') return { version: 1, mode: 'one-shot', provider };
  return { version: 1, mode: 'continuable', provider, label: said.label };
}

/** The checkpoint that says a continuable child was told of by event `seq`. */
export const identityAt = (seq: number, label: string): Checkpoint => ({
  seq,
  rows: { subagent: { ver: 2, val: { mode: 'continuable', label, seq } } },
});

export function family(
  made: {
    readonly units?: readonly ProjectionUnit<never, never>[];
    /** The store is one of somebody else. */
    readonly isPlain?: boolean;
    /** Logs are read and folded as a harness does. */
    readonly hasFolds?: boolean;
  } = {},
) {
  const store = new SeenStore();
  const persistence = made.isPlain === true ? plainly(store) : store;
  const clock = new ManualClock(1);
  const sessions = new Sessions({ store: persistence, clock, logger: silentLogger });
  const projections = projectionsOf(sessions);
  for (const unit of [subagentIdentity, ...(made.units ?? [])]) {
    projections.register(unit as ProjectionUnit);
  }
  const coldFolds = new ColdFolds({ sessions, projections, logger: silentLogger });
  const services = {
    projections,
    sessions,
    persistence,
    ...(made.hasFolds === true ? { coldFolds } : {}),
  };
  return {
    store,
    clock,
    sessions,
    projections,
    services,
    ...serviceOf(services),
    /** In the store, and not live. */
    async stored(id: string, more: Made & { readonly checkpoint?: Checkpoint } = {}) {
      const { checkpoint, ...rest } = more;
      const header = headerOf(id, rest);
      const events = logOf(id, rest);
      const kept = checkpoint === undefined ? {} : { checkpoint };
      await store.append([{ id: header.id, epoch: FIRST_EPOCH, header, events, ...kept }]);
    },
    /** Live, and nothing of it kept yet. */
    held(id: string, more: Made = {}): Session {
      const { version: _version, id: name, createdAt: _createdAt, ...meta } = headerOf(id, more);
      const session = sessions.prepare({ id: name, meta });
      sessions.enter(session);
      for (const event of logOf(id, more)) session.append(event.type, event.data as never);
      return session;
    },
    /** Live and kept. */
    live(id: string, more: Made = {}): Session {
      const session = this.held(id, more);
      sessions.accept(session);
      return session;
    },
  };
}

/** The service, and what it lists as short lines. */
export function serviceOf(listing: ListingServices) {
  const subagents = new SubagentRuntime({ agents: new Map(), logger: silentLogger, listing });
  return {
    subagents,
    children: async (id = ROOT, signal?: AbortSignal) =>
      (await subagents.listChildren(id, signal)).map(lineOf),
    descendants: async (id = ROOT, signal?: AbortSignal) =>
      (await subagents.listDescendants(id, signal)).map(
        (row) => `${'> '.repeat(row.depth - 1)}${lineOf(row)} of ${row.parentId}`,
      ),
  };
}

type Row = Awaited<ReturnType<SubagentRuntime['listChildren']>>[number];

function lineOf(row: Row): string {
  if (row.kind === 'diagnostic') return `${row.id} ${row.reason}`;
  const { id, activity, mode, label, hasChildren } = row;
  const name = label === undefined ? '' : ` "${label}"`;
  return `${id} ${activity} ${mode}${name}${hasChildren ? ' +' : ''}`;
}
