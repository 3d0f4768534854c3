import { afterEach, beforeEach } from 'vitest';

/**
 * In each test of this file: the reasons of the rejections that nobody handled, to be looked at
 * once an event loop turn is over. Without this they fail the run, and name no test.
 */
export function watchUnhandled(): readonly unknown[] {
  const reasons: unknown[] = [];
  const note = (reason: unknown): void => void reasons.push(reason);
  let others: NodeJS.UnhandledRejectionListener[] = [];
  beforeEach(() => {
    reasons.length = 0;
    others = process.listeners('unhandledRejection');
    process.removeAllListeners('unhandledRejection');
    process.on('unhandledRejection', note);
  });
  afterEach(() => {
    process.removeListener('unhandledRejection', note);
    for (const listener of others) process.on('unhandledRejection', listener);
  });
  return reasons;
}
