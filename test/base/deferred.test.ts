import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { deferred, joinSignals, listenForAbort, raceSignal } from '../../src/base/deferred.ts';
import { Slots } from '../../src/base/slots.ts';
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

describe('a signal that many wait with', () => {
  it.each<[string, (signal: AbortSignal, over: Promise<void>) => unknown]>([
    ['race', (signal, over) => raceSignal(over, signal)],
    [
      'listen',
      (signal, over) => {
        const release = listenForAbort(signal, () => {});
        return over.then(release);
      },
    ],
    [
      'join it with others',
      (signal, over) => {
        const { release } = joinSignals([signal]);
        return over.then(release);
      },
    ],
  ])('is taken for no leak when they %s', async (_, wait) => {
    await isNoLeak((signal, over) => Array.from({ length: 20 }, () => wait(signal, over)));
  });

  it('is taken for no leak when they wait for a place', async () => {
    const slots = new Slots(1);
    await isNoLeak((signal, over) =>
      Array.from({ length: 20 }, () => slots.run(() => over, signal)),
    );
  });
});

async function isNoLeak(
  begin: (signal: AbortSignal, over: Promise<void>) => readonly unknown[],
): Promise<void> {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  try {
    const { signal } = new AbortController();
    const over = deferred<void>();
    const all = begin(signal, over.promise);
    await settled();
    expect(getEventListeners(signal, 'abort').length).toBeGreaterThan(10);
    expect(warned).not.toHaveBeenCalled();
    over.resolve();
    await Promise.all(all);
    await settled();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  } finally {
    warned.mockRestore();
  }
}
