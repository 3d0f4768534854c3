import { toErrorRecord } from '../../protocol/error-record.ts';
import { beyondBounds } from '../base/json-text.ts';
import { deepFreeze } from '../../protocol/json.ts';
import type { Json } from '../../protocol/json.ts';

/** What a model sent as arguments: JSON data, or its raw text and why it is none. */
export interface ParsedArguments {
  readonly args: Json;
  readonly problem?: string;
}

const MAX_DEPTH = 128;
const MAX_VALUES = 50_000;
const TOO_DEEP = `they are nested more than ${MAX_DEPTH} levels deep`;
const TOO_MANY = `they hold more than ${MAX_VALUES} values`;

/**
 * Read the raw arguments of a call. Empty text is an object without properties. Of a key that is
 * given twice the last value counts, as for every reader of JSON. A negative zero means 0.
 */
export function parseArguments(raw: string): ParsedArguments {
  if (raw.trim() === '') return { args: deepFreeze({}) };
  // Counted a value twice at most: what is within the bounds is let through.
  const beyond = beyondBounds(raw, { depth: MAX_DEPTH, values: 2 * MAX_VALUES + 2 });
  if (beyond !== undefined) {
    return { args: raw, problem: beyond === 'depth' ? TOO_DEEP : TOO_MANY };
  }
  const root: { args: Json } = { args: null };
  try {
    root.args = JSON.parse(raw) as Json;
  } catch (error) {
    const why = toErrorRecord(error).message.slice(0, 200);
    return { args: raw, problem: `they are not valid JSON (${why})` };
  }
  const problem = problemOf(root);
  return problem === undefined ? { args: deepFreeze(root.args) } : { args: raw, problem };
}

/**
 * What JSON text can say and our JSON cannot carry on: it is looked at level by level before
 * anything recursive is. Also turns -0, which is no JSON of ours, into 0, in place: a model that
 * writes it means zero, and no correction it could make would say more.
 */
function problemOf(root: { readonly args: Json }): string | undefined {
  let level: unknown[] = [root];
  let values = 0;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return TOO_DEEP;
    const next: unknown[] = [];
    for (const container of level as Record<string, unknown>[]) {
      for (const key of Object.keys(container)) {
        if (++values > MAX_VALUES) return TOO_MANY;
        const item = container[key];
        if (typeof item === 'object' && item !== null) next.push(item);
        else if (typeof item === 'number') {
          if (!Number.isFinite(item)) return 'they hold a number that is too large';
          if (Object.is(item, -0)) container[key] = 0;
        }
      }
    }
    level = next;
  }
  return undefined;
}
