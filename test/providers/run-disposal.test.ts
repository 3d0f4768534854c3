/** The end of a run, on a whole harness: what is left when its disposal resolves is nothing. */
import { expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import type { SubagentRun } from '../../src/subagents/provider.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled } from '../support/until.ts';
import { spawning } from '../subagents/spawning.ts';
import { text } from '../subagents/stubs.ts';

type Spawning = Awaited<ReturnType<typeof spawning>>;

/** Asserts that nothing of the run is there, and that its whole log is in the store. */
async function isQuiet(t: Spawning, run: SubagentRun): Promise<void> {
  const { session } = run.localAgent!;
  expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  expect(t.harness.agents.get(run.id)).toBeUndefined();
  expect(t.harness.sessions.get(run.id)).toBeUndefined();
  const thread = t.threads.of(run.id);
  expect(thread.ports!.isClosed).toBe(true);
  expect(await thread.ended).toEqual({ error: undefined });
  expect(session.open).toBeUndefined();
  const { events } = session;
  expect((await t.harness.sessionPersistence.inspect(run.id)).events).toEqual(events);
  await settled();
  expect(session.events).toBe(events);
}

/** A child whose model says half of its answer, and holds the rest open. */
async function halfway(options: Parameters<typeof spawning>[0] = {}) {
  const asked = gate();
  const words = ['Half', { wait: async () => asked.open() }, gate(), 'never'];
  const t = await spawning({ ...options, script: [{ text: words }] });
  const run = await t.start();
  await asked.wait();
  return { t, run };
}

it('is quiet after a disposal that comes before it was asked anything', async () => {
  await using t = await spawning();
  const run = await t.start();
  await Promise.all([run.dispose(), run.dispose(), run.dispose()]);
  expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  expect(t.model.requests).toEqual([]);
  await isQuiet(t, run);
});

it('is quiet after a disposal that comes while it works, whoever else ends it', async () => {
  const { t, run } = await halfway();
  await using _ = t;
  const thread = t.threads.of(run.id);
  const order: string[] = [];
  void run.result.then(() => order.push('result'));
  const ends = [run.dispose(), run.dispose()].map((end) => end.then(() => order.push('end')));
  expect(thread.ports!.isClosed).toBe(false);
  await Promise.all(ends);
  expect(order).toEqual(['result', 'end', 'end']);
  expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
  await isQuiet(t, run);
});

it('is quiet after a disposal that comes with its result, and after one more', async () => {
  await using t = await spawning({ script: ['Done.'] });
  const run = await t.start();
  const ends: Promise<void>[] = [];
  void run.result.then(() => ends.push(run.dispose(), run.dispose()));
  expect(await run.result).toEqual({ output: [text('Done.')], stopReason: 'completed' });
  await Promise.all(ends);
  await isQuiet(t, run);
  await run.dispose();
  expect((await run.result).stopReason).toBe('completed');
});

it('is quiet after a disposal from the telling of its own start and end', async () => {
  await using t = await spawning({ script: ['Done.'] });
  const ends: Promise<void>[] = [];
  const started: SubagentRun[] = [];
  t.harness.on('subagent/end', () => void ends.push(started[0]!.dispose()));
  started.push(await t.start());
  expect((await started[0]!.result).stopReason).toBe('completed');
  expect(ends).toHaveLength(1);
  await Promise.all(ends);
  await isQuiet(t, started[0]!);
});

it('is quiet when its parent, its holder and its signal end it at once', async () => {
  const asked = gate();
  const words = ['Half', { wait: async () => asked.open() }, gate(), 'never'];
  await using t = await spawning({ script: [{ text: words }] });
  const parent = await t.harness.agents.create();
  const controller = new AbortController();
  const run = await t.start({ parent: parent.agent, signal: controller.signal });
  await asked.wait();
  controller.abort();
  await Promise.all([parent.dispose(), run.dispose()]);
  expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
  await isQuiet(t, run);
});

it('is disposed when its log is written, not before', async () => {
  const store = new StallingStore();
  const { t, run } = await halfway({ store });
  await using _ = t;
  const writes = store.stall();
  let isOver = false;
  const end = run.dispose().then(() => (isOver = true));
  await run.result;
  await settled();
  expect(isOver).toBe(false);
  writes.open();
  await end;
  await isQuiet(t, run);
});

it('is aborted when its parent ends between its publication and the telling of its task', async () => {
  await using t = await spawning();
  const parent = await t.harness.agents.create();
  const off = t.harness.on('agent/created', () => {
    // After the last look of the start, which is over in this tick.
    queueMicrotask(() => void parent.dispose());
  });
  const run = await t.start({ parent: parent.agent });
  off();
  expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  await Promise.all([run.dispose(), parent.dispose()]);
  expect(t.model.requests).toEqual([]);
  expect(t.live()).toEqual({ agents: 1, sessions: 1 });
});

it('is aborted, and keeps its task, when the harness ends before it was asked anything', async () => {
  const store = new StallingStore();
  const t = await spawning({ store });
  const run = await t.start();
  await t[Symbol.asyncDispose]();
  expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  await run.dispose();
  expect(run.localAgent!.inbox.nextTurn).toMatchObject([{ content: [text('Work.')] }]);
  const { events } = await store.inspect(run.id);
  expect(events).toEqual(run.localAgent!.session.events);
});
