/**
 * The checks of what goes into a tool and comes out of it. A schema of the enforced subset is
 * checked by our own walk, whoever it is from, so that it means the same for every tool: a
 * function's, a module's, the one that takes a child's structured result. Ajv comes in for what
 * lies beyond the subset, on main, and only for schemas that a host registered: it trusts a
 * schema as it trusts code, and not the values that are held against it, which a model wrote:
 * where those could keep main busy, a check has its time. Nothing a thread says is ever compiled,
 * and none of its patterns run.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { isPlainObject } from '../../protocol/json.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { withinTime } from '../base/within-time.ts';
import { schemaViolations, validateJson } from './json-schema.ts';
import { nameOf, withArticle } from './json-type.ts';
import { placeOf, within } from './place.ts';
import type { Place } from './place.ts';

/** What is wrong with a value, in words its sender can act on; empty when nothing is. */
export type ValueCheck = (value: unknown) => readonly string[];

const ajv = new Ajv2020({
  strict: false,
  ownProperties: true,
  allErrors: true,
  verbose: true,
  validateFormats: false,
  // Two tools may well carry one `$id`; none is looked up by it.
  addUsedSchema: false,
  logger: false,
});

/** For how long one value may be held against a schema, in milliseconds of wall time. */
const CHECK_MS = 250;
/** Keywords that compare each with each, match a text, or lead to wherever the value leads. */
const COSTLY = /"(?:pattern|patternProperties|uniqueItems|contains|\$ref|\$dynamicRef)":/;
/** Parts of a value from which on any schema may be costly. */
const LARGE = 1_000;
const MAX_COMPILED = 256;
const MAX_DESCRIBED = 100;
const compiled = new Map<string, ValidateFunction>();

/**
 * @param schema JSON data that the caller does not change any more.
 * @throws {ArgumentError} when the schema does not compile; `owner` is named in the message.
 */
export function compileCheck(schema: JsonObject, owner: string): ValueCheck {
  if (schemaViolations(schema).length === 0) return (value) => validateJson(schema, value);
  const key = JSON.stringify(schema);
  let validate = compiled.get(key);
  if (validate === undefined) {
    try {
      if (schema['$async'] !== undefined) throw new Error('it is asynchronous');
      validate = ajv.compile(schema);
    } catch (error) {
      const why = toErrorRecord(error).message;
      throw new ArgumentError(`The schema of ${owner} does not compile: ${why}`, { cause: error });
    } finally {
      // Ajv keeps what it was given for ever, by object; ours is bounded. With an `$id` it would
      // also forget what else is known by that id.
      if (schema['$id'] === undefined) ajv.removeSchema(schema);
    }
  } else compiled.delete(key);
  compiled.set(key, validate);
  for (const oldest of compiled.keys()) {
    if (compiled.size <= MAX_COMPILED) break;
    compiled.delete(oldest);
  }
  const run = validate;
  const isCostly = COSTLY.test(key);
  return (value) => {
    const isValid =
      isCostly || isLarge(value) ? withinTime(CHECK_MS, () => run(value)) : { value: run(value) };
    if (isValid === undefined) return [TOO_MUCH];
    if (isValid.value) return [];
    const errors = (run.errors ?? []).slice(0, MAX_DESCRIBED);
    run.errors = null;
    // Told once per place; a failed branch of a union says the same as its sibling.
    return [...new Set(errors.map(describe))];
  };
}

const TOO_MUCH = `the value took more than ${CHECK_MS} ms to check: make it smaller`;

function isLarge(value: unknown): boolean {
  const open: unknown[] = [value];
  for (let seen = 0; open.length > 0;) {
    const next = open.pop();
    if (typeof next !== 'object' || next === null) continue;
    for (const part of Object.values(next)) {
      if (++seen > LARGE) return true;
      open.push(part);
    }
  }
  return false;
}

/**
 * A check of what a thread claims to be the parameters of its tool. Of a schema outside the
 * enforced subset only what is certain is checked: the root, and the properties inside it.
 */
export function checkClaimed(schema: JsonObject): ValueCheck {
  if (schemaViolations(schema).length === 0) return (value) => validateJson(schema, value);
  const { properties, required, additionalProperties } = schema;
  const known = new Set(['type', 'properties', 'required', 'additionalProperties', 'description']);
  const kept: Record<string, JsonObject> = Object.create(null) as Record<string, JsonObject>;
  for (const [name, child] of Object.entries(isPlainObject(properties) ? properties : {})) {
    kept[name] = schemaViolations(child).length === 0 ? (child as JsonObject) : {};
  }
  const isClosed = additionalProperties === false && Object.keys(schema).every((k) => known.has(k));
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];
  const sure = {
    type: 'object',
    properties: kept,
    required: names,
    ...(isClosed ? { additionalProperties: false } : {}),
  };
  return (value) => validateJson(sure, value);
}

/** One of ajv's findings: where, and what was expected there. */
function describe(error: ErrorObject): string {
  const place = placeAt(error.instancePath);
  const at = (what: string, where: Place = place): string => `${placeOf(where)} ${what}`;
  const { params } = error as { params: Record<string, unknown> };
  switch (error.keyword) {
    case 'required':
      return at('is missing', within(place, String(params['missingProperty'])));
    case 'additionalProperties':
      return at('is not a known property', within(place, String(params['additionalProperty'])));
    case 'unevaluatedProperties':
      return at('is not a known property', within(place, String(params['unevaluatedProperty'])));
    case 'type': {
      const types = [params['type']].flat().map((type) => withArticle(String(type)));
      return at(`must be ${types.join(' or ')}, not ${nameOf(error.data)}`);
    }
    case 'enum':
      return at(`must be one of ${(params['allowedValues'] as unknown[]).map(short).join(', ')}`);
    case 'const':
      return at(`must be ${short(params['allowedValue'])}`);
    default:
      return at(error.message ?? `does not satisfy "${error.keyword}"`);
  }
}

/** A JSON pointer, taken apart. */
function placeAt(pointer: string): Place {
  const keys = pointer.split('/').slice(1);
  return within(undefined, ...keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~')));
}

const short = (value: unknown): string => JSON.stringify(value).slice(0, 200);
