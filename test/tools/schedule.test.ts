import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { Schedule } from '../../src/tools/schedule.ts';

interface Call {
  readonly id: number;
  readonly exclusive: boolean;
}

it('keeps exclusive calls alone, the cap, and the order, whoever settles first', () => {
  fc.assert(
    fc.property(
      fc.array(fc.boolean(), { maxLength: 20 }),
      fc.integer({ min: 1, max: 4 }),
      fc.infiniteStream(fc.nat()),
      fc.infiniteStream(fc.nat({ max: 9 })),
      (kinds, capacity, picks, drops) => {
        const schedule = new Schedule<Call>(capacity);
        kinds.forEach((exclusive, id) => schedule.enter({ id, exclusive }));
        const running: Call[] = [];
        const started: number[] = [];
        const told: number[] = [];
        const dropped: number[] = [];
        for (;;) {
          for (let next = schedule.next; next !== undefined; next = schedule.next) {
            if (!schedule.mayStart(next.exclusive)) break;
            schedule.start(next.exclusive);
            running.push(next);
            started.push(next.id);
          }
          expect(running.length).toBeLessThanOrEqual(capacity);
          const isAlone = running.length === 1;
          expect(isAlone || running.every(({ exclusive }) => !exclusive)).toBe(true);
          if (running.length === 0) break;
          const pick = picks.next().value % running.length;
          const [call] = running.splice(pick, 1);
          const isDropped = drops.next().value === 0;
          if (isDropped) dropped.push(call!.id);
          const next = isDropped ? schedule.drop(call!) : schedule.settle(call!);
          told.push(...next.map(({ id }) => id));
        }
        const all = kinds.map((_, id) => id);
        expect(started).toEqual(all);
        expect(told).toEqual(all.filter((id) => !dropped.includes(id)));
        expect(schedule.takeAll()).toEqual([]);
      },
    ),
  );
});
