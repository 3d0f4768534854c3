import { describe, expect, it } from 'vitest';
import { fixture, realHarness } from './real.ts';
import type { RealHarness } from './real.ts';
import type { SubagentStartRequest } from '../../dist/src/index.js';

/** A start that must fail, and everything that was to be seen of it. */
async function failedStart(
  real: RealHarness,
  request: Partial<SubagentStartRequest> = {},
): Promise<{ error: unknown; told: string[] }> {
  const told: string[] = [];
  for (const type of [
    'session/created',
    'session/event',
    'session/disposed',
    'agent/created',
    'agent/status',
    'agent/error',
    'subagent/start',
    'subagent/end',
  ] as const) {
    real.harness.on(type, () => told.push(type));
  }
  const error = await real.start('anything', request).then(
    () => undefined,
    (failure: unknown) => failure,
  );
  return { error, told };
}

describe('a start is refused, and nothing is left of it, when a module', () => {
  it.each([
    ['does not exist', 'missing.mjs', 'WORKER_START_FAILED', /missing\.mjs/],
    ['throws while it is loaded', 'throws.mjs', 'WORKER_START_FAILED', /throws\.mjs.*Not today/],
    ['is no program', 'no-program.txt', 'WORKER_START_FAILED', /no-program\.txt/],
    ['exports no tool', 'no-tool.mjs', 'WORKER_START_FAILED', /no-tool\.mjs.*default export/],
    ['exits while it is loaded', 'exits.mjs', 'WORKER_EXITED', /exit code 5/],
    ['is never loaded', 'endless.mjs', 'WORKER_START_TIMEOUT', /1500 ms/],
    ['loops while it is loaded', 'spins.mjs', 'WORKER_START_TIMEOUT', /1500 ms/],
  ])('%s', async (_, name, code, message) => {
    await using real = await realHarness({
      tools: [{ module: fixture(`modules/${name}`) }],
      limits: { startMs: 1_500 },
    });
    const { error, told } = await failedStart(real);
    expect(error).toMatchObject({ name: 'WorkerError', code });
    expect((error as Error).message).toMatch(message);
    expect(told).toEqual([]);
    expect(real.harness.agents.list()).toEqual([real.host]);
    expect(real.harness.sessions.list()).toEqual([real.host.session]);
    expect(await real.harness.sessionPersistence.list()).toEqual([]);
  });
});

it('refuses a start whose tool module and main disagree about a name', async () => {
  await using real = await realHarness({
    tools: [
      { module: fixture('tools.mjs') },
      { name: 'echo', description: 'x', parameters: { type: 'object' }, execute: () => 'main' },
    ],
  });
  const { error, told } = await failedStart(real);
  expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
  expect((error as Error).message).toMatch(/echo/);
  expect(told).toEqual([]);
});

it('takes back a start whose signal aborts while its modules are loaded', async () => {
  await using real = await realHarness({ tools: [{ module: fixture('modules/endless.mjs') }] });
  const controller = new AbortController();
  const reason = new Error('Changed my mind.');
  const start = real.start('anything', { signal: controller.signal });
  setImmediate(() => controller.abort(reason));
  await expect(start).rejects.toBe(reason);
  expect(real.harness.agents.list()).toEqual([real.host]);
});

describe('a start is refused in the tick of the call, with the reason, when what cannot cross is', () => {
  const text = (value: unknown): never => [{ type: 'text', text: value }] as never;
  it.each<[string, Partial<SubagentStartRequest>, string]>([
    ['a function in the prompt', { prompt: text(() => 'Hi') }, 'INVALID_ARGUMENT'],
    ['a bigint in the prompt', { prompt: text(1n) }, 'INVALID_ARGUMENT'],
    ['a prompt that refers to itself', { prompt: selfReferring() }, 'INVALID_ARGUMENT'],
    [
      'a model that is a function',
      { agentOptions: { model: (() => 'm') as never } },
      'INVALID_ARGUMENT',
    ],
    ['a symbol as a limit', { limits: { turnMs: Symbol('long') as never } }, 'INVALID_ARGUMENT'],
    [
      'a function in the schema',
      { outputSchema: { type: 'object', properties: { a: (() => true) as never } } },
      'UNSUPPORTED_SCHEMA',
    ],
    ['a label that is no text', { label: (() => 'x') as never }, 'INVALID_ARGUMENT'],
  ])('%s', async (_, request, code) => {
    await using real = await realHarness();
    const { error, told } = await failedStart(real, request);
    expect(error).toMatchObject({ code });
    expect(told).toEqual([]);
    expect(real.harness.agents.list()).toEqual([real.host]);
  });

  it('an option of a tool module', async () => {
    const making = realHarness({
      tools: [{ module: fixture('tools.mjs'), options: { run: () => {} } }],
    });
    await expect(making).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('an option of a model module', async () => {
    const making = realHarness({
      models: { inThread: { module: fixture('model.mjs'), options: { run: () => {} } } },
      defaultModel: { provider: 'inThread', model: 'm' },
    });
    await expect(making).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

function selfReferring(): never {
  const block: Record<string, unknown> = { type: 'text', text: 'x' };
  block['more'] = block;
  return [block] as never;
}
