/** What agents are told of a real store that fails, and what of theirs is kept. */
import { describe, expect, it, vi } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { continuing, holding, told } from '../continuable/continuing.ts';
import { rejection } from '../subagents/stubs.ts';
import type { Fault } from '../support/faulty-sqlite.ts';
import { failing, noMemory, readOnly } from '../support/faulty-sqlite.ts';
import { tempStore } from '../support/temp-store.ts';
import { until } from '../support/until.ts';

vi.mock('@photostructure/sqlite', () => import('../support/faulty-sqlite.ts'));

describe.each<[string, Fault, string]>([
  ['may not be written', readOnly, 'STORE_READ_ONLY'],
  ['has no memory', noMemory, 'STORE_IO'],
])('a store that %s', (_, fault, code) => {
  it('accepts no message: the call rejects, the message is withdrawn, the child goes on', async () => {
    await using file = tempStore();
    const hold = gate();
    await using t = await continuing({ store: file.open(), script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await hold.arrived();
    await t.sessions.flush(child.session);
    const watch = failing(fault, 0, true);
    expect(await rejection(t.tell(childId, 'Never.'))).toMatchObject({ name: 'StoreError', code });
    expect(child.inbox.hasPending).toBe(false);
    watch.end();
    await t.tell(childId, 'More.');
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.', 'More.']);
    const { events } = await file.store.inspect(childId);
    expect(events).toEqual(child.session.events);
  });

  it('begins no child: the start rejects, and nothing of it is stored', async () => {
    await using file = tempStore();
    await using t = await continuing({ store: file.open(), script: holding({}) });
    const before = await file.store.list();
    const watch = failing(fault, 0, true);
    expect(await rejection(t.start())).toMatchObject({ name: 'StoreError', code });
    watch.end();
    expect(await file.store.list()).toEqual(before);
    const { childId } = await t.start();
    await t.gone(childId);
    expect((await file.store.listBelow([t.root.id], 1)).map(({ id }) => id)).toEqual([childId]);
  });
});

it('a child whose session another host took ends, and its parent is told nothing', async () => {
  await using file = tempStore();
  const here = { host: 'here', pid: 1, startedAt: null, handle: 'h' };
  const store = openSqliteStore({ path: file.path, owner: here });
  const hold = gate();
  await using t = await continuing({ store, script: holding({ 'Work.': hold }) });
  const { childId } = await t.start();
  const child = t.agents.get(childId)!;
  await hold.arrived();
  await t.sessions.flush(child.session);
  // Its clock is past the lease of `here`.
  const later = { now: () => Date.now() + 60_000, after: () => ({ cancel() {} }) };
  const other = file.open({ clock: later, owner: { ...here, host: 'elsewhere' } });
  await other.acquire(childId);
  const { events } = await other.inspect(childId);
  expect(await rejection(t.tell(childId, 'More.'))).toMatchObject({ name: expect.any(String) as string });
  await until(() => t.agents.get(childId) === undefined);
  expect(t.root.inbox.hasPending).toBe(false);
  hold.open();
  expect((await other.inspect(childId)).events).toEqual(events);
}); // prettier-ignore
