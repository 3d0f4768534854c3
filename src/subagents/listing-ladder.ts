/**
 * Who the listed sessions are. Each is asked where it costs least: a live one by what is folded of
 * it, a stored one by its checkpoint, and only if that proves nothing by its log. Whatever is wrong
 * with one of them is said of that one.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { ProjectionError, StoreError } from '../../protocol/errors.ts';
import { COLD_AT_ONCE } from '../session/projections/cold-folds.ts';
import type { ColdFolds } from '../session/projections/cold-folds.ts';
import type { ProjectionSnapshot } from '../session/projections/projection.ts';
import type { SessionProjections } from '../session/projections/registry.ts';
import { notFound } from '../session/store-rules.ts';
import type { Checkpoint, SessionPersistence } from '../session/store.ts';
import type { SubagentIdentity } from './identity-projection.ts';
import { subagentIdentity } from './identity-projection.ts';
import type { ListingCall } from './listing-call.ts';
import { LISTED_AT_ONCE } from './listing-call.ts';
import type { Listed, Stored } from './listing-corpus.ts';

/** Logs that are waited for at once, where somebody else reads them. */
const ASKED_AT_ONCE = 64;

/** Who a child is, or why that cannot be told. */
export type Finding = NonNullable<SubagentIdentity> | 'corrupt' | 'unavailable';

export interface LadderSources {
  readonly projections: Pick<SessionProjections, 'snapshot' | 'viewCheckpoint' | 'restore'>;
  readonly persistence?: Pick<SessionPersistence, 'inspect' | 'checkpoints'> | undefined;
  /** Reads and folds logs. Absent: they are read from the store, and folded here and now. */
  readonly coldFolds?: Pick<ColdFolds, 'coldSnapshot'> | undefined;
}

/**
 * One whose creation is still under way, or that was removed meanwhile, is in no finding.
 * @throws {SubagentError} `CANCELLED`, `DRAINING`
 */
export async function identify(
  sources: LadderSources,
  listed: readonly Listed[],
  call: ListingCall,
): Promise<ReadonlyMap<SessionId, Finding>> {
  const found = new Map<SessionId, Finding>();
  const unproven: Header[] = [];
  for (let from = 0; from < listed.length; from += LISTED_AT_ONCE) {
    if (from > 0) await call.breathe();
    const stored: SessionHeader[] = [];
    for (const { id, from: source } of listed.slice(from, from + LISTED_AT_ONCE)) {
      if (source.kind === 'live') note(found, id, ofLive(sources, source));
      else if (source.kind === 'damaged') found.set(id, 'corrupt');
      else if (source.kind === 'stored') stored.push(source.header);
      else {
        const { header } = source;
        const identity = provenBy(sources, header, header.checkpoint);
        if (identity === undefined) unproven.push(header);
        else found.set(id, identity);
      }
    }
    if (stored.length > 0) unproven.push(...(await byCheckpoint(sources, stored, found, call)));
  }
  let next = 0;
  const read = async (): Promise<void> => {
    for (let header = unproven[next++]; header !== undefined; header = unproven[next++]) {
      note(found, header.id, await ofLog(sources, header, call));
      await call.breathe();
    }
  };
  // Who reads logs for us has a bound of its own for that, and folds many of them together.
  const atOnce = sources.coldFolds === undefined ? COLD_AT_ONCE : ASKED_AT_ONCE;
  await Promise.all(Array.from({ length: atOnce }, read));
  return found;
}

function note(
  found: Map<SessionId, Finding>,
  id: SessionId,
  finding: Finding | null | undefined,
): void {
  if (finding !== undefined && finding !== null) found.set(id, finding);
}

function ofLive(
  { projections }: LadderSources,
  { session }: Extract<Listed['from'], { kind: 'live' }>,
): Finding | null {
  try {
    return identityIn(projections.snapshot(session));
  } catch {
    // Whichever unit it was: there is no part of a snapshot.
    return 'corrupt';
  }
}

/** Returns those whose checkpoints prove nothing, for whatever reason: their logs tell. */
async function byCheckpoint(
  sources: LadderSources,
  headers: readonly SessionHeader[],
  found: Map<SessionId, Finding>,
  call: ListingCall,
): Promise<readonly SessionHeader[]> {
  const { persistence } = sources;
  if (persistence?.checkpoints === undefined) return headers;
  const ids = headers.map(({ id }) => id);
  let checkpoints: Awaited<ReturnType<NonNullable<typeof persistence.checkpoints>>>;
  try {
    checkpoints = await call.read(
      async (signal) => (await persistence.checkpoints?.(ids, signal)) ?? new Map<never, never>(),
    );
  } catch {
    call.check();
    return headers;
  }
  return headers.filter((header) => {
    const identity = provenBy(sources, header, checkpoints.get(header.id));
    if (identity !== undefined) found.set(header.id, identity);
    return identity === undefined;
  });
}

/** Who a checkpoint proves a session to be; `undefined`: that it does not. */
function provenBy(
  { projections }: LadderSources,
  { seedLength = 0 }: Header,
  checkpoint: Checkpoint | undefined,
): Finding | undefined {
  const row = checkpoint?.rows[subagentIdentity.key];
  if (checkpoint === undefined || row === undefined) return undefined;
  try {
    // Of the other rows nothing is asked.
    const own = { seq: checkpoint.seq, rows: { [subagentIdentity.key]: row } };
    const identity = identityIn(projections.viewCheckpoint(own));
    // What an ancestor was may stand in the part of the log that was inherited.
    return identity === null || identity.seq < seedLength ? undefined : identity;
  } catch {
    return undefined;
  }
}

/** Never rejects but with `CANCELLED` or `DRAINING`; `undefined`: it is not there any more. */
async function ofLog(
  sources: LadderSources,
  header: Header,
  call: ListingCall,
): Promise<Finding | undefined> {
  let read: Awaited<ReturnType<typeof readLog>>;
  try {
    read = await call.read((signal) => readLog(sources, header.id, signal));
  } catch (error) {
    call.check();
    if (error instanceof ProjectionError) return 'corrupt';
    const isGone = error instanceof StoreError && error.code === 'SESSION_NOT_FOUND';
    return isGone ? undefined : 'unavailable';
  }
  if (!isSame(read.header, header)) return 'corrupt';
  try {
    return identityIn(read.values()) ?? 'corrupt';
  } catch {
    return 'corrupt';
  }
}

async function readLog(
  { projections, persistence, coldFolds }: LadderSources,
  id: SessionId,
  signal: AbortSignal | undefined,
): Promise<{ header: SessionHeader; values: () => Pick<ProjectionSnapshot, 'values'> }> {
  if (coldFolds !== undefined) {
    const folded = await coldFolds.coldSnapshot(id, signal);
    return { header: folded.header, values: () => folded };
  }
  if (persistence === undefined) throw notFound(id);
  const { header, events } = await persistence.inspect(id, signal);
  return { header, values: () => projections.restore(undefined, events, 0).snapshot };
}

const identityIn = ({ values }: Pick<ProjectionSnapshot, 'values'>): SubagentIdentity =>
  (values[subagentIdentity.key] as SubagentIdentity | undefined) ?? null;

type Header = Stored['header'];

/** What differs when another session has taken the place of one. */
const OUTLINED = ['id', 'createdAt', 'parentSession', 'seedLength'] as const;
const LIFECYCLE = ['version', ...OUTLINED, 'cwd', 'delegationDepth'] as const;

const isSame = (found: SessionHeader, listed: Header): boolean =>
  'version' in listed
    ? LIFECYCLE.every((field) => found[field] === listed[field])
    : OUTLINED.every((field) => found[field] === listed[field]);
