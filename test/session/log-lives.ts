/**
 * Lives of a session, made of numbers: each deed does what it can where the log stands, through
 * the session and the inbox that an agent uses, so that every log is one that can come to be.
 */
import * as fc from 'fast-check';
import type { ContentBlock } from '../../protocol/content.ts';
import { CallId } from '../../protocol/ids.ts';
import type { SubagentDescriptor, TurnEndReason } from '../../protocol/session-events.ts';
import { Inbox } from '../../src/agent/inbox.ts';
import { closeOpenCalls } from '../../src/session/repair.ts';
import type { Session } from '../../src/session/session.ts';
import { asks, assistantMessage, delta, text, userMessage } from './log-parts.ts';

const KINDS = [
  'insert',
  'insert',
  'insert',
  'discard',
  'clear',
  'open turn',
  'open turn',
  'open step',
  'open step',
  'describe',
  'request',
  'retry',
  'chunk',
  'answer',
  'answer',
  'call',
  'call',
  'result',
  'close step',
  'close turn',
  'put back',
] as const;

interface Deed {
  readonly kind: (typeof KINDS)[number];
  /** Which of the things that can be chosen. */
  readonly choice: number;
}

export const aLife: fc.Arbitrary<readonly Deed[]> = fc.array(
  fc.record({ kind: fc.constantFrom(...KINDS), choice: fc.nat(11) }),
  { minLength: 1, maxLength: 60, size: 'max' },
);

const REASONS: readonly TurnEndReason[] = [
  { kind: 'completed' },
  { kind: 'max-tokens' },
  { kind: 'blocked' },
  { kind: 'aborted', reason: { kind: 'user' } },
  { kind: 'error', error: { code: 'SERVER', message: 'It failed.' } },
];
const DESCRIPTORS: readonly SubagentDescriptor[] = [
  { version: 1, mode: 'continuable', provider: 'spawn', label: 'one' },
  { version: 1, mode: 'one-shot', provider: 'fork' },
];

/** Do all of it. What cannot be done where the log stands is left out. */
export function live(session: Session, deeds: readonly Deed[]): void {
  const inbox = new Inbox(session, { inserted() {}, discarded() {}, claimed() {} });
  let claimed: ReturnType<Inbox['claim']> = [];
  let words = 0;
  let calls = 0;
  const said = (): string => `${session.id} ${++words}`;
  for (const { kind, choice } of deeds) {
    const { open } = session;
    const isInStep = open?.step !== undefined;
    const at = { turn: open?.turn ?? 0, step: open?.step ?? 0 };
    switch (kind) {
      case 'insert':
        inbox.insert(choice % 2 === 0 ? 'next-turn' : 'next-step', userMessage(said()));
        break;
      case 'discard': {
        const waiting = [...inbox.nextStep, ...inbox.nextTurn];
        const one = waiting[choice % Math.max(1, waiting.length)];
        if (one !== undefined) inbox.remove(one.id);
        break;
      }
      case 'clear':
        if (choice === 0) inbox.clear();
        break;
      case 'open turn':
        if (open !== undefined || !inbox.hasPending) break;
        session.append('turn/start', { turn: session.lastTurn + 1 });
        claimed = inbox.claim('turn', session.lastTurn);
        break;
      case 'open step': {
        if (open === undefined || isInStep) break;
        const isFirst = session.eventsFrom(session.seq - 1)[0]?.type !== 'step/end';
        if (!isFirst) claimed = inbox.claim('step', open.turn);
        session.append('step/start', { turn: open.turn, step: stepsOf(session) + 1 });
        for (const message of claimed) session.append('user/message', message);
        claimed = [];
        break;
      }
      case 'describe':
        session.append('subagent/descriptor', DESCRIPTORS[choice % 2] as SubagentDescriptor);
        break;
      case 'request': {
        if (!isInStep) break;
        const config = { provider: 'p', model: `m${choice % 3}` };
        session.append('request/header', { header: { config }, reason: 'change' });
        if (choice % 2 === 0) session.append('request/context', config);
        break;
      }
      case 'retry': {
        if (!isInStep) break;
        const failure = { code: 'SERVER', message: 'It failed.' };
        const retry = { ...at, retryId: said(), retry: 1 };
        const more = { provider: 'p', maxRetries: 5, delayMs: 1, failure };
        session.append('llm/retry', { ...retry, ...more });
        session.append('llm/retry-started', retry);
        break;
      }
      case 'chunk':
        if (isInStep) session.append('assistant/chunk', delta(said(), at));
        break;
      case 'answer': {
        if (!isInStep || open.unstarted.size > 0) break;
        const asked = Array.from({ length: choice % 4 }, () => asks(`${session.id} c${++calls}`));
        const content: ContentBlock[] = choice === 4 ? [] : [text(said()), ...asked];
        session.append('assistant/message', { ...at, message: assistantMessage(...content) });
        break;
      }
      case 'call': {
        const [callId, { name } = { name: '' }] = [...(open?.unstarted ?? [])][0] ?? [];
        if (callId === undefined) break;
        session.append('tool/call', { ...at, callId, name, arguments: '{}' });
        break;
      }
      case 'result': {
        const all = [...(open?.unanswered ?? [])];
        const [callId, { seq } = { seq: 0 }] = all[choice % Math.max(1, all.length)] ?? [];
        if (callId !== undefined) answer(session, callId, seq, choice % 3 === 0);
        break;
      }
      case 'close step':
        if (!isInStep) break;
        closeOpenCalls(session, { code: 'WORKER_EXITED', message: 'It ended.' });
        session.append('step/end', at);
        break;
      case 'close turn':
        if (open === undefined || isInStep) break;
        session.append('turn/end', {
          turn: open.turn,
          reason: REASONS[choice % REASONS.length] as TurnEndReason,
        });
        claimed = [];
        break;
      case 'put back':
        if (open === undefined || isInStep || claimed.length === 0) break;
        inbox.putBack();
        session.append('turn/end', { turn: open.turn, reason: REASONS[3] as TurnEndReason });
        claimed = [];
        break;
      default:
        kind satisfies never;
    }
  }
}

function answer(session: Session, id: string, seq: number, isError: boolean): void {
  const { turn, step = 0 } = session.open ?? { turn: 0 };
  const callId = CallId(id);
  const { id: messageId } = userMessage('');
  const content = [text(`of ${id}`)];
  session.append(
    'tool/result',
    {
      turn,
      step,
      message: {
        id: messageId,
        role: 'user',
        content: [
          { type: 'tool-result', toolCallId: callId, content, ...(isError && { isError }) },
        ],
        source: { kind: 'tool', callId },
      },
      ...(isError && { error: { name: 'ToolError', code: 'FAILED' } }),
    },
    { sources: [seq] },
  );
}

/** Steps of the open turn so far. */
function stepsOf({ events }: Session): number {
  const start = events.findLastIndex(({ type }) => type === 'turn/start');
  return events.slice(start).filter(({ type }) => type === 'step/start').length;
}
