import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { closeSubagents } from '../../src/subagents/runtime.ts';
import type { ReportDelivery } from '../../src/subagents/report.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { ends, waiting } from '../worker-host/agent-words.ts';
import { codeOf, family, insertions, notices, text, told } from './children.ts';
import type { Family } from './children.ts';

const reports = ({ rt }: Family, child: Agent, delivery: ReportDelivery, words = 'Found it.') =>
  rt.harness.subagents.reportFrom(child, text(words), { delivery });

/** A child in the middle of its turn. */
async function busyChild() {
  const held = gate();
  const all = await family({ child: [{ hold: held, text: 'Done.' }] });
  const child = await all.start({ label: 'finder' });
  await held.arrived();
  return { all, child, held };
}

describe('a report', () => {
  it('that is quiet waits in its parent and wakes nobody', async () => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    const { root } = all.rt;
    const { messageId } = await reports(all, child, 'quiet');
    await settled();
    expect(root.status).toBe('idle');
    expect(all.models.root.requests).toEqual([]);
    expect(root.inbox.nextStep).toMatchObject([
      {
        id: messageId,
        source: { kind: 'subagent-report', form: 'relay', senderSessionId: child.id },
        content: [
          { text: `Your subagent "finder" (id ${child.id}) reports:\n` },
          { type: 'text', text: 'Found it.' },
        ],
      },
    ]);
    expect([child.status, all.isLive(child)]).toEqual(['running', true]);
    held.open();
    await all.gone(child);
    await root.whenIdle();
    // What it reported comes before the news of its end, in one turn.
    expect(told(root)).toEqual([['report', 'notice']]);
  });

  it.each(['wakeup', 'next-step'] as const)('wakes an idle parent by %s', async (delivery) => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    const { root } = all.rt;
    await reports(all, child, delivery);
    await root.whenIdle();
    expect(told(root)).toEqual([['report']]);
    held.open();
    await all.gone(child);
    await root.whenIdle();
    // A report replaces no notice, and is said once.
    expect(told(root)).toEqual([['report'], ['notice']]);
  });

  it.each<[ReportDelivery, string[][]]>([
    ['wakeup', [['user'], ['report'], ['notice']]],
    ['next-step', [['user'], ['report', 'notice']]],
    ['quiet', [['user'], ['report', 'notice']]],
  ])('by %s is never overtaken by the notice of the same child', async (delivery, order) => {
    const atRoot = gate();
    const held = gate();
    await using all = await family({
      root: [{ hold: atRoot, text: 'Busy.' }, 'One.', 'Two.'],
      child: [{ hold: held, text: 'Done.' }],
    });
    const { root } = all.rt;
    const child = await all.start();
    await held.arrived();
    root.followup(createUserMessage('Work.'));
    await atRoot.arrived();
    await reports(all, child, delivery);
    held.open();
    await all.gone(child);
    atRoot.open();
    await root.whenIdle();
    expect(told(root)).toEqual(order);
  });

  it('has a size, and one beyond it is refused before anything is accepted', async () => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    const { root } = all.rt;
    const most = 900_000 - JSON.stringify(text('')).length;
    const tooLarge = reports(all, child, 'quiet', 'x'.repeat(most + 1));
    expect(await codeOf(() => tooLarge)).toBe('INVALID_ARGUMENT');
    expect(insertions(root)).toEqual([]);
    await reports(all, child, 'quiet', 'x'.repeat(most));
    expect(root.inbox.nextStep).toHaveLength(1);
    held.open();
  });

  it('is not overtaken either in a parent that is being ended, which is woken for nothing', async () => {
    const atRoot = gate();
    const held = gate();
    await using all = await family({
      root: [{ hold: atRoot, text: 'Busy.' }, 'One.', 'Two.'],
      child: [{ hold: held, text: 'Done.' }],
    });
    const { root } = all.rt;
    const child = await all.start();
    await held.arrived();
    root.followup(createUserMessage('Work.'));
    await atRoot.arrived();
    await reports(all, child, 'wakeup');
    await closeSubagents(all.rt.harness.subagents);
    expect(insertions(root).map(({ list, message }) => [list, message.source.kind])).toEqual([
      ['next-turn', 'user'],
      ['next-turn', 'subagent-report'],
      ['next-turn', 'subagent-settled'],
    ]);
    atRoot.open();
  });

  it('does not hold back the news of another child', async () => {
    const atRoot = gate();
    const held = gate();
    await using all = await family({
      root: [{ hold: atRoot, text: 'Busy.' }, 'One.', 'Two.', 'Three.'],
      child: () => ({ hold: held, text: 'Done.' }),
    });
    const { root } = all.rt;
    const reporter = await all.start();
    const other = await all.start();
    await held.arrived(2);
    root.followup(createUserMessage('Work.'));
    await atRoot.arrived();
    await reports(all, reporter, 'wakeup');
    await all.rt.harness.subagents.drainContinuableChildren(root, [reporter.id]);
    await all.rt.harness.subagents.drainContinuableChildren(root, [other.id]);
    atRoot.open();
    await root.whenIdle();
    expect(told(root)).toEqual([['user'], ['notice'], ['report'], ['notice']]);
    expect(notices(root)).toHaveLength(2);
  });

  it('of a grandchild reaches its own parent alone, which stays until it has read it', async () => {
    const store = new StallingStore();
    const held = gate();
    const below = gate();
    await using all = await family(
      {
        child: [{ hold: held, text: 'Delegated.' }, 'Read.', 'Read again.'],
        grandchild: [{ hold: below, text: 'Done.' }],
      },
      { store },
    );
    const child = await all.start();
    await held.arrived();
    const grandchild = await all.start({ parent: child });
    await below.arrived();
    held.open();
    await child.whenIdle();
    const stall = store.stall();
    const reported = reports(all, grandchild, 'wakeup');
    // Accepted, and not kept yet: nothing has claimed it, and it keeps its reader here.
    await settled();
    expect(child.status).toBe('running');
    expect(waiting(child)[1]).toHaveLength(1);
    store.hold = undefined;
    stall.open();
    await reported;
    await until(() => ends(child.session).length === 2);
    expect(told(child)).toEqual([['user'], ['report']]);
    expect(all.isLive(child)).toBe(true);
    expect(insertions(all.rt.root)).toEqual([]);
    below.open();
    await all.gone(child);
    await all.rt.root.whenIdle();
    expect(told(all.rt.root)).toEqual([['notice']]);
  });

  it.each(['wakeup', 'next-step'] as const)(
    'by %s keeps its reader here also when that is interrupted before it reads it',
    async (delivery) => {
      const held = gate();
      const below = gate();
      await using all = await family({
        child: [{ hold: held, text: 'Delegated.' }, 'Read.', 'Done.'],
        grandchild: [{ hold: below, text: 'Done.' }],
      });
      const { subagents } = all.rt.harness;
      const child = await all.start();
      await held.arrived();
      const grandchild = await all.start({ parent: child });
      held.open();
      await below.arrived();
      await child.whenIdle();
      const reported = reports(all, grandchild, delivery);
      subagents.interrupt(child.id, { kind: 'user', parentSessionId: all.rt.root.id });
      await reported;
      await child.whenIdle();
      // The news of its end would wake the child again; here it is lost.
      const { followup } = child;
      child.followup = () => {
        throw new Error('Full.');
      };
      await subagents.drainContinuableChildren(child, [grandchild.id]);
      child.followup = followup;
      await settled();
      expect([child.status, all.isLive(child)]).toEqual(['idle', true]);
      await all.tell(child, 'Go on.');
      await all.gone(child);
      expect(told(child).flat()).toEqual(['user', 'report', 'user']);
    },
  );

  it.each(['quiet', 'wakeup', 'next-step'] as const)(
    'by %s that its parent refuses names what it said',
    async (delivery) => {
      const { all, child, held } = await busyChild();
      await using _ = all;
      const { root } = all.rt;
      const cause = new Error('Full.');
      const refuse = (): never => {
        throw cause;
      };
      const own = { inject: root.inject, followup: root.followup, steer: root.steer };
      Object.assign(root, { inject: refuse, followup: refuse, steer: refuse });
      await expect(reports(all, child, delivery)).rejects.toMatchObject({
        code: 'PARENT_UNAVAILABLE',
        cause,
      });
      expect(insertions(root)).toEqual([]);
      Object.assign(root, own);
      held.open();
      await all.gone(child);
    },
  );

  it('is for the resident child itself, and nobody who looks like it', async () => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    const { root } = all.rt;
    const throwing = new Proxy(child, {
      get() {
        throw new Error('A trap.');
      },
    });
    const half = {
      id: child.id,
      followup() {},
      get session() {
        throw new Error('A trap.');
      },
    };
    const likes = [root, { ...child, id: child.id }, throwing, half, undefined, null, 'child', {}];
    for (const like of likes) {
      expect(await codeOf(() => reports(all, like as unknown as Agent, 'quiet'))).toBe(
        'UNAUTHORIZED',
      );
    }
    // Also while somebody else is being ended, which has one look at what is above.
    const other = await all.rt.harness.agents.create();
    await all.rt.harness.subagents.drainContinuableDescendants([other.agent]);
    for (const like of likes) {
      expect(await codeOf(() => reports(all, like as unknown as Agent, 'quiet'))).toBe(
        'UNAUTHORIZED',
      );
    }
    held.open();
    await all.gone(child);
    expect(await codeOf(() => reports(all, child, 'quiet'))).toBe('UNAUTHORIZED');
  });

  it.each<[string, unknown, unknown]>([
    ['content that is none', 7, { delivery: 'quiet' }],
    ['blocks that are none', [{ text: 'no type' }], { delivery: 'quiet' }],
    ['no options', text('Hi'), undefined],
    ['another delivery', text('Hi'), { delivery: 'loud' }],
    ['a signal that is none', text('Hi'), { delivery: 'quiet', signal: true }],
    ['an option that nobody knows', text('Hi'), { delivery: 'quiet', to: 'everybody' }],
  ])('of %s is refused before anything is looked at', async (_, content, options) => {
    await using all = await family({});
    const { root, harness } = all.rt;
    const report = () => harness.subagents.reportFrom(root, content as never, options as never);
    expect(await codeOf(report)).toBe('INVALID_ARGUMENT');
  });

  it('ends with its signal, whose reason is what it says', async () => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    const reason = new Error('Never mind.');
    const options = { delivery: 'quiet', signal: AbortSignal.abort(reason) } as const;
    const report = all.rt.harness.subagents.reportFrom(child, text('Hi'), options);
    await expect(report).rejects.toBe(reason);
    expect(insertions(all.rt.root)).toEqual([]);
    held.open();
    await all.gone(child);
  });

  it('to a parent that is not there is refused', async () => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    const { agents } = all.rt.harness;
    const get = agents.get.bind(agents);
    agents.get = (id) => (id === all.rt.root.id ? undefined : get(id));
    expect(await codeOf(() => reports(all, child, 'wakeup'))).toBe('PARENT_UNAVAILABLE');
    agents.get = get;
    held.open();
    await all.gone(child);
  });

  it('is refused while the child is released', async () => {
    const { all, child } = await busyChild();
    await using _ = all;
    const ended = all.rt.harness.subagents.drainContinuableChildren(all.rt.root, [child.id]);
    expect(await codeOf(() => reports(all, child, 'quiet'))).toBe('ACTIVATION_CLOSING');
    await ended;
  });

  it('is refused once what is below the child was ended, while the child goes on', async () => {
    const { all, child, held } = await busyChild();
    await using _ = all;
    await all.rt.harness.subagents.drainContinuableDescendants([child]);
    expect(await codeOf(() => reports(all, child, 'quiet'))).toBe('DRAINING');
    held.open();
    await all.gone(child);
  });

  it('is taken until its parent begins to end, with which the child is ended', async () => {
    const { all, child } = await busyChild();
    await using _ = all;
    const { root, rootHandle } = all.rt;
    await reports(all, child, 'quiet');
    const disposal = rootHandle.dispose();
    expect(all.rt.harness.agents.get(root.id)).toBe(root);
    expect(await codeOf(() => reports(all, child, 'quiet'))).toBe('DRAINING');
    await disposal;
    expect(await codeOf(() => reports(all, child, 'quiet'))).toBe('UNAUTHORIZED');
  });

  it('that could not be kept is withdrawn, and says so', async () => {
    const store = new StallingStore();
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'Done.' }] }, { store });
    const child = await all.start();
    await held.arrived();
    store.failure = new StoreError('STORE_FULL', 'Full.');
    expect(await codeOf(() => reports(all, child, 'wakeup'))).toBe('STORE_FULL');
    store.failure = undefined;
    await all.rt.root.whenIdle();
    expect(waiting(all.rt.root)).toEqual([[], []]);
    expect(told(all.rt.root)).toEqual([]);
    held.open();
    await all.gone(child);
  });
});
