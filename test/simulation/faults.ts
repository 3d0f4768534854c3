/** What goes wrong by itself, drawn from what can go wrong now. */
import type { Dice } from '../interleavings/plan.ts';
import { here } from './life.ts';
import type { Breach, Death } from './life.ts';
import type { Oracle } from './oracle.ts';
import type { Action } from './scheduler.ts';
import { storeFailure } from './sim-store.ts';

const DEATHS: readonly Death[] = ['throw', 'throw', 'exit', 'exit 0', 'out of memory', 'silent'];
const BREACHES: readonly Breach[] = ['garbage', 'flood', 'no bytes', 'stopped', 'prints'];

/** @param killMain ends this life of main, and begins another */
export function drawFault(dice: Dice, oracle: Oracle, killMain: () => void): Action | undefined {
  const { life } = here;
  const threads = life.threads.filter(
    ({ state, isHung }) => !isHung && (state === 'running' || state === 'starting'),
  );
  const thread = threads.length === 0 ? undefined : dice.pick(threads);
  const write = life.calls.find(({ what }) => what === 'append');
  const roll = dice.int(20);
  const fault = (name: string, run: () => void): Action => ({
    kind: 'fault',
    name: `FAULT ${name}`,
    run,
  });
  if (thread !== undefined && roll < 8) {
    const death = dice.pick(DEATHS);
    return fault(`thread ${thread.threadId} dies: ${death}`, () => {
      oracle.causes.died(thread, death);
      thread.die(death);
    });
  }
  if (thread !== undefined && roll < 11) {
    return fault(`thread ${thread.threadId} hangs`, () => {
      oracle.causes.hung(thread, false);
      thread.isHung = true;
    });
  }
  if (thread !== undefined && roll < 12) {
    return fault(`thread ${thread.threadId} is stuck`, () => {
      oracle.causes.hung(thread, true);
      thread.isHung = thread.isStuck = true;
    });
  }
  if (thread !== undefined && roll < 14) {
    const breach = dice.pick(BREACHES);
    return fault(`thread ${thread.threadId} posts: ${breach}`, () => {
      oracle.causes.misbehaved(thread, breach);
      thread.misbehave(breach);
    });
  }
  if (write !== undefined && roll < 17) {
    const code = dice.pick(['STORE_IO', 'STORE_FULL'] as const);
    return fault(`an append fails: ${code}`, () => {
      oracle.hasStoreFailed = oracle.hasEverFailed = true;
      write.fail(storeFailure(code));
    });
  }
  if (write !== undefined && roll < 18) {
    return fault('an append takes long', () => {
      oracle.hasStoreFailed = oracle.hasEverFailed = true;
      write.notBefore = here.now + 6_000;
    });
  }
  if (roll >= 18) return fault('main dies', killMain);
  return undefined;
}
