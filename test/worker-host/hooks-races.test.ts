/** A stop at every moment around the answer of a hook, or the end of a wait. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { HarnessHooks } from '../../src/agent/hooks.ts';
import type { Timer } from '../../src/base/clock.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled, until } from '../support/until.ts';
import { USER, afterMicrotasks, ends, has } from './agent-words.ts';

const failure = { code: 'SERVER', message: 'Busy.' };
const MOMENTS = Array.from({ length: 12 }, (_, count) => count);

/** Cancel, and give back a look at what was logged from then on. */
function cancelling(rt: TestHarness): { cancel(): void; after(): string[] } {
  let seq = Infinity;
  return {
    cancel() {
      seq = rt.root.session.seq;
      rt.root.cancel(USER);
    },
    after: () => rt.root.session.eventsFrom(seq).map(({ type }) => type),
  };
}

const hooks: readonly [keyof HarnessHooks, (context: never) => unknown][] = [
  [
    'agent/pre-step',
    ({ messages }: { messages: readonly object[] }) => ({ kind: 'enter', messages }),
  ],
  ['agent/pre-step', () => ({ kind: 'reject' })],
  ['agent/pre-step', () => Promise.reject(new Error('No.'))],
  ['agent/request', ({ config }: { config: object }) => config],
  ['agent/request', () => Promise.reject(new Error('No.'))],
  ['agent/request-error', () => ({ kind: 'retry', delayMs: 0 })],
  ['agent/request-error', () => ({ kind: 'fail' })],
  ['agent/turn-stopping', () => undefined],
];

describe.each(hooks)('a stop around the answer of %s (%#)', (type, decide) => {
  it.each(MOMENTS)(
    'begins nothing after it, and is how the turn ends unless that was decided: %i microtasks on',
    async (count) => {
      await using rt = await testHarness({
        script: [type === 'agent/request-error' ? { failure } : 'Done.', 'Never.'],
      });
      const stop = cancelling(rt);
      const hook = (context: never): unknown => {
        afterMicrotasks(count, () => stop.cancel());
        return decide(context);
      };
      rt.harness.hooks.on(type, hook as never);
      await rt.ask('go');
      await settled();
      const begun = ['turn/start', 'step/start', 'user/message', 'request/header', 'llm/retry'];
      expect(stop.after().filter((one) => [...begun, 'llm/retry-started'].includes(one))).toEqual(
        [],
      );
      // It came when the answer was on its way: what was decided then stands.
      const decided = ['blocked', 'error UNKNOWN', 'error SERVER', 'completed'];
      const [end, ...more] = ends(rt.root.session);
      expect(more).toEqual([]);
      expect(end === 'aborted user' || (count > 3 && decided.includes(end ?? ''))).toBe(true);
    },
  );
});

/** Whoever waits for a retry is told that it is due, and something else happens right then. */
class RetryClock extends ManualClock {
  onDue: (() => void) | undefined;
  override after(ms: number, run: () => void): Timer {
    return super.after(ms, () => {
      run();
      if (ms === 500) this.onDue?.();
    });
  }
}

describe('a stop around the end of the wait for a retry', () => {
  it.each(MOMENTS)('begins nothing after it: %i microtasks on', async (count) => {
    const clock = new RetryClock();
    await using rt = await testHarness({ clock, script: [{ failure }, 'Never.'] });
    const stop = cancelling(rt);
    clock.onDue = () => afterMicrotasks(count, () => stop.cancel());
    rt.root.followup(message('go'));
    await until(() => has(rt.root.session, 'llm/retry'));
    await clock.advance(500);
    await rt.root.whenIdle();
    expect(stop.after()).toEqual(['step/end', 'turn/end']);
    expect(ends(rt.root.session)).toEqual(['aborted user']);
    expect(rt.model.requests).toHaveLength(1);
  });
});
