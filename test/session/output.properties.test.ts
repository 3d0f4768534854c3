import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ContentBlock } from '../../protocol/content.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { finalOutput, OutputFold } from '../../src/session/output.ts';
import { asks, assistantMessage, delta, text, toolCall, toolResult } from './log-parts.ts';

const at = { turn: 1, step: 1 };
const event = (type: SessionEvent['type'], data: unknown): SessionEvent =>
  ({ type, seq: 0, time: 0, data }) as SessionEvent;
const said = (...content: ContentBlock[]) =>
  event('assistant/message', { ...at, message: assistantMessage(...content) });

/** Whatever can stand in a log and could be mistaken for something that was said. */
const anyEvent: fc.Arbitrary<SessionEvent> = fc.oneof(
  { weight: 6, arbitrary: fc.string().map((words) => event('assistant/chunk', delta(words))) },
  {
    weight: 2,
    arbitrary: fc.string().map((words) => {
      const chunk = { type: 'reasoning-delta', index: 0, text: words };
      return event('assistant/chunk', { ...at, chunk });
    }),
  },
  { weight: 2, arbitrary: fc.constant(event('step/start', at)) },
  { weight: 2, arbitrary: fc.constant(event('llm/retry-started', { ...at, attempt: 2 })) },
  { weight: 1, arbitrary: fc.constant(said()) },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.oneof(fc.string().map(text), fc.constant(asks('c'))), { minLength: 1 })
      .map((content) => said(...content)),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      event('step/end', at),
      event('llm/retry', { ...at, attempt: 1, delayMs: 1 }),
      event('tool/call', toolCall('c')),
      event('tool/result', toolResult('c')),
      event('turn/end', { turn: 1, reason: { kind: 'completed' } }),
      event('turn/start', { turn: 2 }),
    ),
  },
);

const textOf = ({ type, data }: SessionEvent): string =>
  type === 'assistant/chunk' && data.chunk.type === 'text-delta' ? data.chunk.text : '';
const contentOf = ({ type, data }: SessionEvent): readonly ContentBlock[] =>
  type === 'assistant/message' ? data.message.content : [];

/** The rules, one after another, over the whole list. */
function expected(events: readonly SessionEvent[]): readonly ContentBlock[] | undefined {
  const last = events.map(contentOf).findLast((content) => content.length > 0);
  if (last !== undefined) return last;
  const steps: SessionEvent[][] = [[]];
  for (const one of events) {
    if (one.type === 'step/start') steps.push([]);
    steps.at(-1)!.push(one);
  }
  const words = steps.flatMap((step) => {
    const answer = step.findLastIndex(({ type }) => type === 'llm/retry-started');
    return step.slice(answer + 1).map(textOf);
  });
  const whole = words.join('');
  return whole === '' ? undefined : [text(whole)];
}

it('says what the rules say, whatever was logged', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
      expect(finalOutput(events)).toEqual(expected(events));
    }),
    { numRuns: 1_000 },
  );
});

it('says at every moment what was said until then, and changes nothing by being asked', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 25 }), (events) => {
      const fold = new OutputFold();
      for (const [index, one] of events.entries()) {
        fold.push(one);
        expect(fold.collect()).toEqual(expected(events.slice(0, index + 1)));
      }
    }),
    { numRuns: 200 },
  );
});
