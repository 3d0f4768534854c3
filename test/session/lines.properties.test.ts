import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import type { Json } from '../../protocol/json.ts';
import type { SessionEvent, SessionEventMap } from '../../protocol/session-events.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import {
  asks,
  assistantMessage,
  aSession,
  delta,
  header,
  text,
  toolCall,
  toolResult,
  userMessage,
} from './log-parts.ts';
import { a, setup } from './watched-store.ts';

type Draft = { [T in keyof SessionEventMap]: [T, SessionEventMap[T]] }[keyof SessionEventMap];

const words = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((u) => String.fromCharCode(u)),
});
const at = fc.record({
  turn: fc.integer({ min: 1, max: 3 }),
  step: fc.integer({ min: 1, max: 2 }),
});
const meta = fc.jsonValue({ noUnicodeString: false } as never) as fc.Arbitrary<Json>;

/** Whatever can stand in a log, most of it where it cannot: that is left out. */
const draft: fc.Arbitrary<Draft> = fc.oneof(
  at.map(({ turn }): Draft => ['turn/start', { turn }]),
  at.map((here): Draft => ['step/start', here]),
  at.map((here): Draft => ['step/end', here]),
  at.map(({ turn }): Draft => ['turn/end', { turn, reason: { kind: 'completed' } }]),
  words.map((said): Draft => ['user/message', userMessage(said)]),
  fc.tuple(at, words).map(([here, said]): Draft => ['assistant/chunk', delta(said, here)]),
  fc
    .tuple(at, words)
    .map(([here, said]): Draft => [
      'assistant/message',
      { ...here, message: assistantMessage(text(said), asks('c')) },
    ]),
  at.map((here): Draft => ['tool/call', toolCall('c', here)]),
  fc
    .tuple(at, meta)
    .map(([here, value]): Draft => ['tool/result', { ...toolResult('c', here), meta: value }]),
  words.map((said): Draft => [
    'agent/inbox/spliced',
    { target: 'next-turn', start: 0, inserted: [userMessage(said)] },
  ]),
);

/** The log that the fitting ones of these make. */
function logOf(drafts: readonly Draft[]): readonly SessionEvent[] {
  const session = aSession();
  for (const [type, data] of drafts) {
    try {
      session.append(type, data as never);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
    }
  }
  return session.events;
}

it('gives back every log exactly, wherever it was cut off', async () => {
  let longest = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(draft, { maxLength: 120, size: 'max' }), async (drafts) => {
      const events = logOf(drafts);
      longest = Math.max(longest, events.length);
      const [here, there] = [setup(), setup()];
      await here.store.append([{ id: a, epoch: FIRST_EPOCH, header: header('a'), events }]);
      await there.sessions.importLines(here.sessions.exportLines([a]));
      expect(await there.store.inspect(a)).toEqual(await here.store.inspect(a));
    }),
    { numRuns: 200 },
  );
  expect(longest).toBeGreaterThan(20);
});
