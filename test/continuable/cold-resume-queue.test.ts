import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { gate } from '../../src/base/gate.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled } from '../support/until.ts';
import { ends } from '../worker-host/agent-words.ts';
import { continuing, holding, told, withQueue } from './continuing.ts';

/** What a crash would leave of a store: all that is committed, and nobody who holds it. */
async function crashed(store: MemoryStore): Promise<MemoryStore> {
  const copy = new MemoryStore();
  for (const { id } of await store.list()) {
    const { header, events } = await store.inspect(id);
    await copy.append([{ id, epoch: 1, header, events }]);
  }
  return copy;
}

const typesOf = (events: readonly SessionEvent[], type: string): number =>
  events.filter((event) => event.type === type).length;

describe('a child that failed with messages waiting', () => {
  it('settles with its error, tells how many wait, and runs them first when told more', async () => {
    await using t = await withQueue();
    expect(t.edges).toEqual(['start', 'end error']);
    expect(JSON.stringify(t.root.session.deriveMessages())).toContain('2 messages wait');
    await t.tell(t.childId, 'Last.');
    const child = t.agents.get(t.childId)!;
    await t.gone(t.childId);
    expect(told(child)).toEqual(['Fail.', 'One.', 'Two.', 'Last.']);
    expect(t.edges).toEqual(['start', 'end error', 'start', 'end completed']);
    expect(ends(child.session).slice(1)).toEqual(['completed', 'completed', 'completed']);
  });

  it('is resident while those are parked by an interrupt', async () => {
    const hold = gate();
    await using t = await withQueue({ 'One.': hold });
    await t.tell(t.childId, 'Last.');
    const child = t.agents.get(t.childId)!;
    await hold.arrived();
    t.subagents.interrupt(t.childId, { kind: 'user', parentSessionId: t.root.id });
    await child.whenIdle();
    await settled();
    expect(t.agents.get(t.childId)).toBe(child);
    hold.open();
    await t.tell(t.childId, 'Go on.');
    await t.gone(t.childId);
    expect(told(child)).toEqual(['Fail.', 'One.', 'Two.', 'Last.', 'Go on.']);
  });

  it('is let go again when what it is told more cannot be kept, and its queue waits on', async () => {
    const store = new StallingStore();
    await using t = await withQueue({}, store);
    const failure = new StoreError('STORE_IO', 'The disk is gone.');
    const off = t.harness.on('subagent/start', () => void (store.failure = failure));
    const telling = t.tell(t.childId, 'Lost.').catch((error: unknown) => {
      store.failure = undefined;
      return error;
    });
    expect(await telling).toBe(failure);
    off();
    await t.gone(t.childId);
    expect(t.edges).toEqual(['start', 'end error', 'start', 'end aborted']);
    await t.tell(t.childId, 'Last.');
    const child = t.agents.get(t.childId)!;
    await t.gone(t.childId);
    expect(told(child)).toEqual(['Fail.', 'One.', 'Two.', 'Last.']);
  });
});

describe('a child whose process died', () => {
  it('runs what waited before it is told anything new', async () => {
    const store = new MemoryStore();
    const hold = gate();
    await using t = await continuing({ store, script: holding({ 'Work.': hold }) });
    await t.ask('Hello.');
    const { childId } = await t.start();
    await hold.arrived();
    await t.tell(childId, 'Queued.');
    const left = await crashed(store);
    hold.open();
    await t.gone(childId);

    await using again = await continuing({ store: left });
    const { agent: parent } = await again.agents.resume(t.root.id);
    await again.tell(childId, 'New.', { parent });
    const child = again.agents.get(childId)!;
    await again.gone(childId);
    await parent.whenIdle();
    expect(told(child)).toEqual(['Work.', 'Queued.', 'New.']);
    expect(ends(child.session)[0]).toBe('interrupted');
    expect(typesOf(child.session.events, 'subagent/descriptor')).toBe(1);
  });
});
