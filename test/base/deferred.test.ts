import { describe, expect, it } from 'vitest';
import { deferred, raceSignal } from '../../src/base/deferred.ts';
import { settled } from '../support/until.ts';
import { watchUnhandled } from '../support/unhandled.ts';

const unhandled = watchUnhandled();

describe('a wait that a signal ends', () => {
  it.each(['before', 'while'] as const)(
    'leaves a failure that comes later to nobody, when it is aborted %s it waits',
    async (when) => {
      const controller = new AbortController();
      const late = deferred<void>();
      if (when === 'before') controller.abort('enough');
      const waiting = raceSignal(late.promise, controller.signal);
      controller.abort('enough');
      await expect(waiting).rejects.toBe('enough');
      late.reject(new Error('Too late.'));
      await settled();
      expect(unhandled).toEqual([]);
    },
  );
});
