/** `subagents rm`: sessions that nobody runs, each with all below it. */
import type { SessionId } from '../../index.ts';
import type { RmArguments } from '../args/move.ts';
import type { Call } from '../call.ts';
import { EXIT } from '../exit-codes.ts';
import { counted, print, printJson } from '../output.ts';
import { findId } from '../session-ids.ts';
import { storedPlaces, withStore } from '../store-file.ts';

export function rmVerb({ store, sessions, json }: RmArguments, call: Call): Promise<number> {
  const { streams, signal } = call;
  return withStore(store, call, async (harness) => {
    const ids = (await storedPlaces(harness, signal)).map(({ id }) => id);
    // All are found before the first is removed.
    const roots = new Set(sessions.map((part) => findId(ids, part) as SessionId));
    const removed = new Set<SessionId>();
    for (const id of roots) {
      if (removed.has(id)) continue;
      for (const gone of await harness.sessions.remove(id, {}, signal)) {
        removed.add(gone);
        if (json === true) await printJson(streams.stdout, { removed: gone }, signal);
      }
    }
    if (json !== true) {
      await print(streams.stdout, `Removed ${counted(removed.size, 'session')}.\n`, signal);
    }
    return EXIT.completed;
  });
}
