import { expect, test } from 'vitest';
import { eventTypes, testHarness } from '../support/harness.ts';

test('runs one turn of a root agent from acceptance to idleness', async () => {
  await using rt = await testHarness({ script: ['Hello.'] });
  await rt.ask('Hi');
  expect(eventTypes(rt.root.session)).toEqual([
    'agent/inbox/spliced',
    'turn/start',
    'agent/inbox/spliced',
    'step/start',
    'user/message',
    'request/header',
    'request/context',
    'assistant/message',
    'step/end',
    'turn/end',
  ]);
  expect(rt.root.status).toBe('idle');
});
