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

it('is no failure of a child that is ended while it waits for a thread', async () => {
  const held = gate();
  let onSecond = (): void => {};
  await using rt = await testHarness({
    script: [{ hold: held }],
    threads: {
      failStart(index) {
        if (index === 2) onSecond();
        return undefined;
      },
    },
  });
  const { root, harness } = rt;
  const { subagents } = harness;
  const signal = new AbortController().signal;
  const { childId: id } = await subagents.startContinuable({
    provider: 'spawn',
    label: 'worker',
    signal,
    request: { parent: root, prompt: 'one' },
  });
  await held.arrived();
  const child = harness.agents.get(id)!;
  await subagents.followup(root, id, 'two', { source: { kind: 'user' }, signal });
  subagents.interrupt(id, { kind: 'user', parentSessionId: root.id });
  await child.whenIdle();
  rt.threads.of(id).crash();
  await settled();
  const ends: object[] = [];
  harness.on(
    'subagent/end',
    ({ stopReason, diagnostic }) => void ends.push({ stopReason, diagnostic }),
  );
  const disposed = gate();
  // In a later microtask: its thread is on its way, and not there.
  onSecond = () => queueMicrotask(() => void harness.dispose().then(() => disposed.open()));
  const told = subagents.followup(root, id, 'three', { source: { kind: 'user' }, signal });
  await disposed.wait();
  await told;
  expect(ends).toEqual([{ stopReason: 'aborted', diagnostic: undefined }]);
});
