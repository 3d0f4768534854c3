import { isAbsolute } from 'node:path';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { ArgumentError } from '../../protocol/errors.ts';

/** What a header says besides which session it is of, and since when there is one. */
export type SessionMeta = Pick<
  SessionHeader,
  'cwd' | 'parentSession' | 'origin' | 'delegationDepth' | 'seedLength'
>;

/** The header of a new session; a field that is absent or undefined stays out of it. */
export function newHeader(id: SessionId, createdAt: number, meta: SessionMeta): SessionHeader {
  const { cwd, parentSession, origin, delegationDepth, seedLength } = meta;
  return {
    version: 0,
    id,
    createdAt,
    ...(cwd === undefined ? {} : { cwd }),
    ...(parentSession === undefined ? {} : { parentSession }),
    ...(origin === undefined ? {} : { origin }),
    ...(delegationDepth === undefined ? {} : { delegationDepth }),
    ...(seedLength === undefined ? {} : { seedLength }),
  };
}

/**
 * The header's own fields, checked and frozen. Keys it does not know are left out.
 * @throws {ArgumentError} naming the first field that is not what it must be.
 */
export function checkedHeader(given: SessionHeader): SessionHeader {
  const { version, id, createdAt, cwd, parentSession, seedLength, origin, delegationDepth } = given;
  const expect = (holds: boolean, problem: string): void => {
    if (!holds) throw new ArgumentError(`Not a session header: ${problem}.`);
  };
  expect(version === 0, `its version is ${String(version)}, and 0 is known`);
  expect(isName(id), 'its id is no name');
  expect(isCount(createdAt), '`createdAt` is no timestamp');
  expect(cwd === undefined || (isName(cwd) && isAbsolute(cwd)), '`cwd` is no absolute path');
  expect(parentSession === undefined || isName(parentSession), '`parentSession` is no name');
  expect(seedLength === undefined || isCount(seedLength), '`seedLength` is no count');
  expect(origin === undefined || origin === 'subagent', '`origin` is unknown');
  expect(
    delegationDepth === undefined || isCount(delegationDepth),
    '`delegationDepth` is no count',
  );
  return Object.freeze({
    version,
    id,
    createdAt,
    ...(cwd === undefined ? {} : { cwd }),
    ...(parentSession === undefined ? {} : { parentSession }),
    ...(seedLength === undefined ? {} : { seedLength }),
    ...(origin === undefined ? {} : { origin }),
    ...(delegationDepth === undefined ? {} : { delegationDepth }),
  });
}

/** Half a surrogate pair would be stored as another name. */
const isName = (value: unknown): boolean =>
  typeof value === 'string' && value !== '' && !/\0|\p{Surrogate}/u.test(value);
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
