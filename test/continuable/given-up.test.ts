import { expect, it } from 'vitest';
import { rejection } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { SilentStore } from '../support/silent-store.ts';

it('tells whoever waits for a store that it did not answer, when that is given up', async () => {
  const store = new SilentStore();
  const clock = new ManualClock();
  const t = await testHarness({ store, clock });
  const silent = store.silence('append');
  const told = rejection(
    t.harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'child',
      request: { parent: t.root, prompt: 'Work.' },
      signal: new AbortController().signal,
    }),
  );
  await silent.arrived();
  const ended = rejection(t.harness.dispose());
  await clock.advance(10_000);
  const unanswered = {
    code: 'STORE_IO',
    message: expect.stringContaining('did not answer') as string,
  };
  expect(await told).toMatchObject(unanswered);
  expect(await ended).toBeDefined();
  silent.open();
});

it('answers a start when its store does, whatever its signal says after the acceptance', async () => {
  const store = new SilentStore();
  await using t = await testHarness({ store, script: ['Done.'] });
  const silent = store.silence('append');
  const controller = new AbortController();
  const started = t.harness.subagents.startContinuable({
    provider: 'spawn',
    label: 'child',
    request: { parent: t.root, prompt: 'Work.' },
    signal: controller.signal,
  });
  await silent.arrived();
  controller.abort('enough');
  silent.open();
  const { childId } = await started;
  expect(await t.harness.sessions.isStored(childId)).toBe(true);
});
