/** `subagents ls`: the sessions of a store as a tree, as they are or as they change. */
import type { ControlClient, RowListing, TreeUpdate } from '../../index.ts';
import type { LsArguments } from '../args/look.ts';
import type { Call } from '../call.ts';
import { EXIT } from '../exit-codes.ts';
import { print, printJson } from '../output.ts';
import { PlainLines } from '../plain.ts';
import { isGone, listAll, reach } from '../reach.ts';
import { findId } from '../session-ids.ts';
import { TreeModel } from '../tree-model.ts';
import { treeLines, type ViewOptions } from '../tree-view.ts';

const WITHOUT_TERMINAL = 80;

export async function lsVerb(given: LsArguments, call: Call): Promise<number> {
  const { streams, signal } = call;
  await using reached = await reach(given.store, call);
  const { clients, isRemote } = reached;
  const listing = await listAll(clients, signal);
  const root = given.session === undefined ? undefined : findId(idsIn(listing), given.session);
  if (given.watch !== true || !isRemote) {
    await show(below(listing, root), given, call);
    if (given.watch === true) streams.stderr.write('Nobody runs anything on this store now.\n');
    return EXIT.completed;
  }
  await watch(clients, root, given, call);
  return EXIT.completed;
}

const idsIn = ({ rows, diagnostics }: RowListing): readonly string[] =>
  [...rows, ...diagnostics].map(({ id }) => id);

/** One session and all below it. */
function below(listing: RowListing, root: string | undefined): RowListing {
  if (root === undefined) return listing;
  const children = new Map<string, string[]>();
  for (const { id, parentId } of [...listing.rows, ...listing.diagnostics]) {
    if (parentId !== undefined) children.set(parentId, [...(children.get(parentId) ?? []), id]);
  }
  const found = new Set([root]);
  // A set hands out what is added to it while it is walked.
  for (const id of found) for (const child of children.get(id) ?? []) found.add(child);
  return {
    rows: listing.rows.filter(({ id }) => found.has(id)),
    diagnostics: listing.diagnostics.filter(({ id }) => found.has(id)),
  };
}

async function show(
  listing: RowListing,
  { json, all }: LsArguments,
  { streams: { stdout }, surroundings: { env }, signal }: Call,
): Promise<void> {
  if (json === true) {
    for (const row of listing.rows) await printJson(stdout, { type: 'session', ...row }, signal);
    for (const one of listing.diagnostics) {
      await printJson(stdout, { type: 'diagnostic', ...one }, signal);
    }
    return;
  }
  const tree = new TreeModel();
  tree.reset(listing);
  const size = stdout.isTTY
    ? { columns: stdout.columns, rows: all === true ? Infinity : stdout.rows - 1 }
    : { columns: WITHOUT_TERMINAL, rows: Infinity };
  await print(stdout, textOf(tree, { ...size, color: stdout.isTTY && mayPaint(env) }), signal);
}

function textOf(tree: TreeModel, size: Pick<ViewOptions, 'columns' | 'rows' | 'color'>): string {
  const lines = treeLines(tree, { ...size, now: Date.now(), isListing: true });
  return `${lines.length === 0 ? 'No sessions.' : lines.join('\n')}\n`;
}

const mayPaint = (env: Call['surroundings']['env']): boolean =>
  (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';

/** Until the last of them is gone. */
async function watch(
  clients: readonly ControlClient[],
  rootId: string | undefined,
  { json }: LsArguments,
  { streams: { stdout }, surroundings: { env }, signal }: Call,
): Promise<void> {
  const tree = new TreeModel();
  const view = json === true ? undefined : await openView(tree, stdout, env);
  const write = (value: object): Promise<void> => printJson(stdout, value, signal);
  const tell = async (update: TreeUpdate, by: ControlClient): Promise<void> => {
    if (json === true) return write({ process: by.pid, ...update });
    if (update.type === 'event') {
      tree.apply(update.event);
      view?.tell(update.event);
      return;
    }
    // What others run is not in it: they are asked.
    const others = clients.filter((client) => client !== by);
    tree.reset(below(others.length === 0 ? update : await listAll(clients, signal), rootId));
    view?.reset();
  };
  const watchOne = async (client: ControlClient): Promise<void> => {
    const options = { signal, ...(rootId === undefined ? {} : { rootId }) };
    try {
      for await (const update of client.watch(options)) await tell(update, client);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  };
  try {
    await Promise.all(clients.map(watchOne));
  } finally {
    view?.close();
  }
}

async function openView(
  tree: TreeModel,
  stdout: NodeJS.WriteStream,
  env: Call['surroundings']['env'],
) {
  if (!stdout.isTTY || env['TERM'] === 'dumb') {
    const plain = new PlainLines(tree, (line) => void stdout.write(`${line}\n`));
    const size = { columns: WITHOUT_TERMINAL, rows: Infinity, color: false };
    const reset = (): void => void stdout.write(textOf(tree, size));
    return { tell: plain.tell.bind(plain), reset, close: () => {} };
  }
  const { LiveTree } = await import('../live-tree.ts');
  const live = new LiveTree(tree, stdout, { color: mayPaint(env), isListing: true });
  return { tell: () => {}, reset: () => {}, close: () => live.close() };
}
