import { describe, expect, it } from 'vitest';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import type { ReportDelivery } from '../../src/subagents/report.ts';
import { settled } from '../support/until.ts';
import { family, text, told } from './children.ts';
import type { Family } from './children.ts';

const reports = ({ rt }: Family, child: Agent, delivery: ReportDelivery, words = 'Found it.') =>
  rt.harness.subagents.reportFrom(child, text(words), { delivery });

describe('a report', () => {
  const deliveries: readonly ReportDelivery[] = ['next-step', 'quiet', 'wakeup'];
  it.each(deliveries)(
    'by %s never overtakes an earlier one of the same child',
    async (delivery) => {
      const atRoot = gate();
      const held = gate();
      await using all = await family({
        root: [{ hold: atRoot, text: 'Busy.' }, 'One.', 'Two.', 'Three.'],
        child: [{ hold: held, text: 'Done.' }],
      });
      const { root } = all.rt;
      const child = await all.start();
      await held.arrived();
      root.followup(createUserMessage('Work.'));
      await atRoot.arrived();
      const first = await reports(all, child, 'wakeup', 'First.');
      const second = await reports(all, child, delivery, 'Second.');
      expect(root.inbox.nextTurn.map(({ id }) => id)).toEqual([first.messageId, second.messageId]);
      held.open();
      await all.gone(child);
      expect(root.inbox.nextTurn).toHaveLength(3);
      atRoot.open();
      await root.whenIdle();
      expect(told(root)).toEqual([['user'], ['report'], ['report'], ['notice']]);
    },
  );

  it('never overtakes the news of an earlier residency of the same child', async () => {
    const atRoot = gate();
    const held = gate();
    await using all = await family({
      root: [{ hold: atRoot, text: 'Busy.' }],
      child: [
        { hold: held, text: 'One.' },
        { hold: held, text: 'Two.' },
      ],
    });
    const { root, harness } = all.rt;
    const child = await all.start();
    await held.arrived();
    root.followup(createUserMessage('Work.'));
    await atRoot.arrived();
    await reports(all, child, 'wakeup');
    await harness.subagents.drainContinuableChildren(root, [child.id]);
    await all.tell(child, 'More.');
    await held.arrived(2);
    await reports(all, harness.agents.get(child.id)!, 'next-step', 'Again.');
    expect(root.inbox.nextTurn.map(({ source }) => source.kind)).toEqual([
      'subagent-report',
      'subagent-settled',
      'subagent-report',
    ]);
    expect(root.inbox.nextStep).toEqual([]);
    held.open();
    atRoot.open();
  });

  it('that is quiet wakes nobody either when it waits behind another', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'Done.' }] });
    const child = await all.start();
    await held.arrived();
    const { root } = all.rt;
    root.followup(createUserMessage('Work.'));
    await reports(all, child, 'wakeup', 'First.');
    root.cancel({ kind: 'user' }, { keepInbox: true });
    await root.whenIdle();
    const wake = root.inbox.nextTurn.length;
    expect(wake).toBeGreaterThan(0);
    await reports(all, child, 'quiet', 'Second.');
    await settled();
    expect([root.status, root.inbox.nextTurn.length]).toEqual(['idle', wake + 1]);
    held.open();
  });
});
