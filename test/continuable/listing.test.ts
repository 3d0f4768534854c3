/** Listings of a whole harness: what they say while children work, settle and are let go of. */
import { expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { gate } from '../../src/base/gate.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { SubagentListEntry } from '../../src/subagents/listing.ts';
import { continuing, holding } from './continuing.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled } from '../support/until.ts';
import { rejection, text } from '../subagents/stubs.ts';

const labels = (rows: readonly SubagentListEntry[]): string[] =>
  rows.map((row) =>
    row.kind === 'child'
      ? `${row.label ?? '-'} ${row.mode} ${row.activity}`
      : `${row.id} ${row.reason}`,
  );

it('tells settled children of both modes, and reads no log for that', async () => {
  const store = new MemoryStore();
  await using t = await continuing({ store });
  const run = await t.subagents.start('spawn', {
    parent: t.root,
    prompt: [text('Once.')],
    label: 'errand',
    signal: new AbortController().signal,
  });
  await run.result;
  await run.dispose();
  const { childId } = await t.start({ label: 'worker' });
  await t.gone(childId);
  store.inspect = () => Promise.reject(new Error('not to be read'));
  store.inspectPacked = () => Promise.reject(new Error('not to be read'));
  expect(labels(await t.subagents.listChildren(t.root.id)).toSorted()).toEqual([
    'errand one-shot inactive',
    'worker continuable inactive',
  ]);
});

it('never misses a child that is just being let go of', async () => {
  const store = new StallingStore();
  await using t = await continuing({ store });
  const run = await t.subagents.start('spawn', {
    parent: t.root,
    prompt: [text('Once.')],
    label: 'errand',
    signal: new AbortController().signal,
  });
  await run.result;
  const { session } = run.localAgent!;
  await t.sessions.flush(session);
  const hold = store.stall();
  session.append('session/end-seed', {});
  let isGone = false;
  const disposed = run.dispose().then(() => (isGone = true));
  await settled();
  expect(labels(await t.subagents.listChildren(t.root.id))).toEqual(['errand one-shot running']);
  expect(isGone).toBe(false);
  hold.open();
  await disposed;
  expect(labels(await t.subagents.listChildren(t.root.id))).toEqual(['errand one-shot inactive']);
});

it('lists nothing of a start that was refused', async () => {
  await using t = await continuing();
  const failing = { provider: 'nobody', label: 'refused' };
  expect(await rejection(t.start(failing))).toMatchObject({ code: 'NO_PROVIDER' });
  t.subagents.registerContinuableSetup(() => {
    throw new Error('not with me');
  });
  expect(await rejection(t.start({ label: 'refused' }))).toBeInstanceOf(Error);
  expect(await t.subagents.listDescendants(t.root.id)).toEqual([]);
});

it('says with the live agents who runs, who is idle, and who is ready to be brought back', async () => {
  const [manager, worker] = [gate(), gate()];
  await using t = await continuing({
    script: holding({ 'Manage.': manager, 'Toil.': worker }),
  });
  const status = async (): Promise<string[]> =>
    (await t.subagents.listDescendants(t.root.id)).map(
      ({ id, depth }) => `${depth} ${id} ${t.agents.get(id)?.status ?? 'ready'}`,
    );
  const started = (childId: string, words: string, parent = t.root) =>
    t.start({ childId: SessionId(childId), request: { parent, prompt: [text(words)] } });
  await started('boss', 'Manage.');
  await manager.arrived();
  await started('hand', 'Toil.', t.agents.get(SessionId('boss'))!);
  await worker.arrived();
  expect(await status()).toEqual(['1 boss running', '2 hand running']);
  manager.open();
  await t.agents.get(SessionId('boss'))!.whenIdle();
  expect(await status()).toEqual(['1 boss idle', '2 hand running']);
  worker.open();
  await t.gone(SessionId('boss'));
  expect(await status()).toEqual(['1 boss ready', '2 hand ready']);
});
