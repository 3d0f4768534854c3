import type { Json } from '../../../protocol/json.ts';
import type { SessionEvent } from '../../../protocol/session-events.ts';
import type { ProjectionUnit } from './projection.ts';
import { isInstance, printed } from '../../../protocol/error-record.ts';
import { ArgumentError, ProjectionError } from '../../../protocol/errors.ts';
import { frozenCopy } from '../../../protocol/json.ts';

/** Nesting a state or a view may have: what is deeper, a store could not write down. */
const MAX_DEPTH = 1_000;
const MAX_KEY = 200;

/**
 * A unit with its fields read once, after which it is what it was.
 * @throws {ArgumentError} naming what is wrong with it
 */
export function checkedUnit(given: ProjectionUnit<never, never>): ProjectionUnit {
  if (typeof given !== 'object' || given === null) throw bad('A projection', 'must be an object');
  const { key, stateVersion, init, apply, isState, wire, module, view, isView } = fieldsOf(given);
  const what = `The projection "${printed(key)}"`;
  if (typeof key !== 'string' || key === '' || key.length > MAX_KEY || key === '__proto__') {
    throw bad(what, `needs a key of 1 to ${MAX_KEY} characters`);
  }
  if (!Number.isSafeInteger(stateVersion) || (stateVersion as number) < 1) {
    throw bad(what, 'needs a stateVersion from 1 on');
  }
  for (const [name, value] of Object.entries({ init, apply, isState })) {
    if (typeof value !== 'function') throw bad(what, `needs a function ${name}`);
  }
  if (wire !== undefined && typeof view !== 'function') {
    throw bad(what, 'needs a function wire.view, or no wire');
  }
  if (isView !== undefined && typeof isView !== 'function') {
    throw bad(what, 'takes a function as wire.isView');
  }
  if (module !== undefined && !isInstance(module, URL)) {
    throw bad(what, 'takes a URL as its module');
  }
  const own = <F>(method: unknown, of: unknown): F => (method as () => unknown).bind(of) as F;
  const unit: ProjectionUnit = {
    key,
    stateVersion: stateVersion as number,
    init: own(init, given),
    apply: own(apply, given),
    isState: own(isState, given),
    ...(wire === undefined
      ? {}
      : {
          wire: {
            view: own(view, wire),
            ...(isView === undefined ? {} : { isView: own(isView, wire) }),
          },
        }),
    ...(module === undefined ? {} : { module: new URL(module) }),
  };
  assertStart(what, unit);
  return unit;
}

function fieldsOf(given: object): Record<string, unknown> {
  try {
    const unit = given as Record<string, unknown>;
    const { key, stateVersion, init, apply, isState, wire, module } = unit;
    const { view, isView } = (wire ?? {}) as Record<string, unknown>;
    return { key, stateVersion, init, apply, isState, wire, module, view, isView };
  } catch (error) {
    throw bad('A projection', 'has fields that cannot be read', error);
  }
}

function assertStart(what: string, unit: ProjectionUnit): void {
  let isItsOwn: boolean;
  try {
    isItsOwn = unit.isState(frozenCopy(unit.init(), MAX_DEPTH));
  } catch (error) {
    throw bad(what, 'cannot begin: init() gives no state', error);
  }
  if (!isItsOwn) throw bad(what, 'refuses what its own init() gives as a state');
}

const bad = (what: string, problem: string, cause?: unknown): ArgumentError =>
  new ArgumentError(`${what} ${problem}.`, cause === undefined ? undefined : { cause });

/**
 * A state that may leave: JSON, detached and frozen.
 * @throws {ProjectionError} when it is no JSON
 */
export function detachedState(unit: ProjectionUnit, state: Json, of: string): Json {
  try {
    return frozenCopy(state, MAX_DEPTH);
  } catch (error) {
    throw failed(unit, of, 'its state is not JSON', error);
  }
}

/** @throws {ProjectionError} when the unit throws, or the view is not what it must be */
export function viewOf(unit: ProjectionUnit, state: Json, of: string): Json {
  let view: Json;
  let isValid: boolean;
  try {
    view = frozenCopy(unit.wire?.view(state), MAX_DEPTH);
    isValid = unit.wire?.isView?.(view) ?? true;
  } catch (error) {
    throw failed(unit, of, 'its view could not be made', error);
  }
  if (!isValid) throw failed(unit, of, 'its view is not one by its own check');
  return view;
}

/** @throws {ProjectionError} when the unit throws */
export function applied(unit: ProjectionUnit, state: Json, event: SessionEvent, of: string): Json {
  try {
    return unit.apply(state, event);
  } catch (error) {
    throw failed(unit, of, `it threw at event ${event.seq}`, error);
  }
}

/** @throws {ProjectionError} when the unit throws */
export function started(unit: ProjectionUnit, of: string): Json {
  try {
    return unit.init();
  } catch (error) {
    throw failed(unit, of, 'init() threw', error);
  }
}

/** A kept state as it can be gone on with, or `undefined`. */
export function usableState(
  unit: ProjectionUnit,
  row: { readonly ver: number; readonly val: Json } | undefined,
): Json | undefined {
  // A kept row is another's word: it may be anything.
  if (row?.ver !== unit.stateVersion) return undefined;
  try {
    const state = frozenCopy(row.val, MAX_DEPTH);
    return unit.isState(state) ? state : undefined;
  } catch {
    // The unit's own check threw, or what was kept is no JSON: either way it is none of its states.
    return undefined;
  }
}

export function failed(
  { key }: Pick<ProjectionUnit, 'key'>,
  of: string,
  problem: string,
  cause?: unknown,
): ProjectionError {
  const message = `The projection "${key}" has no value of session \`${of}\`: ${problem}.`;
  return new ProjectionError(key, message, cause === undefined ? undefined : { cause });
}
