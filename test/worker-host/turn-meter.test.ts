import { describe, expect, it } from 'vitest';
import { OpenTurn } from '../../src/worker-host/open-turn.ts';
import { TurnMeter } from '../../src/worker-host/turn-meter.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { chunkOf, said, stepEnd, talk, turnEnd } from './talk.ts';

const none = {
  turnMs: undefined,
  runMs: undefined,
  cpuMs: undefined,
  steps: undefined,
  toolMs: undefined,
};

function metered(outputBytes: number | undefined) {
  const passed: string[] = [];
  const meter = new TurnMeter({
    bounds: { ...none, outputBytes },
    clock: new ManualClock(),
    cpuMs: () => undefined,
    exceeded: (_, limit) => passed.push(limit),
  });
  const turn = new OpenTurn(1);
  meter.begin(turn);
  return { meter, turn, passed };
}

describe('what a thread adds to its log', () => {
  it('is kept of the frame that is too much, and not of those after it', () => {
    const { meter, turn, passed } = metered(100);
    meter.frame(100);
    expect([passed, turn.isFull]).toEqual([[], false]);
    meter.frame(1);
    expect([passed, turn.isFull]).toEqual([['outputBytes'], false]);
    meter.frame(1);
    expect(turn.isFull).toBe(true);
  });

  it('is no matter where there is no limit', () => {
    const { meter, turn, passed } = metered(undefined);
    for (let i = 0; i < 3; i++) meter.frame(2 ** 30);
    expect([passed, turn.isFull]).toEqual([[], false]);
  });

  it('is, once the turn is full, the message without further parts of it', () => {
    const { session, conversation, request } = talk();
    const { turn, stream } = request(true);
    conversation.event(chunkOf(stream));
    turn.isFull = true;
    conversation.event(chunkOf(stream));
    conversation.event(said(stream, 2));
    const types = session.events.map(({ type }) => type);
    expect(types.filter((type) => type === 'assistant/chunk')).toHaveLength(1);
    expect(types.at(-1)).toBe('assistant/message');
  });
});

it('ends a turn for a limit that was passed, although its thread had just completed it', () => {
  const { conversation, request } = talk();
  const { turn } = request();
  conversation.event(stepEnd(1, 1));
  turn.cancel({ kind: 'limit', limit: 'steps' });
  expect(conversation.event(turnEnd(1, { kind: 'completed' }))).toEqual({
    kind: 'error',
    error: { code: 'LIMIT_EXCEEDED', message: 'Too much steps.' },
  });
});
