import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import type { WindowSize } from '../../protocol/window.ts';
import { MainShare } from '../../src/worker-host/main-share.ts';
import { settled, stepEnd, claim, linked } from './linked.ts';

describe('frames that take long', () => {
  const frame = (from: number): object => ({ type: 'events', from, events: [stepEnd(from + 1)] });
  /** Links of one main whose events take three milliseconds each; `turn` is one of its loop. */
  function slow(count: number, window?: WindowSize) {
    const later: (() => void)[] = [];
    const share = new MainShare((run) => void later.push(run));
    let ms = 0;
    const took = (): void => void (ms += 3);
    const links = Array.from({ length: count }, () =>
      linked({ share, now: () => ms, event: took, ...(window === undefined ? {} : { window }) }),
    );
    const turn = (): void => later.splice(0).forEach((run) => run());
    const told = (): number[] => links.map((one) => one.told.length);
    return { links, turn, told, passes: (more: number) => void (ms += more) };
  }

  it('wait for their turn, and threads take turns', () => {
    const { links, turn, told } = slow(2);
    links[0]!.post(...[0, 1, 2, 3, 4, 5].map(frame));
    links[1]!.post(frame(0));
    expect(told()).toEqual([2, 0]);
    turn();
    expect(told()).toEqual([3, 1]);
    turn();
    expect(told()).toEqual([5, 1]);
    turn();
    expect(told()).toEqual([6, 1]);
    expect(links[0]!.told.map((event) => (event as { data: { step: number } }).data.step)).toEqual([
      1, 2, 3, 4, 5, 6,
    ]);
  });

  it('are all taken, before those in its port, when their thread is gone', () => {
    const { links, turn } = slow(1);
    const [one] = links;
    one!.post(...[0, 1, 2, 3].map(frame), { type: 'call', message: claim });
    one!.link.drain([pack(frame(4)), pack({ type: 'stopped', reason: 'asked' })]);
    expect(one!.told.map((told) => (told as { type?: string }).type ?? told)).toEqual([
      ...Array.from({ length: 5 }, () => 'step/end'),
      'stopped',
    ]);
    turn();
    expect(one!.violations).toEqual([]);
    expect(one!.told).toHaveLength(6);
  });

  it('that wait reach nobody once the link is closed', () => {
    const { links, turn, told } = slow(1);
    links[0]!.post(...[0, 1, 2, 3].map(frame));
    links[0]!.link.close();
    turn();
    turn();
    expect(told()).toEqual([2]);
  });

  it('cost the credit that there was when they arrived', async () => {
    const { links, turn } = slow(1, { frames: 4, bytes: 1_000 });
    const [one] = links;
    one!.post(...[0, 1, 2, 3, 4].map(frame));
    // Two are taken, and acknowledged, before the fifth is looked at.
    await settled();
    expect(one!.received()).toMatchObject([{ type: 'ack', taken: 2 }]);
    turn();
    turn();
    turn();
    expect(one!.violations).toMatchObject([{ code: 'PROTOCOL_VIOLATION' }]);
    expect(one!.told).toHaveLength(4);
  });

  it.each<[string, object, number]>([
    ['2 000 frames', { type: 'ack', taken: 0 }, 2_001],
    ['some MiB', { type: 'call', message: { a: 'x'.repeat(1_000_000) } }, 18],
  ])('are a flood when more than %s wait', (_, flood, count) => {
    const { links, turn } = slow(1);
    const [one] = links;
    one!.post(frame(0), frame(1), ...Array.from({ length: count - 1 }, () => flood));
    expect(one!.violations).toEqual([]);
    one!.post(flood);
    expect(one!.violations).toMatchObject([{ code: 'WORKER_FLOODED' }]);
    turn();
    expect(one!.told).toHaveLength(2);
  });
});
