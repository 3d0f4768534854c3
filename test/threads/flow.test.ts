/** What a thread that floods main costs it, and what one that does not listen does. */
import { setImmediate as macrotask } from 'node:timers/promises';
import { serialize } from 'node:v8';
import { MessagePort } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { createUserMessage } from '../../dist/src/index.js';
import { fact, fixture, obedientModel, realHarness, textOfResult } from './real.ts';
import type { RealHarness } from './real.ts';
import type { Agent, HarnessOptions } from '../../dist/src/index.js';

/** Children of the model `flooding` do it when `go` is said. */
async function flooded(kind: string, options: HarnessOptions = {}) {
  const [there, go, sent] = [fact(), fact(), fact()];
  process.env['FLOOD'] = kind;
  try {
    const shared = { there: there.shared, go: go.shared, sent: sent.shared };
    const real: RealHarness = await realHarness({
      models: { obedient: obedientModel(), flooding: { module: fixture('model.mjs') } },
      tools: [{ module: fixture('tools.mjs'), options: shared }],
      workers: { warm: 0, entry: fixture('flood-entry.mjs'), env: ['FLOOD'] },
      ...options,
    });
    const begin = (): void => {
      Atomics.store(new Int32Array(go.shared), 0, 1);
      Atomics.notify(new Int32Array(go.shared), 0);
    };
    return { real, there, sent, begin, [Symbol.asyncDispose]: () => real.harness.dispose() };
  } finally {
    delete process.env['FLOOD'];
  }
}
const flooding = { agentOptions: { provider: 'flooding', model: 'test' } };

describe('a child that floods main', () => {
  it.each([
    ['acks', /^(WORKER_FLOODED|PROTOCOL_VIOLATION): /],
    ['calls', /^PROTOCOL_VIOLATION: /],
    ['large calls', /^PROTOCOL_VIOLATION: /],
    ['garbage', /^PROTOCOL_VIOLATION: /],
    ['objects', /^PROTOCOL_VIOLATION: /],
    ['events beyond credit', /^(WORKER_FLOODED|PROTOCOL_VIOLATION): /],
    ['own port', /^PROTOCOL_VIOLATION: /],
    ['own port, large', /^PROTOCOL_VIOLATION: /],
  ])('with %s is ended for it, and those beside it do not notice', async (kind, code) => {
    await using flood = await flooded(kind);
    const { real, there } = flood;
    const runs = await Promise.all([1, 2, 3].map(() => real.start('anything', flooding)));
    await there.reaches(3);
    const beside = real.delegate('still here');
    flood.begin();
    for (const run of runs) expect((await run.result).diagnostic).toMatch(code);
    expect(textOfResult(await beside)).toBe('still here');
    for (const run of runs) await run.dispose();
    expect(real.harness.agents.list()).toEqual([real.host]);
  });

  it.each(['small events', 'large events', 'long texts'])(
    'with %s, all within its credit, gets as far as its output may go, and others go on',
    async (kind) => {
      await using flood = await flooded(kind, { limits: { outputBytes: 2_000_000 } });
      const { real, there } = flood;
      const runs = await Promise.all([1, 2].map(() => real.start('anything', flooding)));
      await there.reaches(2);
      flood.begin();
      // Their turns are long over when both limits are reached.
      expect(textOfResult(await real.delegate('still here'))).toBe('still here');
      for (const run of runs) expect((await run.result).diagnostic).toMatch(/^LIMIT_EXCEEDED: /);
      for (const run of runs) await run.dispose();
    },
  );
});

/** What this process posts through ports, by the type of frame, with their sizes. */
function watchPosts() {
  const posted: Record<string, { frames: number; bytes: number }> = {};
  const prototype = MessagePort.prototype as {
    postMessage(value: unknown, ...more: unknown[]): void;
  };
  const { postMessage } = prototype;
  prototype.postMessage = function (value, ...more) {
    const type = (value as { type?: unknown } | null)?.type;
    const entry = (posted[typeof type === 'string' ? type : 'other'] ??= { frames: 0, bytes: 0 });
    entry.frames++;
    if (type === 'parts') entry.bytes += serialize(value).byteLength;
    postMessage.call(this, value, ...more);
  };
  return { posted, [Symbol.dispose]: () => void (prototype.postMessage = postMessage) };
}

describe('what main sends a thread that does not listen', () => {
  it('is bounded, whatever there would be to tell it', async () => {
    using watch = watchPosts();
    let given = 0;
    const endless = {
      async *stream(_: unknown, { signal }: { signal: AbortSignal }) {
        // Each is little, and all of them are more than any answer may have.
        for (let index = 0; !signal.aborted; index = (index + 1) % 900) {
          given++;
          yield { type: 'text-delta', index, text: 'x' } as const;
        }
      },
    };
    await using flood = await flooded('deaf', {
      models: { endless: endless as never },
      defaultModel: { provider: 'endless', model: 'test' },
      limits: { interruptGraceMs: 200, stopGraceMs: 200 },
    });
    const { agent: root } = await flood.real.harness.agents.create();
    root.followup(createUserMessage('anything'));
    await flood.there.reaches(1);
    // Until nothing more is read of the model: its parts have no credit left.
    for (let before = -1; before !== given;) {
      before = given;
      await macrotasks(200);
    }
    for (let count = 0; count < 1_000; count++) {
      root.followup(createUserMessage(`more ${count}`));
      root.steer(createUserMessage(`aside ${count}`));
    }
    for (let count = 0; count < 100; count++) root.cancel({ kind: 'user' }, { keepInbox: true });
    await macrotasks(200);
    const { parts, interrupt, reply, wake } = watch.posted;
    expect(given).toBeGreaterThan(256);
    expect(parts!.frames).toBeLessThanOrEqual(257);
    expect(parts!.bytes).toBeLessThan(4_000_000);
    expect(reply!.frames).toBe(2);
    expect(interrupt!.frames).toBe(1);
    expect(wake!.frames).toBe(2);
    expect(root.inbox.nextTurn.length + root.inbox.nextStep.length).toBe(2_000);
  });
});

describe('a reader of events that does not read', () => {
  it('makes main keep nothing for it: what it reads later is the log', async () => {
    await using real = await realHarness();
    const { harness } = real;
    const { agent: root } = await harness.agents.create();
    const slow = harness.sessions.follow(root.id);
    const first = await Promise.all([slow.next(), told(root, 'one')]);
    for (let count = 0; count < 30; count++) await told(root, `more ${count}`);
    const seen = [first[0].value!.seq];
    const last = root.session.events.at(-1)!.seq;
    for (let next = await slow.next(); !next.done; next = await slow.next()) {
      seen.push(next.value.seq);
      if (next.value.seq === last) break;
    }
    await slow.return();
    expect(seen).toEqual(root.session.events.map(({ seq }) => seq));
  });
});

async function told(agent: Agent, text: string): Promise<void> {
  agent.followup(createUserMessage(text));
  await agent.whenIdle();
}

async function macrotasks(count: number): Promise<void> {
  for (let left = count; left > 0; left--) await macrotask();
}
