/** Judges what was seen of one fault. An empty list: everything is as it has to be. */
import { expectationOf } from './expectation.ts';
import { kindOf } from './kinds.ts';
import type { Excuse } from './kinds.ts';
import { DISPOSE_MS, SETTLE_MS, SLACK, STALL_MS, TIMER_MS } from './limits.ts';
import { PARTIAL } from './orders.ts';
import type { Observation, Probing } from './observation.ts';

const PROBES_LOST = 2;

export function judge(seen: Observation, probing: Probing): readonly string[] {
  const { cell, told } = seen;
  const kind = kindOf(cell.kind);
  const expected = expectationOf(cell);
  const isExcused = (what: Excuse): boolean => kind.excuses?.includes(what) === true;
  const wrong: string[] = [];
  const must = (isSo: boolean, complaint: string): void => {
    if (!isSo) wrong.push(complaint);
  };

  must(seen.injected > 0, 'the fault did not happen');
  if (kind.limit?.name === 'steps') {
    const { value } = kind.limit;
    must(seen.injected === value, `it took ${seen.injected} steps, and ${value} are its limit`);
  }
  must(told.length > 0, 'its end was never told');
  must(told.length < 2, `its end was told ${told.length} times`);
  const [word] = told;
  if (word !== undefined) {
    const { stopReason, codes, by, text } = word;
    must(
      expected.stopReasons.includes(stopReason),
      `its ${by} says ${stopReason}, not ${expected.stopReasons.join(' or ')}: ${text.slice(0, 200)}`,
    );
    const isFailure = stopReason === 'error' || stopReason === 'rejected';
    if (isFailure && expected.codes.length > 0) {
      must(
        codes.some((code) => expected.codes.includes(code)),
        `its ${by} says ${codes.join(' of ') || 'no code'}, not ${expected.codes.join(' or ')}: ${text.slice(0, 200)}`,
      );
    }
    if (expected.limit !== undefined && codes.includes('LIMIT_EXCEEDED')) {
      must(text.includes(expected.limit), `its ${by} does not name ${expected.limit}: ${text}`);
    }
    if (expected.keepsPartial && stopReason === 'error') {
      must(
        seen.output.startsWith(PARTIAL),
        `what it had said is lost: "${seen.output.slice(0, 80)}"`,
      );
    }
  }
  if (seen.settleMs !== undefined && !isExcused('settle')) {
    must(
      seen.settleMs <= SETTLE_MS * SLACK + TIMER_MS,
      `its end was told ${Math.round(seen.settleMs)} ms after it could be seen`,
    );
  }
  const { starts, ends } = seen.lifecycle;
  must(starts === ends, `it was started ${starts} times and ended ${ends} times`);
  if (seen.log !== undefined) {
    const { turnStarts, turnEnds } = seen.log;
    must(turnStarts === turnEnds, `its log has ${turnStarts} turns and ${turnEnds} ends of turns`);
    must(!expected.isRefused || cell.moment === 'resume', 'it was refused, and has a log');
  } else must(expected.isRefused, 'it has no log');
  for (const parent of seen.parents) {
    must(parent === 'completed' || cell.moment === 'dispose', `a parent came out ${parent}`);
  }
  const { wanted, got } = seen.siblings;
  wanted.forEach((answer, at) => {
    must(got[at] === answer, `sibling ${at} answered "${got[at] ?? 'nothing'}", not "${answer}"`);
  });
  if (!isExcused('afterwards')) must(seen.afterwards === 'well', `afterwards: ${seen.afterwards}`);
  for (const [what, count] of Object.entries(seen.left)) {
    const isSpoilt = isExcused('left open') || kind.excuses?.some((excuse) => excuse === what);
    must(isSpoilt === true, `${count} × ${what} left`);
  }
  for (const finding of seen.findings) wrong.push(`doctor: ${finding}`);
  for (const error of seen.uncaught) wrong.push(`uncaught on main: ${error}`);
  for (const key of seen.polluted) wrong.push(`Object.prototype has "${key}"`);
  must(
    seen.accepted === seen.kept,
    `${seen.accepted} messages were accepted, ${seen.kept} are kept`,
  );
  if (seen.disposeMs !== undefined && !isExcused('settle')) {
    const ms = Math.round(seen.disposeMs);
    must(ms <= DISPOSE_MS * SLACK, `the harness was disposed in ${ms} ms`);
  }
  if (!isExcused('probe')) {
    const { unanswered, asked, worstMs } = probing;
    must(unanswered < PROBES_LOST, `main left ${unanswered} of ${asked} probes unanswered`);
    must(worstMs <= STALL_MS * SLACK, `main was deaf for ${Math.round(worstMs)} ms`);
  }
  return wrong;
}
