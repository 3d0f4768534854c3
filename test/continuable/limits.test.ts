/** Limits of a child that goes on: what its parent hears of them, and what a next life has of them. */
import { describe, expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { shown } from '../worker-host/agent-words.ts';
import { continuing, holding, told } from './continuing.ts';

const calls = { text: 'Looking.', toolCalls: [{ name: 'look', arguments: {} }] };
const look = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object' },
  execute: () => 'seen',
};

describe('the steps of a turn', () => {
  it('at their limit are told of in the notice of a child that goes on', async () => {
    await using t = await continuing({
      tools: [look],
      script: ({ sessionId }) => (sessionId === t.root.id ? 'Heard.' : calls),
    });
    const { childId } = await t.start({ request: { limits: { steps: 2 } } });
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end error']);
    const notice = shown(t.model).at(-1)!.at(-1)!;
    expect(notice).toContain('failed before it finished (LIMIT_EXCEEDED: ');
    expect(notice).toContain('steps is 2.');
    expect(notice).toContain('Looking.');
  });
});

describe('the time of a run', () => {
  it('is another when a child is brought back', async () => {
    const clock = new ManualClock();
    await using t = await continuing({ clock, limits: { runMs: 1_000 } });
    const { childId } = await t.start();
    await t.gone(childId);
    await clock.advance(2_000);
    await t.tell(childId, 'More.');
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end completed', 'start', 'end completed']);
  });
});

describe('restarts', () => {
  it('keep a child at its queue, and settle it once they are used up', async () => {
    const held = gate();
    await using t = await continuing({
      limits: { restarts: { max: 1, withinMs: 1_000 } },
      script: holding({ 'Work.': held, 'Two.': held }),
    });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await held.arrived();
    for (const words of ['Two.', 'Three.']) await t.tell(childId, words);
    t.threads.of(childId).crash();
    await held.arrived(2);
    expect(t.edges).toEqual(['start']);
    t.threads.of(childId).crash();
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end error']);
    expect(told(child)).toEqual(['Work.', 'Two.']);
    const notice = shown(t.model).at(-1)!.at(-1)!;
    expect(notice).toContain('(WORKER_CRASHED: ');
    expect(notice).toContain('1 message waits');
  });
});
