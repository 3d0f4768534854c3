/** Builders for what the runtime tells of a run. */
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { RuntimeEvent } from '../../src/index.ts';

export const created = (
  session: string,
  time: number,
  parent?: string,
  label?: string,
): RuntimeEvent => ({
  type: 'session/created',
  time,
  session,
  ...(parent === undefined ? {} : { parent }),
  depth: parent === undefined ? 0 : 1,
  ...(label === undefined ? {} : { label }),
});

export const logged = (
  session: string,
  type: SessionEvent['type'],
  data: object,
  time = 0,
): RuntimeEvent => ({
  type: 'session/event',
  session,
  event: { type, seq: 0, time, data } as unknown as SessionEvent,
});

export const labelled = (session: string, label: string): RuntimeEvent =>
  logged(session, 'subagent/descriptor', {
    version: 1,
    mode: 'one-shot',
    provider: 'spawn',
    label,
  });

export const wrote = (session: string, text: string): RuntimeEvent =>
  logged(session, 'assistant/chunk', {
    turn: 1,
    step: 1,
    chunk: { type: 'text-delta', index: 0, text },
  });

export const began = (session: string, time = 0): RuntimeEvent =>
  logged(session, 'turn/start', { turn: 1 }, time);

export const ended = (session: string, reason: object, time: number): RuntimeEvent =>
  logged(session, 'turn/end', { turn: 1, reason }, time);

export const used = (session: string, inputTokens: number, outputTokens: number): RuntimeEvent =>
  logged(session, 'assistant/message', { usage: { inputTokens, outputTokens } });

export const runEnded = (id: string, stopReason: string, time: number): RuntimeEvent => ({
  type: 'subagent/end',
  time,
  runId: `run-${id}`,
  provider: 'spawn',
  id,
  parent: 'r',
  local: true,
  stopReason,
});

export const toldOf = (session: string, callId: string, description: string): RuntimeEvent =>
  logged(session, 'tool/call', {
    turn: 1,
    step: 1,
    callId,
    name: 'subagent',
    arguments: JSON.stringify({ description, prompt: '' }),
  });

export const toolFailed = (
  session: string,
  callId: string,
  code: string,
  text: string,
): RuntimeEvent =>
  logged(session, 'tool/result', {
    message: {
      source: { kind: 'tool', callId },
      content: [
        {
          type: 'tool-result',
          toolCallId: callId,
          isError: true,
          content: [{ type: 'text', text }],
        },
      ],
    },
    error: { name: 'Error', code },
  });
