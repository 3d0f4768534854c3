/**
 * The durable children of a session, without waking any of them. Needs what is folded of sessions
 * and the live ones; a store is asked when there is one. Knows nothing of agents, providers and
 * residencies: an agent that is live has the id of its row.
 */
import type { SessionId } from '../../protocol/ids.ts';
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import { assertOptions } from '../base/assert-options.ts';
import { ListingCall, PLACED_AT_ONCE } from './listing-call.ts';
import { readCorpus } from './listing-corpus.ts';
import type { Corpus, CorpusSources, Listed } from './listing-corpus.ts';
import { identify } from './listing-ladder.ts';
import type { Finding, LadderSources } from './listing-ladder.ts';

/** @inline */
interface ListedChild {
  readonly kind: 'child';
  readonly id: SessionId;
  /** `running`: its session is live here, whatever it does. Says nothing of how it ended. */
  readonly activity: 'running' | 'inactive';
  /** It has durable children of its own, be it ones that cannot be read. */
  readonly hasChildren: boolean;
}

/** A child, or why it cannot be told who one is. */
export type SubagentListEntry =
  | (ListedChild & { readonly mode: 'continuable'; readonly label: string })
  | (ListedChild & { readonly mode: 'one-shot'; readonly label?: string })
  | {
      readonly kind: 'diagnostic';
      readonly id: SessionId;
      /**
       * `corrupt`: it was read, and does not say who it is. `unavailable`: it could not be read;
       * the next listing tries again. Nothing is `unsupported` in this version.
       */
      readonly reason: 'corrupt' | 'unavailable' | 'unsupported';
    };

/** An entry with its place in the tree. */
export type SubagentDescendantListEntry = SubagentListEntry & {
  /** The session right above it, which may be none that is listed. */
  readonly parentId: SessionId;
  /** Edges from the root; its own children are 1. */
  readonly depth: number;
};

/** What a listing reads. Without `persistence` only live children are listed. */
export interface ListingServices {
  readonly projections?: LadderSources['projections'] | undefined;
  readonly sessions?: CorpusSources['sessions'] | undefined;
  readonly persistence?: Sources['persistence'];
  readonly coldFolds?: (Sources['coldFolds'] & { readonly isClosed?: boolean }) | undefined;
}

type Sources = CorpusSources & LadderSources;

/** See `SubagentRuntime.listChildren`. */
export async function listChildren(
  services: ListingServices,
  parentId: SessionId,
  signal?: AbortSignal,
): Promise<SubagentListEntry[]> {
  const { sources, call } = begin(services, parentId, signal);
  // Two levels: whether there are grandchildren is said of each child.
  const corpus = await readCorpus(sources, parentId, 2, call);
  const children = corpus.childrenOf(parentId).filter(({ isSubagent }) => isSubagent);
  const found = await identify(sources, children, call);
  const rows: SubagentListEntry[] = [];
  for (const [index, child] of children.entries()) {
    const finding = found.get(child.id);
    if (finding !== undefined) rows.push(toRow(corpus, child, finding));
    if ((index + 1) % PLACED_AT_ONCE === 0) await call.breathe();
  }
  return rows;
}

/** See `SubagentRuntime.listDescendants`. */
export async function listDescendants(
  services: ListingServices,
  rootId: SessionId,
  signal?: AbortSignal,
): Promise<SubagentDescendantListEntry[]> {
  const { sources, call } = begin(services, rootId, signal);
  const corpus = await readCorpus(sources, rootId, Infinity, call);
  const placed: Placed[] = [];
  let walked = 0;
  for (const one of walk(corpus, rootId)) {
    if (one.listed.isSubagent) placed.push(one);
    if (++walked % PLACED_AT_ONCE === 0) await call.breathe();
  }
  const listed = placed.map((one) => one.listed);
  const found = await identify(sources, listed, call);
  const rows: SubagentDescendantListEntry[] = [];
  for (const [index, { listed: one, parentId, depth }] of placed.entries()) {
    const finding = found.get(one.id);
    if (finding !== undefined) rows.push({ ...toRow(corpus, one, finding), parentId, depth });
    if ((index + 1) % PLACED_AT_ONCE === 0) await call.breathe();
  }
  return rows;
}

function begin(
  { projections, sessions, ...stored }: ListingServices,
  id: SessionId,
  signal: AbortSignal | undefined,
): { readonly sources: Sources; readonly call: ListingCall } {
  if (projections === undefined) {
    throw new SubagentError(
      'SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE',
      'Cannot list children: there is nothing here that folds their logs.',
    );
  }
  if (sessions === undefined) {
    throw new SubagentError(
      'SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE',
      'Cannot list children: there are no sessions here.',
    );
  }
  if (typeof id !== 'string') {
    throw new ArgumentError(`Cannot list the children of \`${printed(id)}\`: it is no id.`);
  }
  assertOptions('a listing', { signal }, { signal: 'signal' });
  const call = new ListingCall(signal, () => stored.coldFolds?.isClosed === true);
  call.check();
  return { sources: { projections, sessions, ...stored }, call };
}

interface Placed {
  readonly listed: Listed;
  readonly parentId: SessionId;
  readonly depth: number;
}

/**
 * In pre-order, without recursion: a chain may be of any length. Each has one parent, and a circle
 * that is reached from the root has the root in it, who is nobody's child here: so each comes once.
 */
function* walk(corpus: Corpus, root: SessionId): Generator<Placed> {
  const path = [{ id: root, children: corpus.childrenOf(root).values() }];
  for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
    const { value: listed, done } = top.children.next();
    if (done === true) {
      path.pop();
    } else {
      yield { listed, parentId: top.id, depth: path.length };
      path.push({ id: listed.id, children: corpus.childrenOf(listed.id).values() });
    }
  }
}

function toRow(corpus: Corpus, { id, from }: Listed, finding: Finding): SubagentListEntry {
  if (typeof finding === 'string') return { kind: 'diagnostic', id, reason: finding };
  const { mode, label } = finding;
  const activity = from.kind === 'live' ? 'running' : 'inactive';
  const hasChildren = corpus.hasSubagents(id);
  if (mode === 'continuable') {
    return { kind: 'child', id, activity, hasChildren, mode, label: label ?? '' };
  }
  const child = { kind: 'child', id, activity, hasChildren, mode } as const;
  return label === undefined ? child : { ...child, label };
}
