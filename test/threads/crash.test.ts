import { describe, expect, it } from 'vitest';
import { fact, fixture, realHarness, task, textOfResult } from './real.ts';

/** What a tool in the child's own thread does, and the code that its end is known by. */
const crashes: readonly {
  readonly what: string;
  readonly tool: string;
  readonly args?: object;
  readonly diagnostic: RegExp;
}[] = [
  { what: 'exits with 0', tool: 'exit', args: { code: 0 }, diagnostic: /^WORKER_EXITED: .* 0 / },
  { what: 'exits with 7', tool: 'exit', args: { code: 7 }, diagnostic: /^WORKER_EXITED: .* 7 / },
  {
    what: 'throws late',
    tool: 'throw_late',
    diagnostic: /^WORKER_CRASHED: .*TypeError: Too late\. \(E_LATE\)/,
  },
  {
    what: 'rejects late',
    tool: 'reject_late',
    diagnostic: /^WORKER_CRASHED: .*RangeError: Rejected late\./,
  },
  { what: 'rejects with nothing', tool: 'reject_nothing', diagnostic: /^WORKER_CRASHED: / },
  { what: 'throws null', tool: 'throw_null', diagnostic: /^WORKER_CRASHED: .*null/ },
  { what: 'throws what cannot be read', tool: 'throw_getters', diagnostic: /^WORKER_CRASHED: / },
  { what: 'throws 50 MB of text', tool: 'throw_huge', diagnostic: /^WORKER_CRASHED: .*mmm/ },
  {
    what: 'throws its own cause',
    tool: 'throw_own_cause',
    diagnostic: /^WORKER_CRASHED: .*Its own cause\./,
  },
  {
    what: "posts on its thread's own port",
    tool: 'post_on_thread_port',
    diagnostic: /^PROTOCOL_VIOLATION: /,
  },
];

describe('a child whose tool', () => {
  it.each(crashes)('$what fails alone, and its parent is told why', async (given) => {
    await using real = await realHarness();
    const { tool, args, diagnostic } = given;
    const [failed, sibling] = await Promise.all([
      real.delegate(task(tool, args)),
      real.delegate(task('echo', { text: 'still here' })),
    ]);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(diagnostic);
    expect(Buffer.byteLength(failed.diagnostic ?? '')).toBeLessThanOrEqual(4_096);
    expect(textOfResult(sibling)).toBe('echo still here');
    expect(real.harness.agents.list()).toEqual([real.host]);
  });

  it('exhausts its heap with small objects fails alone, and its parent is told why', async () => {
    await using real = await realHarness();
    const [failed, sibling] = await Promise.all([
      real.delegate(task('exhaust_heap'), { limits: { memoryMb: 48 } }),
      real.delegate(task('echo', { text: 'still here' })),
    ]);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^WORKER_OUT_OF_MEMORY: .*48 MiB/);
    expect(textOfResult(sibling)).toBe('echo still here');
  });

  it('loops for ever is ended at the limit of its turn', async () => {
    const spinning = fact();
    const module = fixture('tools.mjs');
    await using real = await realHarness({
      tools: [{ module, options: { spinning: spinning.shared } }],
      limits: { interruptGraceMs: 100 },
    });
    const [failed, sibling] = await Promise.all([
      real.delegate(task('spin'), { limits: { turnMs: 400 } }),
      real.delegate(task('echo', { text: 'still here' })),
    ]);
    expect(spinning.value).toBe(1);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^LIMIT_EXCEEDED: .*turnMs is 400 ms/);
    expect(textOfResult(sibling)).toBe('echo still here');
  });

  it('obeys when its turn is over keeps its thread to the end of the turn', async () => {
    await using real = await realHarness({ limits: { interruptGraceMs: 60_000 } });
    const failed = await real.delegate(task('spin_politely'), { limits: { turnMs: 200 } });
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^LIMIT_EXCEEDED: /);
  });

  it('crashes leaves a balanced log that says so', async () => {
    await using real = await realHarness();
    const run = await real.start(task('exit', { code: 3 }));
    const { session } = run.localAgent!;
    await run.result;
    expect(session.events.map(({ type }) => type).slice(-4)).toEqual([
      'tool/call',
      'tool/result',
      'step/end',
      'turn/end',
    ]);
    expect(session.events.findLast(({ type }) => type === 'tool/result')?.data).toMatchObject({
      error: { code: 'TOOL_OUTCOME_UNKNOWN' },
    });
    expect(session.events.at(-1)?.data).toMatchObject({
      reason: { kind: 'error', error: { code: 'WORKER_EXITED' } },
    });
    await run.dispose();
  });
});
