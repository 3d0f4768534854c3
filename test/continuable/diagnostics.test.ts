import { describe, expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import type { SubagentRunEndInfo } from '../../src/subagents/lifecycle.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { settled } from '../support/until.ts';
import { family, insertions, notices } from './children.ts';
import type { Family } from './children.ts';

/** Every end from now on: its reason, and why. */
function ends({ rt }: Family): unknown[] {
  const told: unknown[] = [];
  rt.harness.on('subagent/end', ({ stopReason, diagnostic }: SubagentRunEndInfo) =>
    told.push([stopReason, diagnostic]),
  );
  return told;
}

describe('a child that failed says why, to its parent and to whoever watches', () => {
  it('when its model failed, in one line', async () => {
    const failure = { code: 'AUTH', message: 'bad\n  key' };
    await using all = await family({ child: [{ failure }] });
    const told = ends(all);
    await all.gone(await all.start());
    expect(told).toEqual([['error', 'AUTH: bad key']]);
    expect(notices(all.rt.root)[0]).toContain(
      ') failed before it finished (AUTH: bad key), and is idle',
    );
    const [{ message }] = insertions(all.rt.root) as [ReturnType<typeof insertions>[0]];
    expect(message.source).toMatchObject({
      stopReason: 'error',
      summary:
        'Your subagent "worker" failed before it finished (AUTH: bad key), and is idle until you send it more work.',
    });
  });

  it('within the bound of what a run says', async () => {
    const failure = { code: 'SOME', message: 'é'.repeat(5_000) };
    await using all = await family({ child: [{ failure }] });
    const told = ends(all) as [[string, string]];
    await all.gone(await all.start());
    const [[, why]] = told;
    expect(Buffer.byteLength(why)).toBeLessThanOrEqual(4_096);
    expect(notices(all.rt.root)[0]).toContain(`(${why}), and is idle`);
  });

  it('when its thread died under its turn', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }] });
    const told = ends(all);
    const child = await all.start();
    await held.arrived();
    all.rt.threads.of(child.id).crash();
    await all.gone(child);
    expect(told).toEqual([['error', expect.stringMatching(/^WORKER_CRASHED: ./)]]);
    expect(notices(all.rt.root)[0]).toContain('(WORKER_CRASHED: ');
  });

  it('when its thread died before a turn, of which its log says nothing', async () => {
    await using all = await family({ child: ['A'] });
    const { root, threads, harness } = all.rt;
    const told = ends(all);
    harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent !== root) threads.of(agent.id).crash();
    });
    await all.gone(await all.start());
    expect(told).toEqual([['error', expect.stringMatching(/^WORKER_CRASHED: ./)]]);
    expect(notices(root)[0]).toContain('(WORKER_CRASHED: ');
  });

  it('when its turn took too long', async () => {
    const held = gate();
    const clock = new ManualClock();
    await using all = await family(
      { child: [{ hold: held, text: 'A' }] },
      { clock, limits: { turnMs: 1_000 } },
    );
    const told = ends(all);
    const child = await all.start();
    await held.arrived();
    await clock.advance(1_000);
    held.open();
    await settled();
    await all.gone(child);
    expect(told).toEqual([['error', expect.stringMatching(/^LIMIT_EXCEEDED: ./)]]);
    expect(notices(all.rt.root)[0]).toContain('(LIMIT_EXCEEDED: ');
  });

  it('when a hook declined its task', async () => {
    await using all = await family({});
    const told = ends(all);
    all.rt.harness.hooks.on('agent/pre-step', async ({ agent }, next) =>
      agent === all.rt.root ? next() : { kind: 'reject', reason: 'Not that.' },
    );
    await all.gone(await all.start());
    expect(told).toEqual([['refusal', 'BLOCKED: Not that.']]);
    expect(notices(all.rt.root)[0]).toContain('declined what it was asked (BLOCKED: Not that.)');
  });

  it('and not when it did what it was asked, or was stopped', async () => {
    const held = gate();
    await using all = await family({ child: ['Done.', { hold: held, text: 'A' }] });
    const told = ends(all);
    await all.gone(await all.start());
    const child = await all.start();
    await held.arrived();
    all.rt.harness.subagents.interrupt(child.id, { kind: 'user', parentSessionId: all.rt.root.id });
    await all.gone(child);
    expect(told).toEqual([
      ['completed', undefined],
      ['aborted', undefined],
    ]);
  });
});
