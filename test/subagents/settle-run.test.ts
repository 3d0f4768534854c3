import { describe, expect, it } from 'vitest';
import type { SubagentResult, SubagentStopReason } from '../../src/subagents/provider.ts';
import {
  boundDiagnostic,
  finishRun,
  MAX_DIAGNOSTIC_BYTES,
  settleRun,
} from '../../src/subagents/settle-run.ts';
import { completed, stubRun, text } from './stubs.ts';

describe('settleRun', () => {
  it.each<[SubagentResult, unknown]>([
    [completed(text('a'), text('b')), { kind: 'completed', output: 'ab' }],
    [{ output: [text('part')], stopReason: 'aborted' }, { kind: 'killed' }],
    [
      { output: [], stopReason: 'refusal' },
      { kind: 'failed', reason: 'refusal' },
    ],
    [
      { output: [], stopReason: 'error', diagnostic: 'AUTH: no key' },
      { kind: 'failed', reason: 'error; diagnostic: AUTH: no key' },
    ],
    [
      { output: [], stopReason: 'quota' as SubagentStopReason },
      { kind: 'failed', reason: 'quota' },
    ],
  ])('says what became of %j', async (result, outcome) => {
    const stub = stubRun();
    stub.settle(result);
    expect(await settleRun(stub.run)).toEqual(outcome);
    expect(stub.disposals).toBe(1);
  });

  it('releases the run before it says anything', async () => {
    const order: string[] = [];
    const { run, settle } = stubRun();
    const slow = {
      ...run,
      dispose: async () => {
        await Promise.resolve();
        order.push('released');
      },
    };
    settle(completed());
    await settleRun(slow);
    order.push('told');
    expect(order).toEqual(['released', 'told']);
  });

  it('releases a run whose result rejects', async () => {
    const stub = stubRun();
    stub.fail(new Error('broken'));
    expect(await settleRun(stub.run)).toEqual({ kind: 'failed', reason: 'broken' });
    expect(stub.disposals).toBe(1);
  });

  it('fails when only the release fails', async () => {
    const { run, settle } = stubRun();
    settle(completed(text('done')));
    const outcome = await settleRun({ ...run, dispose: () => Promise.reject(new Error('stuck')) });
    expect(outcome).toEqual({ kind: 'failed', reason: 'the run could not be released: stuck' });
  });

  it('keeps both failures', async () => {
    const { run, settle } = stubRun();
    settle({ output: [], stopReason: 'error' });
    const outcome = await settleRun({ ...run, dispose: () => Promise.reject(new Error('stuck')) });
    expect(outcome).toEqual({
      kind: 'failed',
      reason: 'error; the run could not be released: stuck',
    });
  });
});

describe('finishRun', () => {
  it('also survives a dispose that throws at once', async () => {
    const { run, settle } = stubRun();
    settle(completed());
    const dispose = () => {
      throw new Error('at once');
    };
    expect((await finishRun({ ...run, dispose })).disposal.status).toBe('rejected');
  });
});

describe('boundDiagnostic', () => {
  const bytes = (value: string) => Buffer.byteLength(value);

  it('leaves a text that fits as it is', () => {
    const fits = 'é'.repeat(MAX_DIAGNOSTIC_BYTES / 2);
    expect(boundDiagnostic(fits)).toBe(fits);
  });

  it.each(['a', 'é', '€', '😀', 'a€', 'ab😀'])(
    'cuts a long text of %j between characters',
    (unit) => {
      for (let shift = 0; shift < 4; shift++) {
        const cut = boundDiagnostic('x'.repeat(shift) + unit.repeat(MAX_DIAGNOSTIC_BYTES + 1));
        expect(bytes(cut)).toBeLessThanOrEqual(MAX_DIAGNOSTIC_BYTES);
        expect(bytes(cut)).toBeGreaterThan(MAX_DIAGNOSTIC_BYTES - 8);
        expect(cut).not.toContain('\ufffd');
        expect(cut).toMatch(/\[cut\]$/);
      }
    },
  );
});
