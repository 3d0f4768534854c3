/**
 * Which sessions there are below one, live and stored, and who is whose child. Headers only.
 *
 * A session is live until it is stored, and stored before it is live no more. Yet one may be
 * stored after the store was read and leave before the live ones are looked at, and be in neither.
 * So those live before the reading are remembered, and the store is asked once more below the
 * parents of those that were in neither: one that is not there then was never kept.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { Session } from '../session/session.ts';
import type { DamagedSession, SessionOutline, SessionPersistence } from '../session/store.ts';
import type { ListingCall } from './listing-call.ts';
import { PLACED_AT_ONCE } from './listing-call.ts';

/** A session as its header tells of it, and what there is to read more of it from. */
export interface Listed {
  readonly id: SessionId;
  readonly createdAt: number;
  readonly parentSession: SessionId | undefined;
  readonly isSubagent: boolean;
  /** `damaged`: stored, and its header cannot be read. */
  readonly from:
    | { readonly kind: 'live'; readonly session: Session }
    | Stored
    | { readonly kind: 'damaged' };
}

/** By its outline where the store has outlines. */
export type Stored =
  | { readonly kind: 'stored'; readonly header: SessionHeader }
  | { readonly kind: 'outlined'; readonly header: SessionOutline };

export interface CorpusSources {
  readonly sessions: { list(): readonly Session[] };
  readonly persistence?:
    | Pick<SessionPersistence, 'list' | 'listBelow' | 'outlineBelow'>
    | undefined;
}

/**
 * @param levels how deep below the root
 * @throws {SubagentError} `CANCELLED`, `DRAINING`. What the store rejects with is passed on.
 */
export async function readCorpus(
  { sessions, persistence }: CorpusSources,
  root: SessionId,
  levels: number,
  call: ListingCall,
): Promise<Corpus> {
  const before = sessions.list();
  if (persistence === undefined) return place(root, before.map(ofLive), call);
  const hanging = mayHangBelow(root, before);
  // What is below a live one is found although it is not stored itself, or stored as another.
  const seeds = hanging.filter((one) => levels === Infinity || one.header.parentSession === root);
  const found = new Map<SessionId, Listed>();
  const look = async (roots: readonly SessionId[], deep: number): Promise<void> => {
    const damaged: DamagedSession[] = [];
    const onDamaged = (one: DamagedSession): void => void damaged.push(one);
    const stored = await call.read((signal) => below(persistence, roots, deep, signal, onDamaged));
    for (const one of damaged) found.set(one.id, ofDamaged(one));
    for (const [index, one] of stored.entries()) {
      found.set(one.header.id, ofHeader(one.header, one));
      if ((index + 1) % PLACED_AT_ONCE === 0) await call.breathe();
    }
  };
  await look([root, ...seeds.map(({ id }) => id)], levels);
  const asked = new Set<SessionId>();
  for (;;) {
    const live = new Set(sessions.list().map(({ id }) => id));
    const missing = hanging.filter(({ id }) => !found.has(id) && !live.has(id) && !asked.has(id));
    if (missing.length === 0) break;
    for (const { id } of missing) asked.add(id);
    // One parent at a time: what is asked about is not among what is found below it.
    const parents = new Set(missing.map(parentOf).filter((id) => id !== undefined));
    for (const parent of findsBelow(persistence) ? parents : [root]) {
      await look([parent], 1);
    }
  }
  // No await up to here from the last look at who is live: whoever is so now is in place of what
  // was stored, as a whole. What follows is ours, and asks nobody any more.
  for (const session of sessions.list()) found.set(session.id, ofLive(session));
  return place(root, found.values(), call);
}

type Store = NonNullable<CorpusSources['persistence']>;

const findsBelow = ({ listBelow, outlineBelow }: Store): boolean =>
  (listBelow ?? outlineBelow) !== undefined;

async function below(
  store: Store,
  ...[roots, levels, signal, onDamaged]: Parameters<NonNullable<Store['listBelow']>>
): Promise<readonly Stored[]> {
  if (store.outlineBelow !== undefined) {
    const outlines = await store.outlineBelow(roots, levels, signal, onDamaged);
    return outlines.map((header) => ({ kind: 'outlined', header }));
  }
  const headers =
    store.listBelow === undefined
      ? await store.list(signal, onDamaged)
      : await store.listBelow(roots, levels, signal, onDamaged);
  return headers.map((header) => ({ kind: 'stored', header }));
}

/** Nobody has the corpus before all are in it. @throws {SubagentError} `CANCELLED`, `DRAINING` */
async function place(root: SessionId, all: Iterable<Listed>, call: ListingCall): Promise<Corpus> {
  const corpus = new Corpus(root);
  let placed = 0;
  for (const one of all) {
    corpus.add(one);
    if (++placed % PLACED_AT_ONCE === 0) await call.breathe();
  }
  return corpus;
}

/** The sessions of one reading, by their parents. */
export class Corpus {
  readonly #children = new Map<SessionId, Listed[]>();
  readonly #sorted = new Set<SessionId>();

  readonly #root: SessionId;

  constructor(root: SessionId) {
    this.#root = root;
  }

  add(one: Listed): void {
    // Whatever the root's own header says: it is nobody's child here.
    if (one.id === this.#root || one.parentSession === undefined) return;
    const siblings = this.#children.get(one.parentSession);
    if (siblings === undefined) this.#children.set(one.parentSession, [one]);
    else siblings.push(one);
  }

  /** In the order of listings. */
  childrenOf(id: SessionId): readonly Listed[] {
    const children = this.#children.get(id) ?? [];
    if (this.#sorted.has(id)) return children;
    this.#sorted.add(id);
    return children.sort(byAgeThenName);
  }

  hasSubagents(id: SessionId): boolean {
    return this.#children.get(id)?.some(({ isSubagent }) => isSubagent) ?? false;
  }
}

/** The same on every machine. */
const { compare } = new Intl.Collator('en');

function byAgeThenName(a: Listed, b: Listed): number {
  return a.createdAt - b.createdAt || compare(a.id, b.id) || (a.id < b.id ? -1 : 1);
}

/** All but those whose parents, as far as they are live, end elsewhere. */
function mayHangBelow(root: SessionId, live: readonly Session[]): readonly Session[] {
  const byId = new Map(live.map((session) => [session.id, session]));
  const known = new Map<SessionId, boolean>([[root, true]]);
  return live.filter((session) => {
    const path = new Set<SessionId>();
    let next: Session | undefined = session;
    let hangs: boolean | undefined;
    while (next !== undefined && hangs === undefined) {
      path.add(next.id);
      const parent = parentOf(next);
      // In a circle, or without a parent: its end is not the root.
      if (parent === undefined || path.has(parent)) hangs = known.get(next.id) ?? false;
      else hangs = known.get(parent);
      next = parent === undefined ? undefined : byId.get(parent);
    }
    // The first parent that is not live may be stored below the root.
    for (const id of path) known.set(id, hangs ?? true);
    known.set(root, true);
    return session.id !== root && (hangs ?? true);
  });
}

const parentOf = ({ header }: Session): SessionId | undefined => header.parentSession;

const ofHeader = (header: SessionHeader | SessionOutline, from: Listed['from']): Listed => ({
  id: header.id,
  createdAt: header.createdAt,
  parentSession: header.parentSession,
  isSubagent: header.origin === 'subagent',
  from,
});
const ofLive = (session: Session): Listed => ofHeader(session.header, { kind: 'live', session });

/** What it is of cannot be told: shown rather than hidden, since it may be somebody's child. */
const ofDamaged = ({ id, createdAt, parentSession }: DamagedSession): Listed => ({
  id,
  createdAt,
  parentSession,
  isSubagent: true,
  from: { kind: 'damaged' },
});
