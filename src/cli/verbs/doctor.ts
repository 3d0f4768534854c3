/** `subagents doctor`: what is wrong with a store, in words, and what to do about it. */
import { checkStore, HarnessError, type StoreFinding } from '../../index.ts';
import type { DoctorArguments } from '../args/doctor.ts';
import type { Call } from '../call.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { cleanLine } from '../text.ts';

const ADVICE: Readonly<Record<StoreFinding['kind'], string | undefined>> = {
  'damaged-file': 'Restore a copy. What can be read still can be exported: `sessions.exportLines`.',
  'old-format': undefined,
  'unread-part': 'Check a copy of both files.',
  'orphan-rows': 'Their session is lost. Restore a copy.',
  'unreadable-header': 'The session cannot be resumed. Restore a copy, or remove it.',
  'wrong-row': 'The session cannot be trusted. Restore a copy, or remove it.',
  'wrong-place':
    'Its own log is whole. Export it and what is below it, remove it, and import the lines again.',
  'parent-missing': undefined,
  'unreadable-event': 'The session cannot be resumed. Restore a copy, or remove it.',
  'missing-events': 'The session cannot be resumed. Restore a copy, or remove it.',
  'wrong-length': 'The session cannot be resumed. Restore a copy, or remove it.',
  'broken-log': 'The session cannot be resumed. Restore a copy, or remove it.',
  'open-turn': undefined,
  'waiting-messages': undefined,
  held: undefined,
  'held-by-the-dead': undefined,
  'leading-checkpoint': undefined,
  'unreadable-checkpoint': undefined,
};

/**
 * Resolves to the exit code.
 * @throws {UsageError} when the file is no store, or cannot be opened
 */
export async function examine(
  { store, json }: DoctorArguments,
  { streams: { stdout }, signal }: Call,
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
    const [warnings, notes] = [count('warning'), count('note')];
    const sums = [amount(errors, 'error'), amount(warnings, 'warning')];
    if (notes > 0) sums.push(amount(notes, 'note'));
    const text = sums.join(', ');
    stdout.write(`${text.charAt(0).toUpperCase()}${text.slice(1)}.\n`);
  }
  return errors === 0 ? EXIT.completed : EXIT.failed;
}

function inWords({ severity, kind, session, text }: StoreFinding): string {
  const isHarmless = kind === 'orphan-rows' && severity !== 'error';
  const advice = isHarmless ? 'Nothing is lost with that.' : ADVICE[kind];
  const where = session === undefined ? '' : ` session ${session}:`;
  return `${severity}:${where} ${text}${advice === undefined ? '' : ` ${advice}`}`;
}

const amount = (count: number, what: string): string =>
  `${count === 0 ? 'no' : count} ${what}${count === 1 ? '' : 's'}`;
