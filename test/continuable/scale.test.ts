/**
 * Two hundred children of one root on eight threads, in three generations, while turns are stopped
 * and threads die. `SEED=7` plays another order.
 */
import { expect, it } from 'vitest';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { textOf } from '../../protocol/content.ts';
import { Dice } from '../interleavings/plan.ts';
import { settled, until } from '../support/until.ts';
import { testHarness } from '../support/harness.ts';
import { prompt, signal } from './family.ts';
import { endAfterClaim, fateOf, REFUSALS } from './fates.ts';

const CHILDREN = 200;
const THREADS = 8;
/** As many as have room for a turn of their own while those above them have none. */
const AT_ONCE = 4;
const SEED = Number(process.env['SEED'] ?? 1);

interface Sent {
  readonly to: SessionId;
  readonly parent: SessionId;
  readonly messageId: MessageId;
}

it('runs or names as waiting all that 200 children accepted', { timeout: 120_000 }, async () => {
  const dice = new Dice(SEED);
  const t = await testHarness({
    limits: { maxDepth: 9, maxThreads: THREADS },
    script: async () => {
      for (let left = dice.int(6); left > 0; left--) await settled();
      return dice.chance(0.05) ? { failure: { code: 'BROKEN', message: 'Broken.' } } : 'Well.';
    },
  });
  const { subagents, agents } = t.harness;
  const sent: Sent[] = [];
  const generations: { parent: Agent; level: number }[] = [{ parent: t.root, level: 0 }];
  let [started, most, crashes] = [0, 0, 0];
  const count = (): void => {
    const open = t.threads.all.filter(({ ports }) => ports?.isClosed === false).length;
    most = Math.max(most, open);
  };
  t.harness.on('agent/status', count);

  const refused = (error: { code?: string }): void => {
    if (!REFUSALS.includes(error.code ?? '')) throw error;
  };
  const startOne = async (): Promise<void> => {
    const live = generations.filter(({ parent }) => agents.get(parent.id) === parent);
    const { parent, level } = dice.pick(live);
    const { childId, messageId } = await subagents.startContinuable({
      provider: dice.pick(['spawn', 'fork']),
      label: 'one of many',
      signal: signal(),
      request: { parent, prompt: prompt('Work.') },
    });
    started++;
    sent.push({ to: childId, parent: parent.id, messageId });
    const child = agents.get(childId);
    if (child === undefined) return;
    if (level < 2) generations.push({ parent: child, level: level + 1 });
    for (let more = dice.int(3); more > 0; more--) {
      const given = { source: { kind: 'user' }, signal: signal() } as const;
      const told = await subagents.followup(parent, childId, prompt('More.'), given);
      sent.push({ to: childId, parent: parent.id, messageId: told.messageId });
    }
    if (dice.chance(0.2)) {
      subagents.interrupt(childId, { kind: 'user', parentSessionId: parent.id });
    }
    if (dice.chance(0.1)) {
      crashes++;
      t.threads.all.findLast(({ init }) => init?.sessionId === childId)?.crash();
    }
  };
  const isWanted = (): boolean => started < CHILDREN;
  const worker = async (): Promise<void> => {
    while (isWanted()) {
      await startOne().catch(refused);
      await settled();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));

  // What an interrupt left waiting is gone on with when something new is said.
  const idle = (): boolean => agents.list().every(({ status }) => status === 'idle');
  for (;;) {
    await until(idle);
    await settled();
    if (!idle()) continue;
    const parked = agents.list().filter(({ inbox }) => inbox.nextTurn.length > 0);
    const child = parked.find(({ session }) => session.header.parentSession !== undefined);
    if (child === undefined) break;
    const parent = agents.get(child.session.header.parentSession!)!;
    const given = { source: { kind: 'user' }, signal: signal() } as const;
    const told = await subagents.followup(parent, child.id, prompt('Go on.'), given);
    sent.push({ to: child.id, parent: parent.id, messageId: told.messageId });
  }
  await until(() => agents.list().length === 1);
  expect(crashes).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(THREADS);

  const { sessionPersistence } = t.harness;
  const logs = new Map<SessionId, Awaited<ReturnType<typeof sessionPersistence.inspect>>>();
  for (const { id } of await sessionPersistence.list()) {
    logs.set(id, await sessionPersistence.inspect(id));
  }
  const ownOf = (id: SessionId) => {
    const { header, events } = logs.get(id)!;
    return events.slice(header.seedLength ?? 0);
  };
  const fates: Record<string, number> = {};
  for (const { to, parent, messageId } of sent) {
    const fate = fateOf(ownOf(to), messageId);
    fates[fate] = (fates[fate] ?? 0) + 1;
    if (fate === 'told') continue;
    if (fate === 'spent') {
      expect(endAfterClaim(ownOf(to), messageId)).toBe('aborted');
      continue;
    }
    const last = ownOf(parent).flatMap((event) =>
      event.type === 'agent/inbox/spliced'
        ? event.data.inserted.filter(
            ({ source }) => source.kind === 'subagent-settled' && source.senderSessionId === to,
          )
        : [],
    );
    expect(fate).toBe('waits');
    expect(textOf(last.at(-1)?.content ?? [])).toMatch(/\d+ messages? waits? for it still/);
  }
  expect(fates['told']).toBeGreaterThan(CHILDREN);
  await t[Symbol.asyncDispose]();
  expect(t.threads.all.filter(({ ports }) => ports?.isClosed === false)).toEqual([]);
});
