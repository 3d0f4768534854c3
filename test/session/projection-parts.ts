/** Units to fold with, and a registry that folds the sessions of a `Sessions`. */
import type { Json } from '../../protocol/json.ts';
import type { SessionEventType } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import type { Logger } from '../../src/base/logger.ts';
import type { ProjectionUnit } from '../../src/session/projections/projection.ts';
import { SessionProjections } from '../../src/session/projections/registry.ts';
import type { Sessions } from '../../src/session/sessions.ts';

export type Counted = { readonly count: number };

/** How many events of a type there are. */
export const counter = (
  key: string,
  type: SessionEventType,
  stateVersion = 1,
): ProjectionUnit<Counted, number> => ({
  key,
  stateVersion,
  init: () => ({ count: 0 }),
  apply: (state, event) => (event.type === type ? { count: state.count + 1 } : state),
  isState: (value: Json): value is Counted =>
    Number.isSafeInteger((value as Partial<Counted> | null)?.count),
  wire: { view: ({ count }) => count },
});

/** The numbers of all events: says at once when one is folded twice or left out. */
export const seqs: ProjectionUnit<readonly number[], readonly number[]> = {
  key: 'seqs',
  stateVersion: 1,
  init: () => [],
  apply: (state, { seq }) => [...state, seq],
  isState: (value: Json): value is readonly number[] =>
    Array.isArray(value) && value.every((seq, index) => seq === index),
  wire: { view: (state) => state },
};

export function projectionsOf(
  sessions: Pick<Sessions, 'observers'>,
  logger: Logger = silentLogger,
): SessionProjections {
  return new SessionProjections({
    logger,
    onEvent: (listener) => sessions.observers.on('session/event', listener),
  });
}
