/** `subagents export`: sessions as lines of JSON on stdout. */
import type { SessionId } from '../../index.ts';
import type { ExportArguments } from '../args/move.ts';
import type { Call } from '../call.ts';
import { EXIT } from '../exit-codes.ts';
import { print } from '../output.ts';
import { findId } from '../session-ids.ts';
import { storedPlaces, withStore, type StoredPlace } from '../store-file.ts';
import { cleanLine } from '../text.ts';

export function exportVerb({ store, sessions }: ExportArguments, call: Call): Promise<number> {
  const { streams, signal } = call;
  return withStore(store, call, async (harness) => {
    const places = await storedPlaces(harness, signal);
    const ids = places.map(({ id }) => id);
    const roots = sessions.map((part) => findId(ids, part));
    const wanted = sessions.length === 0 ? ids : withBelow(places, roots);
    let damaged = 0;
    const lines = harness.sessions.exportLines(wanted, signal, ({ id, error }) => {
      damaged += 1;
      streams.stderr.write(`subagents: session ${id}: ${cleanLine(error.message)}\n`);
    });
    for await (const line of lines) await print(streams.stdout, line, signal);
    return damaged === 0 ? EXIT.completed : EXIT.failed;
  });
}

/** These and all below them, parents first. */
function withBelow(places: readonly StoredPlace[], roots: readonly string[]): SessionId[] {
  const children = new Map<string, SessionId[]>();
  for (const { id, parentSession } of places) {
    if (parentSession === undefined) continue;
    children.set(parentSession, [...(children.get(parentSession) ?? []), id]);
  }
  const found = new Set(roots as SessionId[]);
  // A set hands out what is added to it while it is walked.
  for (const id of found) for (const child of children.get(id) ?? []) found.add(child);
  return [...found];
}
