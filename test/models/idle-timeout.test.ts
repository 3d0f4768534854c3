import type { ModelPart, ModelRequest } from '../../protocol/model.ts';
import { describe, expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { withIdleTimeout } from '../../src/models/idle-timeout.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { ManualClock } from '../support/manual-clock.ts';

const request: ModelRequest = { provider: 'p', model: 'm', messages: [] };

describe('withIdleTimeout', () => {
  it('fails a stream that is silent for too long, and aborts what is behind it', async () => {
    const clock = new ManualClock();
    const held = gate();
    let inner: AbortSignal | undefined;
    const model = scriptedModel([
      (_request, { signal }) => {
        inner = signal;
        return { text: ['a', held] };
      },
    ]);
    const parts: ModelPart[] = [];
    const read = (async () => {
      const { signal } = new AbortController();
      for await (const part of withIdleTimeout(model, 1_000, clock).stream(request, { signal })) {
        parts.push(part);
      }
    })();
    await held.arrived();
    await clock.advance(999);
    expect(inner?.aborted).toBe(false);
    await clock.advance(1);
    await read;
    expect(inner?.aborted).toBe(true);
    expect(parts.at(-1)).toEqual({
      type: 'finish',
      reason: {
        kind: 'error',
        failure: { code: 'TIMEOUT', message: 'The provider sent nothing for 1 s.' },
      },
    });
    expect(clock.pending).toBe(0);
  });

  it('does not count the time in which nobody reads', async () => {
    const clock = new ManualClock();
    const { signal } = new AbortController();
    const adapter = withIdleTimeout(scriptedModel(['a']), 1_000, clock);
    const types: string[] = [];
    for await (const part of adapter.stream(request, { signal })) {
      types.push(part.type);
      expect(clock.pending).toBe(0);
      await clock.advance(5_000);
    }
    expect(types).toEqual(['block-start', 'text-delta', 'block-end', 'finish']);
  });
});
