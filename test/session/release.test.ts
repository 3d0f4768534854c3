import { expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { settled } from '../support/until.ts';
import { a, keep, say, setup } from './watched-store.ts';

it('is over for a session that was never live when its store has given it back', async () => {
  const { sessions, store } = setup();
  const first = keep(sessions, a);
  say(first);
  await sessions.leave(first);
  const session = await sessions.load(a);
  const hold = gate();
  store.release = () => hold.wait();
  let isOver = false;
  const released = sessions.release(session).then(() => void (isOver = true));
  await hold.arrived();
  await settled();
  expect(isOver).toBe(false);
  hold.open();
  await released;
  // A second time there is nothing to give back.
  store.release = () => Promise.reject(new Error('It was asked again.'));
  await sessions.release(session);
});
