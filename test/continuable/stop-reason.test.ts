import { expect, it } from 'vitest';
import type { TurnEndReason } from '../../protocol/session-events.ts';
import { stopReasonOf } from '../../src/subagents/settlement.ts';
import { aSession } from '../session/log-parts.ts';

const endedBy = (reason: TurnEndReason) => {
  const session = aSession();
  session.append('turn/start', { turn: 1 });
  session.append('step/start', { turn: 1, step: 1 });
  session.append('step/end', { turn: 1, step: 1 });
  session.append('turn/end', { turn: 1, reason });
  return session.events;
};
const stopped = { kind: 'aborted', reason: { kind: 'user' } } as const;

it.each([
  ['a stop, when a failure kept the rest from it', stopped, true, true, 'error'],
  ['a stop alone', stopped, false, false, 'aborted'],
  ['a stop, when more waits', stopped, true, false, 'aborted'],
  ['a clean end, when more was kept from it', { kind: 'completed' }, true, true, 'error'],
  ['a clean end, when more was thrown away', { kind: 'completed' }, true, false, 'aborted'],
  ['a refusal, which parks what waits', { kind: 'blocked' }, true, true, 'refusal'],
] as const)('tells an epoch by %s', (_, reason, isCut, hasFailed, expected) => {
  const circumstances = { isCut, hasFailed, hasAccepted: true };
  expect(stopReasonOf(endedBy(reason), circumstances)).toBe(expected);
});
