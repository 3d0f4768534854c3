/** `subagents doctor`: what is wrong with a store, in words, and what to do about it. */
import { checkStore, HarnessError, type StoreFinding } from '../index.ts';
import type { DoctorArguments } from './args.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { cleanLine } from './text.ts';

const ADVICE: Readonly<Record<StoreFinding['kind'], string | undefined>> = {
  'damaged-file': 'Restore a copy. What can be read still can be exported from it.',
  'old-format': undefined,
  'orphan-rows': 'They only take room.',
  'unreadable-header': 'The session cannot be resumed; a newer version may read it. Or remove it.',
  'wrong-row': 'The session cannot be trusted. Restore a copy, or remove it.',
  'parent-missing': undefined,
  'unreadable-event': 'The session cannot be resumed; a newer version may read it. Or remove it.',
  'missing-events': 'The session cannot be resumed. Restore a copy, or remove it.',
  'wrong-length': 'The session cannot be resumed. Restore a copy, or remove it.',
  'broken-log': 'The session cannot be resumed. Restore a copy, or remove it.',
  'open-turn': undefined,
  'waiting-messages': undefined,
  held: undefined,
  'held-by-the-dead': undefined,
  'leading-checkpoint': 'A listing may show what never was. Restore a copy, or remove the session.',
  'unreadable-checkpoint': undefined,
};

/**
 * Resolves to the exit code.
 * @throws {UsageError} when the file is no store, or cannot be opened
 */
export async function examine(
  { store, json }: DoctorArguments,
  stdout: Pick<NodeJS.WriteStream, 'write'>,
  signal: AbortSignal,
): Promise<number> {
  const found = await checkStore(store, signal).catch((error: unknown) => {
    throw error instanceof HarnessError ? new UsageError(error.message, { cause: error }) : error;
  });
  const count = (severity: StoreFinding['severity']): number =>
    found.filter((finding) => finding.severity === severity).length;
  const errors = count('error');
  if (json === true) {
    for (const finding of found) stdout.write(`${JSON.stringify(finding)}\n`);
  } else {
    for (const finding of found) stdout.write(`${cleanLine(inWords(finding))}\n`);
    const sums = [
      amount(errors, 'error'),
      amount(count('warning'), 'warning'),
      amount(count('note'), 'note'),
    ];
    const verdict = errors === 0 ? 'Nothing is wrong' : 'Something is wrong';
    stdout.write(`${verdict}: ${sums.join(', ')}.\n`);
  }
  return errors === 0 ? EXIT.completed : EXIT.failed;
}

function inWords({ severity, kind, session, text }: StoreFinding): string {
  const advice = ADVICE[kind];
  const where = session === undefined ? '' : ` session ${session}:`;
  return `${severity}:${where} ${text}${advice === undefined ? '' : ` ${advice}`}`;
}

const amount = (count: number, what: string): string =>
  `${count === 0 ? 'no' : count} ${what}${count === 1 ? '' : 's'}`;
