/** In place of `node:timers/promises`: turns of the simulated event loop of main. */
import { here } from '../life.ts';

export function setImmediate<T>(value?: T): Promise<T> {
  return new Promise((resolve) => void here.life.immediate(() => resolve(value as T)));
}

export function setTimeout<T>(ms = 1, value?: T): Promise<T> {
  return new Promise((resolve) => {
    here.life.after(here.now + ms, () => resolve(value as T));
  });
}
