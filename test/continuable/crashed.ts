/** What the store holds of a parent and of its children when their process is gone. */
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { family, text } from './children.ts';

/** What a store holds after a crash: what another one held at that moment. */
class Crashed extends MemoryStore {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

export interface Row {
  readonly header: SessionHeader;
  readonly events: readonly SessionEvent[];
}

export async function storeOf(rows: readonly Row[]): Promise<Crashed> {
  const store = new Crashed();
  for (const { header, events } of rows) {
    await store.append([{ id: header.id, epoch: 1, header, events }]);
  }
  return store;
}

/** One message more that it accepted, and nobody told it. */
export const withMore = (row: Row): Row => {
  const { length: seq } = row.events;
  const data = { target: 'next-turn', start: 0, inserted: [createUserMessage('More.')] };
  const more = { seq, time: 0, type: 'agent/inbox/spliced', data };
  return { ...row, events: [...row.events, more as unknown as SessionEvent] };
};
export const inTurn = (row: Row): Row => ({
  ...row,
  events: before(row.events, ({ type }) => type === 'turn/end'),
});

export const isNotice = ({ type, data }: SessionEvent): boolean =>
  type === 'agent/inbox/spliced' &&
  data.inserted.some(({ source }) => source.kind === 'subagent-settled');
export const before = (events: readonly SessionEvent[], isIt: (event: SessionEvent) => boolean) => {
  const at = events.findIndex(isIt);
  return at === -1 ? events : events.slice(0, at);
};

/** A parent and a child that answered, and what both logs held at the end. */
export async function finished(report?: 'quiet' | 'wakeup') {
  const held = gate();
  await using all = await family({ child: [{ hold: held, text: 'The answer.' }] });
  const { root, harness } = all.rt;
  root.inject(createUserMessage('Something to remember.'));
  const child = await all.start({ label: 'solver' });
  await held.arrived();
  const delivery = report ?? 'quiet';
  if (report !== undefined) await harness.subagents.reportFrom(child, text('Found.'), { delivery });
  held.open();
  await all.gone(child);
  await root.whenIdle();
  return {
    parent: { header: root.session.header, events: root.session.events },
    child: { header: child.session.header, events: child.session.events },
  };
}
