/** A conversation without a thread, and what one might tell it. */
import { MessageId, SessionId } from '../../protocol/ids.ts';
import type { StreamId } from '../../protocol/ids.ts';
import { DEFAULT_RETRY_POLICY } from '../../protocol/retry-policy.ts';
import type { SubagentDescriptor } from '../../protocol/session-events.ts';
import type { WorkerEvent, WorkerEventOf, WorkerTurnEnd } from '../../protocol/to-main.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { Session } from '../../src/session/session.ts';
import { Conversation } from '../../src/worker-host/conversation.ts';
import type { OpenTurn } from '../../src/worker-host/open-turn.ts';
import { ManualClock } from '../support/manual-clock.ts';

export const config = { provider: 'p', model: 'm' };
export const policy = { retryPolicy: DEFAULT_RETRY_POLICY };

export function talk(descriptor?: SubagentDescriptor) {
  const header = { version: 0, id: SessionId('s'), createdAt: 0 } as const;
  const session = new Session({ header, clock: new ManualClock() });
  const conversation = new Conversation({
    session,
    descriptor,
    describeLimit: (limit) => `Too much ${limit}.`,
  });
  /** Another request of the open step. */
  const ask = (turn: OpenTurn, isFromThread = false): StreamId =>
    conversation.openStream(turn, conversation.openRequest(turn, config), {
      isFromThread,
      ...policy,
    });
  return {
    session,
    conversation,
    ask,
    /** An open step, with its request made. */
    request(isFromThread = false): { turn: OpenTurn; stream: StreamId } {
      const turn = conversation.open ?? conversation.openTurn();
      conversation.openStep(turn, [createUserMessage('Hi')]);
      return { turn, stream: ask(turn, isFromThread) };
    },
  };
}

export const stepEnd = (turn: number, step: number): WorkerEvent => ({
  type: 'step/end',
  data: { turn, step },
});
export const turnEnd = (turn: number, reason: WorkerTurnEnd): WorkerEvent => ({
  type: 'turn/end',
  data: { turn, reason },
});
export const said = (
  stream: StreamId,
  parts: number,
  step = 1,
): WorkerEventOf<'assistant/message'> => ({
  type: 'assistant/message',
  data: {
    turn: 1,
    step,
    stream,
    parts,
    message: {
      id: MessageId('x'),
      role: 'assistant',
      content: [{ type: 'text', text: 'Hello.' }],
      source: { kind: 'model', provider: 'made', model: 'up' },
    },
  },
});
export const chunkOf = (stream: StreamId): WorkerEvent => ({
  type: 'assistant/chunk',
  data: {
    turn: 1,
    step: 1,
    stream,
    chunk: { type: 'block-start', index: 0, blockType: 'text' },
  },
});
