import { isAbsolute } from 'node:path';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { ArgumentError } from '../../protocol/errors.ts';

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
