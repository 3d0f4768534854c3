/** The event loop and the clock of this process are those of the simulation while one runs. */
import { here } from './life.ts';
import type { Task } from './life.ts';

const own = {
  setImmediate: globalThis.setImmediate,
  clearImmediate: globalThis.clearImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  now: Date.now,
};

/** Of the process itself, for whoever drives the simulation. */
export const realImmediate = own.setImmediate;
export const realNow = (): number => own.now.call(Date);

type Run = (...given: unknown[]) => void;

/** Returns what gives them back. */
export function takeTime(): () => void {
  const stand = {
    setImmediate: (run: Run, ...given: unknown[]) => here.life.immediate(() => run(...given)),
    clearImmediate: (task: Task | undefined) => {
      if (task !== undefined) task.isCancelled = true;
    },
    setTimeout: (run: Run, ms = 1, ...given: unknown[]) => {
      const timer = here.life.after(here.now + Math.max(1, ms), () => run(...given));
      const handle = { ...timer, ref: () => handle, unref: () => handle, hasRef: () => false };
      return handle;
    },
    clearTimeout: (timer: { cancel(): void } | undefined) => timer?.cancel(),
  };
  Object.assign(globalThis, stand);
  Date.now = () => here.now;
  return () => {
    const { now, ...timers } = own;
    Object.assign(globalThis, timers);
    Date.now = now;
  };
}
