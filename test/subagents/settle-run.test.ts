import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SubagentResult, SubagentStopReason } from '../../src/subagents/provider.ts';
import { boundDiagnostic, MAX_DIAGNOSTIC_BYTES } from '../../src/subagents/diagnostic.ts';
import { finishRun, settleRun } from '../../src/subagents/settle-run.ts';
import { brokenPromise, completed, stubRun, text } from './stubs.ts';

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

  it('releases a run whose result cannot even be waited for', async () => {
    const stub = stubRun();
    const outcome = await settleRun({ ...stub.run, result: brokenPromise() });
    expect(outcome).toEqual({ kind: 'failed', reason: 'not to be waited for' });
    expect(stub.disposals).toBe(1);
  });

  it('says something even of a failure that says nothing', async () => {
    const silent = Object.defineProperty(new Error('hidden'), 'message', {
      get() {
        throw new Error('no message');
      },
    });
    for (const failure of [silent, Object.create(null) as object, Symbol('odd')]) {
      const { run, fail } = stubRun();
      fail(failure);
      const outcome = await settleRun({ ...run, dispose: () => Promise.reject(failure) });
      expect(outcome).toMatchObject({ kind: 'failed' });
    }
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
  it('makes an error of what is no result, with the output and the words there are', async () => {
    const { run, settle } = stubRun();
    const output = [text('part')];
    settle({ output, stopReason: '' as never, diagnostic: 'LOST: it fell over' });
    const { result } = await finishRun(run);
    expect(result).toEqual({
      status: 'fulfilled',
      value: {
        output,
        stopReason: 'error',
        diagnostic:
          'INVALID_ARGUMENT: The provider gave what is no result: its stopReason is no text. ' +
          'It said: LOST: it fell over',
      },
    });
  });

  it('passes a result on as a copy, with a diagnostic within its bound', async () => {
    const { run, settle } = stubRun();
    const given = {
      ...completed(text('a')),
      structured: { n: 1 },
      diagnostic: 'x'.repeat(MAX_DIAGNOSTIC_BYTES + 1),
    };
    settle(given);
    const { result } = await finishRun(run);
    const value = (result as PromiseFulfilledResult<SubagentResult>).value;
    expect(value).toEqual({ ...given, diagnostic: boundDiagnostic(given.diagnostic) });
    expect(value.output).not.toBe(given.output);
    expect(value.structured).not.toBe(given.structured);
  });

  it('takes no more values than there is room for', async () => {
    const { run, settle } = stubRun();
    let shared: unknown = 'x';
    for (let level = 0; level < 40; level++) shared = [shared, shared];
    settle({ ...completed(), structured: shared });
    const { result } = await finishRun(run);
    expect(result).toMatchObject({ value: { stopReason: 'error' } });
  });

  it('also survives a dispose that throws at once', async () => {
    const { run, settle } = stubRun();
    settle(completed());
    const dispose = () => {
      throw new Error('at once');
    };
    expect((await finishRun({ ...run, dispose })).disposal.status).toBe('rejected');
  });
});

/** Text of all kinds of characters, of pieces of any length; half a pair now and then. */
const anyText = fc
  .array(
    fc.tuple(
      fc.oneof(
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }),
        fc.constantFrom('a', 'é', '€', '😀', '\ud83d', '\ude00', '\u0000', '\ufffd'),
      ),
      fc.integer({ min: 1, max: 3_000 }),
    ),
    { maxLength: 6 },
  )
  .map((pieces) => pieces.map(([piece, times]) => piece.repeat(times)).join(''));

describe('boundDiagnostic', () => {
  it('is short, whole and what it was given, whatever that is', () => {
    fc.assert(
      fc.property(anyText, (given) => {
        const bound = boundDiagnostic(given);
        const size = bytes(bound);
        expect(size).toBeLessThanOrEqual(MAX_DIAGNOSTIC_BYTES);
        // What it says of half a pair is what UTF-8 can say: so it is the same after storage.
        expect(Buffer.from(bound).toString()).toBe(bound);
        const whole = Buffer.from(given).toString();
        if (bytes(whole) <= MAX_DIAGNOSTIC_BYTES) {
          expect(bound).toBe(whole);
          return;
        }
        const [kept, mark, ...more] = bound.split(/(… \[cut\])$/);
        expect([mark, more]).toEqual(['… [cut]', ['']]);
        expect(whole.startsWith(kept!)).toBe(true);
        expect(size).toBeGreaterThan(MAX_DIAGNOSTIC_BYTES - 4);
        // Between characters: what comes next begins with no second half.
        expect(/^[\udc00-\udfff]/.test(whole.slice(kept!.length))).toBe(false);
      }),
      { numRuns: 300 },
    );
  });

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
