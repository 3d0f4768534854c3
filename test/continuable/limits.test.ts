/** Limits of a child that goes on: what its parent hears of them, and what a next life has of them. */
import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { keptLimits } from '../../src/subagents/kept-limits.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { shown } from '../worker-host/agent-words.ts';
import { continuing, holding, preparing, told } from './continuing.ts';

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

describe('the limits of a start', () => {
  const endless = ({ sessionId }: ModelRequest, root: Agent): typeof calls | 'Heard.' =>
    sessionId === root.id ? 'Heard.' : calls;

  it('hold for each of its lives', async () => {
    await using t = await continuing({ tools: [look], script: (asked) => endless(asked, t.root) });
    const { childId } = await t.start({ request: { limits: { steps: 2, memoryMb: 64 } } });
    await t.gone(childId);
    await t.tell(childId, 'More.');
    expect(t.threads.of(childId).limits).toEqual({ memoryMb: 64 });
    await t.gone(childId);
    await t.tell(childId, 'And more.');
    await t.gone(childId);
    expect(t.edges.filter((edge) => edge !== 'start')).toEqual(Array(3).fill('end error'));
    expect(t.threads.all.filter(({ limits }) => limits.memoryMb === 64)).toHaveLength(3);
  });

  it('hold in another harness, and none above what children have there', async () => {
    await using file = tempStore();
    const store = file.path;
    let root!: Agent;
    const script = (asked: ModelRequest) => endless(asked, root);
    let childId!: SessionId;
    {
      await using t = await continuing({ store, tools: [look], script });
      ({ root } = t);
      const limits = { steps: 3, memoryMb: 512, outputBytes: 'unlimited' } as const;
      ({ childId } = await t.start({ request: { limits } }));
      await t.gone(childId);
    }
    const limits = { steps: 1, memoryMb: 128 };
    await using t = await continuing({ store, tools: [look], script, limits });
    root = (await t.agents.resume(root.id)).agent;
    await t.tell(childId, 'More.', { parent: root });
    expect(t.threads.of(childId).limits).toEqual({ memoryMb: 128 });
    await t.gone(childId);
    await root.whenIdle();
    expect(shown(t.model).at(-1)!.at(-1)!).toContain('steps is 1.');
  });

  it('that are none are refused in the tick of the call', async () => {
    let asked = 0;
    await using t = await continuing();
    t.harness.subagents.registerProvider(
      preparing(async () => {
        asked += 1;
        return {};
      }),
    );
    for (const limits of [{ turnMs: 0 }, { steps: 'unlimited' }, { memoryMb: 1 }] as object[]) {
      const start = t.start({ provider: 'preparing', request: { limits } });
      await expect(start).rejects.toBeInstanceOf(ArgumentError);
    }
    expect(asked).toBe(0);
  });
});

describe('keptLimits', () => {
  it('keeps what was given, and nothing above what there is now', () => {
    expect(keptLimits(undefined, { turnMs: 5 })).toEqual({});
    expect(keptLimits({ turnMs: 9, steps: 2 }, { turnMs: 5, steps: 3 })).toEqual({
      turnMs: 5,
      steps: 2,
    });
    expect(
      keptLimits({ memoryMb: 'unlimited', outputBytes: 'unlimited' }, { memoryMb: 64 }),
    ).toEqual({ memoryMb: 64, outputBytes: 'unlimited' });
    expect(keptLimits({ memoryMb: 512 }, { memoryMb: 'unlimited' })).toEqual({ memoryMb: 512 });
  });
});
