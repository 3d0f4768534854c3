import { expect, it } from 'vitest';
import { WorkerError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { settled } from '../support/until.ts';
import { USER, waiting } from './agent-words.ts';

it('keeps what an interrupt parked, though the thread it waited for does not come', async () => {
  const made = gate();
  let onSecond = (): void => {};
  await using rt = await testHarness({
    script: ['A.'],
    threads: {
      failStart(index) {
        if (index !== 1) return undefined;
        onSecond();
        made.open();
        return new WorkerError('WORKER_START_FAILED', 'It does not come.');
      },
    },
  });
  const { root } = rt;
  rt.threads.of(root.id).crash();
  await settled();
  onSecond = () => root.cancel(USER, { keepInbox: true });
  root.followup(message('one'));
  await made.wait();
  await root.whenIdle();
  await settled();
  expect(waiting(root)).toEqual([[], ['one']]);
  expect((root as unknown as { parkedBy: unknown }).parkedBy).toBe('interrupt');
  // The next message brings another thread, and what waited runs first.
  await rt.ask('two');
  expect(rt.model.requests).toHaveLength(2);
});
