/** Messages that meet the end of a turn, of a residency, or of a thread. */
import { describe, expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { Dice } from '../interleavings/plan.ts';
import { StallingStore } from '../support/stalling-store.ts';
import type { Gate } from '../support/gate.ts';
import { settled, until } from '../support/until.ts';
import { afterMicrotasks, ends } from '../worker-host/agent-words.ts';
import { family } from './family.ts';

const toldIds = (events: readonly SessionEvent[]): string[] =>
  events.flatMap((event) =>
    event.type === 'user/message' && event.data.source.kind === 'user' ? [event.data.id] : [],
  );

// One agent's history grows with every turn, so several share the thousand.
it.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])(
  'processes every message that is accepted in the tick in which a loop ends (%i)',
  async (seed) => {
    await using of = await family();
    const dice = new Dice(seed);
    const c = await of.start('c');
    // Keeps it resident, so that nothing but the message itself brings the next turn.
    await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    const ids: string[] = [];
    const send = (): void => {
      const message = createUserMessage('More.');
      ids.push(message.id);
      c.followup(message);
    };
    of.rt.harness.on('session/event', ({ session, event }) => {
      if (session !== c.session || event.type !== 'turn/end' || ids.length === 100) return;
      // As the loop asks for its next turn there, or some macrotasks later.
      const hops = dice.int(4);
      const later = (left: number): unknown =>
        left === 0 ? afterMicrotasks(1 + dice.int(80), send) : setImmediate(() => later(left - 1));
      later(hops);
    });
    send();
    const isStuck = (): boolean => c.status === 'idle' && c.inbox.hasPending;
    await until(() => isStuck() || (ids.length === 100 && c.status === 'idle'));
    expect(toldIds(c.session.events).slice(1)).toEqual(ids);
    expect(ends(c.session)).toHaveLength(101);
  },
);

it('processes every message that meets the decision that a child is settled', async () => {
  await using of = await family();
  const c = await of.start('c');
  const ids: string[] = [];
  const offsets = 160;
  const telling: Promise<void>[] = [];
  const tell = (): void => {
    const offset = telling.length;
    if (offset === offsets) return;
    telling.push(
      new Promise<void>((resolve) => afterMicrotasks(offset, resolve)).then(async () => {
        const { messageId } = await of.tell(of.rt.root, c.id, 'More.');
        ids.push(messageId);
      }),
    );
  };
  // Before it is judged, or after.
  of.rt.harness.on('agent/status', ({ agent, status }) => {
    if (agent.id === c.id && status === 'idle' && telling.length % 2 === 0) tell();
  });
  of.rt.harness.on('session/event', ({ session, event }) => {
    if (session.id === c.id && event.type === 'turn/end' && telling.length % 2 === 1) tell();
  });
  await until(() => telling.length === offsets);
  await Promise.all(telling);
  await until(() => of.rt.harness.agents.get(c.id) === undefined);
  const { events } = await of.rt.harness.sessions.inspect(c.id);
  expect(toldIds(events).slice(1)).toEqual(ids);
  // Some came in time for the residency, others brought the child back.
  const starts = of.told.filter((text) => text === 'start c').length;
  expect(starts).toBeGreaterThan(1);
  expect(starts).toBeLessThan(offsets);
});

it('drops what the thread of an earlier residency says while the next is at work', async () => {
  await using of = await family();
  const c = await of.start('c', of.rt.root, { text: 'Hold.' });
  await of.held.arrived();
  const old = of.rt.threads.of(c.id).ports!;
  const frames: unknown[] = [];
  old.main.on('message', (frame) => frames.push(frame));
  of.held.open();
  await until(() => of.told.includes('end c completed'));
  await of.rt.root.whenIdle();
  const next = await (async (): Promise<Agent> => {
    await of.tell(of.rt.root, c.id, 'More.');
    return of.rt.harness.agents.get(c.id)!;
  })();
  expect(next).not.toBe(c);
  expect(frames.length).toBeGreaterThan(0);
  const problems: unknown[] = [];
  of.rt.harness.on('agent/error', (event) => problems.push(event));
  for (const frame of frames) old.worker.postMessage(frame);
  await until(() => of.told.filter((text) => text === 'end c completed').length === 2);
  expect(problems).toEqual([]);
  const { events } = await of.rt.harness.sessions.inspect(c.id);
  expect(ends({ events } as Agent['session'])).toEqual(['completed', 'completed']);
  expect(c.session.events.at(-1)?.type).toBe('turn/end');
});

it('releases a parent that has no thread and was just told something', async () => {
  await using of = await family({ limits: { maxThreads: 2 } });
  const c = await of.start('c');
  await of.start('g', c, { text: 'Hold.' });
  await of.held.arrived();
  await c.whenIdle();
  of.rt.root.followup(createUserMessage('Hold.'));
  await of.held.arrived(2);
  // Its thread was given to the root, and what it was told is not committed yet.
  c.followup(createUserMessage('More.'));
  await of.rt.harness.subagents.drainContinuableDescendants([of.rt.root]);
  expect(of.told.slice(-4)).toEqual(['gone g', 'end g aborted', 'gone c', 'end c aborted']);
});

it('tells of one residency before the next begins, though the parent answers at once', async () => {
  const store = new StallingStore();
  await using of = await family({ store });
  const c = await of.start('c');
  let answer: Promise<unknown> | undefined;
  let hold: Gate | undefined;
  of.rt.harness.on('agent/inbox/inserted', ({ agent, message }) => {
    if (agent !== of.rt.root || message.source.kind !== 'subagent-settled') return;
    // The notice is there, and not kept yet.
    hold ??= store.stall();
    answer ??= of.tell(of.rt.root, c.id, 'More.');
  });
  await until(() => answer !== undefined);
  await settled();
  const edges = (): string[] => of.told.filter((text) => !text.startsWith('gone'));
  expect(edges()).toEqual(['start c']);
  hold!.open();
  await answer;
  await until(() => edges().length === 4);
  expect(edges()).toEqual(['start c', 'end c completed', 'start c', 'end c completed']);
});

describe('with few threads', () => {
  it('a parent that waits gives its thread up, and comes back with the notice', async () => {
    await using of = await family({ limits: { maxThreads: 2 } });
    const c = await of.start('c');
    const g = await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    const first = of.rt.threads.of(c.id);
    of.rt.root.followup(createUserMessage('Look.'));
    await of.rt.root.whenIdle();
    of.held.open();
    await until(() => of.told.includes('end c completed'));
    await of.rt.root.whenIdle();
    expect(ends(c.session)).toEqual(['completed', 'completed']);
    expect(ends(g.session)).toEqual(['completed']);
    expect(ends(of.rt.root.session)).toEqual(['completed', 'completed']);
    expect(of.rt.threads.of(c.id)).not.toBe(first);
  });

  it('a chain that is deeper than there are threads comes to its end', async () => {
    await using of = await family({ limits: { maxThreads: 2 } });
    const c1 = await of.start('c1', of.rt.root, { text: 'Work.' });
    const c2 = await of.start('c2', c1, { text: 'Hold.' });
    await of.held.arrived();
    await c1.whenIdle();
    const c3 = await of.start('c3', c2, { text: 'Hold.' });
    await of.held.arrived(2);
    of.held.open();
    await until(() => of.told.includes('end c1 completed'));
    await of.rt.root.whenIdle();
    expect(ends(c3.session)).toEqual(['completed']);
    expect(ends(c2.session)).toEqual(['completed', 'completed']);
    expect(ends(of.rt.root.session)).toEqual(['completed']);
  });

  it.each([
    [1, ['CAPACITY']],
    [2, ['DEPTH_EXCEEDED']],
  ] as const)(
    'a tool that starts a child and waits for its id is refused or gets on (%i)',
    async (maxThreads, codes) => {
      const refused: string[] = [];
      await using of = await family({
        limits: { maxThreads, maxDepth: 4 },
        tools: [
          {
            name: 'delegate',
            description: 'Delegates.',
            parameters: { type: 'object' },
            async execute(_, context) {
              const agent = context.agent as Agent;
              try {
                await of.start(`${agent.id}-`, agent, { text: 'Call delegate.' });
              } catch (error) {
                refused.push((error as { code: string }).code);
              }
              return 'Delegated.';
            },
          },
        ],
      });
      await of.rt.ask('Call delegate.');
      const quiet = (): boolean =>
        of.rt.harness.agents
          .list()
          .every((agent) => agent === of.rt.root && agent.status === 'idle');
      await until(() => refused.length > 0 && quiet());
      expect(refused).toEqual(codes);
      expect(of.rt.model.requests.length).toBeGreaterThan(0);
    },
  );

  it('what was accepted waits for a thread before starts that were not, and is never refused', async () => {
    await using of = await family({ limits: { maxThreads: 2 } });
    const c = await of.start('c');
    await of.start('g', c, { text: 'Hold.' });
    await of.held.arrived();
    await c.whenIdle();
    of.rt.root.followup(createUserMessage('Hold.'));
    await of.held.arrived(2);
    const starting = of.start('d');
    await settled();
    const { messageId } = await of.tell(of.rt.root, c.id, 'More.');
    of.held.open();
    await starting;
    await until(() => of.told.includes('end c completed') && of.told.includes('end d completed'));
    const served = of.rt.threads.all.map(({ init }) => init?.sessionId as string);
    expect(served.indexOf('d')).toBe(served.length - 2);
    expect(served.slice(2, -2)).toContain('c');
    expect(JSON.stringify(c.session.events)).toContain(messageId);
  });
});
