import { describe, expect, it } from 'vitest';
import { MainShare } from '../../src/worker-host/main-share.ts';
import type { Waiting } from '../../src/worker-host/main-share.ts';

/** A share whose loop turns when the test says so, and ports with frames that take a while. */
function ground() {
  const later: (() => void)[] = [];
  const taken: string[] = [];
  const share = new MainShare((run) => void later.push(run));
  const port = (name: string, frames: number, ms: number): Waiting => ({
    takeNext() {
      taken.push(name);
      share.spend(ms);
      return --frames > 0;
    },
  });
  return { share, taken, port, turn: () => later.splice(0).forEach((run) => run()), later };
}

describe('the share that threads have of a turn of main’s loop', () => {
  it('is used up by what its frames took, and is there again in the next turn', () => {
    const { share, turn, later } = ground();
    share.spend(3);
    expect(share.isUsedUp).toBe(false);
    share.spend(1);
    expect(share.isUsedUp).toBe(true);
    turn();
    expect(share.isUsedUp).toBe(false);
    expect(later).toEqual([]);
  });

  it('goes round: one frame of each, until it is used up', () => {
    const { share, taken, port, turn } = ground();
    share.add(port('a', 100, 1));
    share.add(port('b', 2, 1));
    share.add(port('c', 1, 1));
    turn();
    expect(taken.join('')).toBe('abca');
    turn();
    expect(taken.join('')).toBe('abcabaaa');
    turn();
    expect(taken.join('')).toBe('abcabaaaaaaa');
  });

  it('leaves nothing to do when nothing waits', () => {
    const { share, taken, port, turn, later } = ground();
    const a = port('a', 100, 10);
    share.add(a);
    turn();
    share.remove(a);
    turn();
    turn();
    expect(taken).toEqual(['a']);
    expect(later).toEqual([]);
  });

  it('takes all that waits when it takes no time', () => {
    const { share, taken, port, turn } = ground();
    share.add(port('a', 3, 0));
    share.add(port('b', 2, 0));
    turn();
    expect(taken.join('')).toBe('ababa');
  });
});
