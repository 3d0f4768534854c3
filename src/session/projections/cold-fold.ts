import type { Json } from '../../../protocol/json.ts';
import type { SessionHeader } from '../../../protocol/session-events.ts';
import type { ErrorRecord } from '../../../protocol/error-record.ts';
import type { LogSource, PackedLog } from './packed-log.ts';
import type { ProjectionUnit } from './projection.ts';
import { toErrorRecord } from '../../../protocol/error-record.ts';
import { ProjectionError, StoreError } from '../../../protocol/errors.ts';
import { Brackets } from '../brackets.ts';
import { storedClosers } from '../repair.ts';
import { Fold } from './fold.ts';
import { packedSource } from './packed-log.ts';
import { checkedUnit, failed } from './unit.ts';

/** What a thread that folds is given. */
export interface FoldJob {
  readonly header: SessionHeader;
  readonly log: PackedLog;
  readonly units: readonly {
    readonly key: string;
    readonly stateVersion: number;
    readonly module: string;
  }[];
}

/** What it answers: all values, or the first thing that kept it from having them. */
export type FoldReply =
  | { readonly kind: 'folded'; readonly values: Readonly<Record<string, Json>> }
  /** The log is at fault. */
  | { readonly kind: 'unreadable'; readonly error: ErrorRecord }
  /** A unit is at fault. */
  | { readonly kind: 'failed'; readonly key: string; readonly error: ErrorRecord }
  /** These could not be had from their modules, there. */
  | { readonly kind: 'unloadable'; readonly keys: readonly string[]; readonly error: ErrorRecord };

/** Events that are read and folded before others get a turn. */
const SLICE = 512;

/**
 * Fold a stored log as it would be resumed: what would close a turn in it comes last. Yields
 * after every few events, so that whoever has other work can do it in between; no more of the
 * log than those is held at once, unless a crash cut it off inside a turn.
 * @throws {StoreError} when the log cannot be read
 * @throws {ProjectionError} when a unit fails
 */
export function* foldStored(
  units: readonly ProjectionUnit[],
  header: SessionHeader,
  log: LogSource,
): Generator<void, Readonly<Record<string, Json>>, void> {
  const folds = units.map((unit) => new Fold(unit, header.id));
  const brackets = new Brackets();
  for (let from = 0; from < log.length; from += SLICE) {
    const events = log.slice(from, from + SLICE);
    try {
      for (const event of events) brackets.push(event);
    } catch (error) {
      const message = `The stored log of session \`${header.id}\` is damaged.`;
      throw new StoreError('STORE_CORRUPT', message, { cause: error });
    }
    for (const fold of folds) fold.push(events);
    yield;
  }
  if (brackets.open !== undefined) {
    const closers = storedClosers(header, log.slice(0, log.length));
    for (const fold of folds) fold.push(closers);
  }
  return Object.fromEntries(folds.map((fold) => [fold.unit.key, fold.view()]));
}

/** The same where only modules can be had: in a thread. Never rejects. */
export async function foldJob(
  { header, log, units }: FoldJob,
  load: (module: string) => Promise<unknown>,
): Promise<FoldReply> {
  const loaded: ProjectionUnit[] = [];
  const missing: string[] = [];
  let first: unknown;
  for (const wanted of units) {
    try {
      loaded.push(unitOf(await load(wanted.module), wanted));
    } catch (error) {
      first ??= error;
      missing.push(wanted.key);
    }
  }
  if (missing.length > 0) return { kind: 'unloadable', keys: missing, error: toErrorRecord(first) };
  try {
    const steps = foldStored(loaded, header, packedSource(log));
    for (;;) {
      const step = steps.next();
      if (step.done === true) return { kind: 'folded', values: step.value };
    }
  } catch (error) {
    if (!(error instanceof ProjectionError)) {
      return { kind: 'unreadable', error: toErrorRecord(error) };
    }
    return { kind: 'failed', key: error.projection, error: toErrorRecord(error) };
  }
}

function unitOf(module: unknown, wanted: FoldJob['units'][number]): ProjectionUnit {
  const { default: given } = module as { default?: unknown };
  const units = (Array.isArray(given) ? given : [given]) as readonly ProjectionUnit<never, never>[];
  const { key, stateVersion } = wanted;
  const unit = units.find((one) => one?.key === key && one.stateVersion === stateVersion);
  if (unit !== undefined) return checkedUnit(unit);
  throw failed(wanted, 'of this log', `its module has no version ${stateVersion} of it`);
}
