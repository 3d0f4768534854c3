import { expect, it } from 'vitest';
import { Turns } from '../../src/base/turns.ts';

it('lets one after the other go on, each in a round of its own, in the order they came', async () => {
  const turns = new Turns();
  let round = 0;
  let isOver = false;
  const count = (): void => {
    round++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const gone: (readonly [name: string, round: number])[] = [];
  const work = async (name: string): Promise<void> => {
    for (let step = 0; step < 2; step++) {
      await turns.next();
      gone.push([name, round]);
    }
  };
  await Promise.all(['a', 'b', 'c'].map(work));
  isOver = true;
  expect(gone.map(([name]) => name)).toEqual(['a', 'b', 'c', 'a', 'b', 'c']);
  expect(new Set(gone.map(([, at]) => at)).size).toBe(6);
  await turns.next();
});
