/** Limits of a turn that only a real thread can pass: with its processor, and with what it posts. */
import { describe, expect, it } from 'vitest';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import { fact, fixture, lastText, obedientModel, realHarness, task, textOfResult } from './real.ts';
import { until } from '../support/until.ts';

describe('a child in a thread', () => {
  it('that computes is ended at the limit of its processor time, and others are not', async () => {
    const spinning = fact();
    const module = fixture('tools.mjs');
    await using real = await realHarness({
      tools: [{ module, options: { spinning: spinning.shared } }],
      limits: { cpuMs: 300, interruptGraceMs: 100 },
    });
    const [failed, sibling] = await Promise.all([
      real.delegate(task('spin')),
      real.delegate(task('echo', { text: 'still here' })),
    ]);
    expect(spinning.value).toBe(1);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(
      /^LIMIT_EXCEEDED: .*cpuMs is 300 ms, and its thread had used /,
    );
    expect(textOfResult(sibling)).toBe('echo still here');
  });

  it('that waits uses none of it', async () => {
    const waiting = fact();
    const module = fixture('tools.mjs');
    await using real = await realHarness({
      tools: [{ module, options: { spinning: waiting.shared } }],
      limits: { cpuMs: 600, turnMs: 1_200, interruptGraceMs: 100 },
    });
    const failed = await real.delegate(task('wait'));
    expect(waiting.value).toBe(1);
    expect(failed.diagnostic).toMatch(/^LIMIT_EXCEEDED: .*turnMs is 1200 ms/);
  });

  it('that calls tools for ever is ended at the limit of its steps', async () => {
    const model = scriptedModel(() => ({
      text: 'Once more.',
      toolCalls: [{ name: 'echo', arguments: { text: 'here' } }],
    }));
    await using real = await realHarness({ models: { obedient: model } });
    const { output, stopReason, diagnostic } = await real.delegate('Go.', { limits: { steps: 5 } });
    expect([stopReason, diagnostic]).toEqual([
      'error',
      expect.stringMatching(/^LIMIT_EXCEEDED: .*steps is 5\.$/),
    ]);
    expect(output[0]).toMatchObject({ type: 'text', text: 'Once more.' });
    expect(model.requests).toHaveLength(5);
  });

  it('whose own model says too much adds at most a frame to the limit of its output', async () => {
    await using real = await realHarness({
      models: { obedient: obedientModel(), own: { module: fixture('model.mjs') } },
    });
    const run = await real.start('count to 100000', {
      agentOptions: { provider: 'own', model: 'm' },
      limits: { outputBytes: 10_000 },
    });
    const { stopReason, diagnostic } = await run.result;
    expect([stopReason, diagnostic]).toEqual([
      'error',
      expect.stringMatching(
        /^LIMIT_EXCEEDED: .*outputBytes is 10000, and it had added \d+ bytes\.$/,
      ),
    ]);
    const { events } = run.localAgent!.session;
    const chunks = events.filter(({ type }) => type === 'assistant/chunk').length;
    expect(chunks).toBeGreaterThan(0);
    // A frame has at most 1 MiB, and a part takes at least 60 bytes of it.
    expect(chunks).toBeLessThan((10_000 + 1_048_576) / 60);
    await run.dispose();
  });

  it('that dies goes on with what waits for it in another thread', async () => {
    const held = gate();
    const model = scriptedModel(async (request, call) => {
      if (call.number === 1) await held.wait();
      return lastText(request) === 'Die.'
        ? { toolCalls: [{ name: 'exit', arguments: { code: 3 } }] }
        : 'Still here.';
    });
    await using real = await realHarness({
      models: { obedient: model },
      limits: { restarts: { max: 1, withinMs: 60_000 } },
    });
    const { agents, subagents } = real.harness;
    const { signal } = new AbortController();
    const { childId } = await subagents.startContinuable({
      provider: 'spawn',
      label: 'worker',
      signal,
      request: { parent: real.host, prompt: 'Die.' },
    });
    const child = agents.get(childId)!;
    await subagents.followup(real.host, childId, 'More.', { source: { kind: 'user' }, signal });
    held.open();
    await until(() => agents.get(childId) === undefined);
    const ends = child.session.events.flatMap(({ type, data }) =>
      type === 'turn/end' ? [data.reason.kind] : [],
    );
    expect(ends).toEqual(['error', 'completed']);
  });
});
