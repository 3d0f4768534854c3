import { describe, expect, it } from 'vitest';
import { WorkerError } from '../../protocol/errors.ts';
import { deferred } from '../../src/base/deferred.ts';
import { OpenTurn } from '../../src/worker-host/open-turn.ts';
import type { Residency } from '../../src/worker-host/residency.ts';
import { whileRunning } from '../../src/worker-host/while-running.ts';
import { USER } from './agent-words.ts';

function running() {
  const turn = new OpenTurn(1);
  const ending = new AbortController();
  const ends = {
    turn: () => void turn.cancel(USER),
    thread: () => ending.abort(new WorkerError('WORKER_EXITED', 'Gone.')),
  };
  const reasons = { turn: { name: 'AbortError' }, thread: { code: 'WORKER_EXITED' } };
  return { turn, residency: { signal: ending.signal } as Residency, ends, reasons };
}

describe('whileRunning', () => {
  it.each(['turn', 'thread'] as const)('waits no longer than the %s', async (which) => {
    const t = running();
    const late = deferred<string>();
    let given: AbortSignal | undefined;
    const waiting = whileRunning(t.turn, t.residency, (signal) => {
      given = signal;
      return late.promise;
    });
    t.ends[which]();
    expect(given?.aborted).toBe(true);
    await expect(waiting).rejects.toMatchObject(t.reasons[which]);
    late.reject(new Error('Late, and nobody’s.'));
  });

  it.each(['turn', 'thread'] as const)('begins nothing when the %s has ended', async (which) => {
    const t = running();
    t.ends[which]();
    let begun = 0;
    const waiting = whileRunning(t.turn, t.residency, async () => void begun++);
    await expect(waiting).rejects.toMatchObject(t.reasons[which]);
    expect(begun).toBe(0);
  });

  it('gives what was waited for, or what was thrown, and lets go of both ends', async () => {
    const t = running();
    let given: AbortSignal | undefined;
    const answer = await whileRunning(t.turn, t.residency, async (signal) => {
      given = signal;
      return 'so';
    });
    await expect(
      whileRunning(t.turn, t.residency, () => Promise.reject(new Error('No.'))),
    ).rejects.toThrow('No.');
    t.ends.turn();
    t.ends.thread();
    expect([answer, given?.aborted]).toEqual(['so', false]);
  });
});
