import { describe, expect, it } from 'vitest';
import { fact, fixture, obedientModel, realHarness, textOfResult } from './real.ts';
import type { RealHarness } from './real.ts';
import type { HarnessOptions } from '../../dist/src/index.js';

/** Threads whose entry breaks the protocol when they serve an agent of the model `hostile`. */
async function hostileHarness(what: string, options: HarnessOptions = {}): Promise<RealHarness> {
  // Read once, when the harness is made.
  process.env['HOSTILE'] = what;
  try {
    return await realHarness({
      models: { obedient: obedientModel(), hostile: { module: fixture('model.mjs') } },
      workers: { warm: 0, entry: fixture('hostile-entry.mjs'), env: ['HOSTILE'] },
      ...options,
    });
  } finally {
    delete process.env['HOSTILE'];
  }
}
const hostile = { agentOptions: { provider: 'hostile', model: 'test' } };

describe('a child whose thread', () => {
  it.each([
    ['posts an object instead of bytes', 'object'],
    ['posts bytes that it can still change', 'shared'],
    ['posts a frame of 2 MiB', 'huge'],
    ['posts noise', 'noise'],
    ['posts bytes that may grow to 1 GiB', 'growing'],
    ['tells of a long error', 'long-error'],
    ['posts keys of prototypes', 'polluting'],
    ['says twice that it is ready', 'ready-again'],
    ['says that it stopped without being asked', 'stopped-unasked'],
    ['forges a call that reads a property', 'get'],
    ['forges an argument that is no data', 'handler'],
    ['opens hundreds of calls at once', 'many-calls'],
    ['ends a turn that is not open', 'end-unopened'],
    ['finishes a call that was never made', 'finish-unopened'],
    ["posts on its thread's own port", 'own-port'],
    ['claims a second turn inside of one', 'second-turn'],
    ['says it was cancelled when it was not', 'aborted-unasked'],
    ['makes up a message of no stream', 'unknown-stream'],
  ])('%s is ended for it', async (_, what) => {
    await using real = await hostileHarness(what);
    const failed = await real.delegate('anything', hostile);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^PROTOCOL_VIOLATION: /);
    expect(real.harness.agents.list()).toEqual([real.host]);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    // The next child of the same entry is served as if nothing had happened.
    expect(textOfResult(await real.delegate('still here'))).toBe('still here');
  });

  it.each([
    ['150 000 empty objects', 'many-empty'],
    ['60 000 objects with a key for which others make a list', 'number-keys'],
  ])('posts a frame of %s is ended before they are made', async (_, what) => {
    await using real = await hostileHarness(what);
    const failed = await real.delegate('anything', hostile);
    expect(failed.diagnostic).toBe('PROTOCOL_VIOLATION: A frame could not be decoded.');
    expect(textOfResult(await real.delegate('still here'))).toBe('still here');
  });

  it('closes its port and lives on is ended', async () => {
    await using real = await hostileHarness('close-port');
    const failed = await real.delegate('anything', hostile);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^WORKER_EXITED: The thread closed its port/);
  });

  it('posts more events than it has credit for is ended for it', async () => {
    const posted = fact();
    const options = { shared: posted.shared };
    await using real = await hostileHarness('beyond-credit', {
      tools: [{ module: fixture('tools.mjs'), options }],
    });
    // Main is held until all of them are posted: not one can be acknowledged before.
    real.harness.on('session/event', ({ event }) => {
      if (event.type === 'assistant/chunk') Atomics.wait(new Int32Array(posted.shared), 0, 0);
    });
    const failed = await real.delegate('anything', hostile);
    expect(failed.stopReason).toBe('error');
    expect(failed.diagnostic).toMatch(/^PROTOCOL_VIOLATION: .*credit/);
  });
});

describe('a thread that', () => {
  it.each([
    ['gives no sign of life', 'mute', 'WORKER_START_TIMEOUT'],
    ['says up with an object', 'up-object', 'PROTOCOL_VIOLATION'],
    ['says up with noise', 'up-noise', 'PROTOCOL_VIOLATION'],
    ['says something else than up', 'ready-first', 'PROTOCOL_VIOLATION'],
    ['speaks another version', 'other-version', 'PROTOCOL_VERSION'],
    ['exits while it starts', 'exit', 'WORKER_EXITED'],
    ['throws while it starts', 'throw', 'WORKER_CRASHED'],
  ])('%s makes the start fail, and nothing is left of it', async (_, what, code) => {
    await using real = await hostileHarness(what, { limits: { startMs: 1_000 } });
    const told: string[] = [];
    const { harness } = real;
    for (const type of ['session/created', 'agent/created', 'subagent/start'] as const) {
      harness.on(type, () => told.push(type));
    }
    const failure = await real.start('anything').catch((error: unknown) => error);
    expect(failure).toMatchObject({ code });
    expect(told).toEqual([]);
    expect(harness.agents.list()).toEqual([real.host]);
    expect(harness.sessions.list()).toEqual([real.host.session]);
    expect(await harness.sessionPersistence.list()).toEqual([]);
  });
});

it('loses no result that is told right before the thread ends', { timeout: 240_000 }, async () => {
  await using real = await hostileHarness('tell-and-exit');
  const rounds = 100;
  const told: string[] = [];
  const lane = async (): Promise<void> => {
    while (told.length < rounds) {
      told.push('');
      const at = told.length - 1;
      const result = await real.delegate('anything', hostile);
      told[at] = `${result.stopReason}: ${textOfResult(result)}`;
    }
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
  expect(new Set(told)).toEqual(new Set(['completed: all of it']));
});
