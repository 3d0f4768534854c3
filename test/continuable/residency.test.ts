/** How long a child stays resident, and how its residency ends by itself. */
import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { gate } from '../support/gate.ts';
import { settled, until } from '../support/until.ts';
import { ends, USER, waiting } from '../worker-host/agent-words.ts';
import { chain, family, prompt, signal } from './family.ts';
import type { Family } from './family.ts';

/** Every residency of it has ended, and that was told. */
const isGone = ({ told }: Family, { id }: Pick<Agent, 'id'>): boolean => {
  const count = (what: string): number => told.filter((text) => text.startsWith(what)).length;
  return count(`start ${id}`) > 0 && count(`start ${id}`) === count(`end ${id} `);
};
const notices = ({ session }: Agent): string[] =>
  session
    .deriveMessages()
    .filter(({ source }) => source.kind === 'subagent-settled')
    .map(({ content }) => textOf(content));

describe('a parent that is a child itself', () => {
  it('stays, idle, while a child of its own does, and goes after that', async () => {
    await using of = await family();
    const c = await of.start('c');
    const g = await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    await settled();
    expect(of.isResident(c, g)).toBe(true);
    of.held.open();
    await until(() => isGone(of, c));
    expect(of.told).toEqual([
      'start c',
      'start g',
      'gone g',
      'end g completed',
      'gone c',
      'end c completed',
    ]);
    // It goes on as the same agent, with what it was told of its child.
    expect(ends(c.session)).toEqual(['completed', 'completed']);
    expect(notices(c)).toHaveLength(1);
  });

  it('has the notice before it is let go of, and its inbox loses nothing', async () => {
    await using of = await family();
    const c = await of.start('c');
    await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    const seen: string[] = [];
    of.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent === c) seen.push(`inserted, g ${of.rt.harness.agents.get('g' as never)?.id}`);
    });
    of.rt.harness.on('agent/inbox/discarded', () => seen.push('discarded'));
    of.rt.harness.on('agent/inbox/claimed', ({ agent }) => agent === c && seen.push('claimed'));
    of.held.open();
    await until(() => isGone(of, c));
    expect(seen).toEqual(['inserted, g undefined', 'claimed']);
  });

  it('is busy from the line in which it is told more', async () => {
    await using of = await family();
    const c = await of.start('c');
    const g = await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    const statuses: string[] = [];
    of.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent !== c) return;
      queueMicrotask(() => statuses.push(c.status));
      // Its last child goes in the very tick.
      void of.rt.harness.subagents.drainContinuableChildren(c, [g.id]);
    });
    await of.tell(of.rt.root, c.id, 'More.');
    await until(() => isGone(of, c));
    expect(statuses[0]).toBe('running');
    expect(ends(c.session).length).toBeGreaterThanOrEqual(2);
    expect(JSON.stringify(c.session.deriveMessages())).toContain('Did More.');
  });

  it('is let go of although its child could not be released cleanly', async () => {
    await using of = await family();
    of.rt.harness.subagents.registerContinuableSetup(({ agent }) =>
      agent.id === 'g'
        ? () => {
            throw new Error('undo');
          }
        : () => {},
    );
    const c = await of.start('c');
    await of.start('g', c);
    await until(() => isGone(of, c));
    expect(of.told).toContain('end g error');
    expect(of.told.at(-1)).toBe('end c completed');
    const [notice] = notices(c);
    expect(notice).toContain('failed');
    expect(notice).not.toContain('Did Work.');
    expect(of.rt.warnings.map(({ message }) => message)).toContain(
      'A subagent was not released cleanly.',
    );
  });

  it('keeps the child at work when its own thread dies, and is told of its end', async () => {
    await using of = await family();
    const [c, g] = (await chain(of, 2)) as [Agent, Agent];
    await of.held.arrived(2);
    of.rt.threads.of(c.id).crash();
    await c.whenIdle();
    await settled();
    expect(of.isResident(c, g)).toBe(true);
    expect(g.status).toBe('running');
    of.held.open();
    await until(() => isGone(of, c));
    expect(ends(g.session)).toEqual(['completed']);
    expect(ends(c.session)).toEqual(['error WORKER_CRASHED', 'completed']);
    expect(notices(c)).toHaveLength(1);
  });

  it('keeps its children when its thread dies while it is idle', async () => {
    await using of = await family();
    const c = await of.start('c');
    await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    of.rt.threads.of(c.id).crash();
    await settled();
    expect(of.isResident(c)).toBe(true);
    of.held.open();
    await until(() => isGone(of, c));
    expect(ends(c.session)).toEqual(['completed', 'completed']);
  });
});

describe('a child', () => {
  it('that was interrupted keeps what waits when its idle thread dies, and goes on with it', async () => {
    await using of = await family();
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    await of.tell(of.rt.root, c.id, 'Second.');
    of.rt.harness.subagents.interrupt(c.id, { kind: 'user', parentSessionId: of.rt.root.id });
    await c.whenIdle();
    of.rt.threads.of(c.id).crash();
    await settled();
    of.rt.harness.subagents.interrupt(c.id, { kind: 'user', parentSessionId: of.rt.root.id });
    await settled();
    expect(of.isResident(c)).toBe(true);
    await of.tell(of.rt.root, c.id, 'Third.');
    await until(() => isGone(of, c));
    expect(ends(c.session)).toEqual(['aborted user', 'completed', 'completed']);
  });

  it('leaves a parent that is a root as it is', async () => {
    await using of = await family();
    const c = await of.start('c');
    await until(() => isGone(of, c));
    await of.rt.root.whenIdle();
    await settled();
    expect(of.isResident(of.rt.root)).toBe(true);
    expect(ends(of.rt.root.session)).toEqual(['completed']);
  });

  it('is registered whenever it is told something', async () => {
    await using of = await family();
    const { agents } = of.rt.harness;
    const registered: boolean[] = [];
    of.rt.harness.on('agent/inbox/inserted', ({ agent }) =>
      registered.push(agents.get(agent.id) === agent),
    );
    const c = await of.start('c');
    await until(() => isGone(of, c));
    await of.tell(of.rt.root, c.id, 'More.');
    expect(registered.length).toBeGreaterThanOrEqual(3);
    expect(registered).not.toContain(false);
  });

  it('settles when what it was told is cancelled from the announcement of that', async () => {
    await using of = await family();
    const off = of.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      off();
      agent.cancel(USER);
    });
    const c = await of.rt.harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'c',
      signal: signal(),
      request: { parent: of.rt.root, prompt: prompt('Work.') },
    });
    await until(() => isGone(of, { id: c.childId }));
    expect(of.told.at(-1)).toBe(`end ${c.childId} aborted`);
    expect(of.rt.warnings).toEqual([]);
  });

  it('settles when the acceptance of one message discards those before it', async () => {
    await using of = await family();
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    await of.tell(of.rt.root, c.id, 'Second.');
    await of.tell(of.rt.root, c.id, 'Third.');
    const off = of.rt.harness.on('agent/inbox/inserted', ({ agent, message }) => {
      if (agent !== c || textOf(message.content) !== 'Fourth.') return;
      off();
      agent.cancel(USER);
    });
    await of.tell(of.rt.root, c.id, 'Fourth.');
    await until(() => isGone(of, c));
    expect(waiting(c)).toEqual([[], []]);
    expect(of.told.at(-1)).toBe('end c aborted');
  });

  it('settles as it worked, with a warning, when its final flush fails', async () => {
    class Failing extends MemoryStore {
      isDue = false;
      override async append(...given: Parameters<MemoryStore['append']>): Promise<void> {
        if (this.isDue) {
          throw new StoreError('STORE_IO', 'The disk is busy.');
        }
        await super.append(...given);
      }
    }
    const store = new Failing();
    await using of = await family({ store });
    of.rt.harness.on('session/event', ({ event, session }) => {
      if (event.type === 'turn/end' && session.id === 'c') store.isDue = true;
    });
    of.rt.harness.on('agent/disposed', () => void (store.isDue = false));
    const d = await of.start('d', of.rt.root, { text: 'Hold.' });
    const c = await of.start('c');
    await until(() => isGone(of, c));
    of.held.open();
    await until(() => isGone(of, d));
    const ended = of.told.filter((text) => text.startsWith('end'));
    expect(ended).toEqual(['end c completed', 'end d completed']);
    expect(of.rt.warnings.map(({ message }) => message)).toContain(
      'The best-effort final session flush failed.',
    );
    const { events } = await of.rt.harness.sessions.inspect(c.id);
    expect(events).toEqual(c.session.events);
  });

  it('that cannot be released cleanly by itself is a warning, and an error for its parent', async () => {
    await using of = await family();
    const off = of.rt.harness.subagents.registerContinuableSetup(() => () => {
      throw new Error('undo');
    });
    const c = await of.start('c');
    await until(() => isGone(of, c));
    await until(() => of.rt.warnings.length > 0);
    expect(of.told.at(-1)).toBe('end c error');
    expect(of.rt.warnings.map(({ message }) => message)).toEqual([
      'A subagent was not released cleanly.',
    ]);
    off();
  });

  it('that was told something and opened no turn has no answer of an earlier residency', async () => {
    await using of = await family();
    const infos: unknown[] = [];
    of.rt.harness.on('subagent/end', (info) => infos.push(info));
    const c = await of.start('c');
    await until(() => isGone(of, c));
    await of.rt.root.whenIdle();
    of.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent.id === c.id) agent.cancel(USER);
    });
    await of.tell(of.rt.root, c.id, 'More.');
    await until(() => infos.length === 2);
    expect(infos[1]).toMatchObject({ stopReason: 'aborted' });
    expect(infos[1]).not.toHaveProperty('lastAssistantMessage');
  });

  it('tells of each residency by itself', async () => {
    await using of = await family();
    const starts: string[] = [];
    const infos: { runId: string; text: string }[] = [];
    of.rt.harness.on('subagent/start', ({ runId }) => starts.push(runId));
    of.rt.harness.on('subagent/end', ({ runId, lastAssistantMessage = [] }) =>
      infos.push({ runId, text: textOf(lastAssistantMessage) }),
    );
    const c = await of.start('c', of.rt.root, { text: 'First.' });
    await until(() => isGone(of, c));
    await of.tell(of.rt.root, c.id, 'Second.');
    await until(() => infos.length === 2);
    expect(infos).toEqual([
      { runId: starts[0], text: 'Did First.' },
      { runId: starts[1], text: 'Did Second.' },
    ]);
    expect(starts[0]).not.toBe(starts[1]);
  });

  it('is told more while it is idle after a cancel of nothing, and that is not cancelled', async () => {
    await using of = await family();
    const c = await of.start('c');
    const g = await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    of.rt.harness.subagents.interrupt(c.id, { kind: 'user', parentSessionId: of.rt.root.id });
    c.cancel({ kind: 'user' });
    await of.tell(of.rt.root, c.id, 'More.');
    await c.whenIdle();
    expect(ends(c.session)).toEqual(['completed', 'completed']);
    expect(of.isResident(c, g)).toBe(true);
  });

  it('ends a start of its own that is still under way, which is told that it is being released', async () => {
    const held = gate();
    let isHeld = false;
    await using of = await family({
      tools: [{ module: new URL('file:///held.mjs') }],
      threads: {
        async import() {
          if (isHeld) await held.wait();
          return { default: [] };
        },
      },
    });
    const c = await of.start('c', of.rt.root, { text: 'Hold.' });
    await of.held.arrived();
    isHeld = true;
    const starting = of.start('g', c);
    starting.catch(() => {});
    await settled();
    of.held.open();
    await expect(starting).rejects.toMatchObject({ code: 'ACTIVATION_CLOSING' });
    await until(() => isGone(of, c));
    expect(of.told).toEqual(['start c', 'gone c', 'end c completed']);
    held.open();
  });
});

describe('a child whose session another process took over', () => {
  it('is let go of without a word to its parent, with all it owns, and can be told nothing here', async () => {
    const store = new MemoryStore();
    await using of = await family({ store });
    const [p, c, g] = (await chain(of, 3)) as [Agent, Agent, Agent];
    await of.held.arrived(3);
    // Somebody else writes with a later epoch.
    const append = store.append.bind(store);
    const acquire = store.acquire.bind(store);
    store.append = async (batch) => {
      if (batch.some(({ id }) => id === c.id)) {
        throw new StoreError('STALE_EPOCH', 'Another process has it.');
      }
      return append(batch);
    };
    store.acquire = async (id) => {
      if (id === c.id) throw new StoreError('SESSION_OWNED_ELSEWHERE', 'Another process has it.');
      return acquire(id);
    };
    c.inject(createUserMessage('Anything.'));
    await until(() => isGone(of, c));
    expect(isGone(of, g)).toBe(true);
    expect(of.isResident(p)).toBe(true);
    await until(() => of.told.includes('end c2 aborted'));
    expect(of.told.indexOf('gone c3')).toBeLessThan(of.told.indexOf('gone c2'));
    expect(notices(p)).toEqual([]);
    expect(waiting(p)).toEqual([[], []]);
    await expect(of.tell(p, c.id, 'More.')).rejects.toMatchObject({
      code: 'NOT_RESUMABLE',
      cause: { code: 'SESSION_OWNED_ELSEWHERE' },
    });
    // Nothing holds the parent any more.
    of.held.open();
    await until(() => isGone(of, p));
    store.append = append;
  });
});
