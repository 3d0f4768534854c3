import { describe, expect, it } from 'vitest';
import { ArgumentError, JsonSchemaError, SubagentDepthError } from '../../protocol/errors.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type {
  SubagentCapabilities,
  SubagentRun,
  SubagentStartRequest,
} from '../../src/subagents/provider.ts';
import {
  ALL_CAPABILITIES,
  brokenPromise,
  completed,
  NO_CAPABILITIES,
  rejection,
  stubAgent,
  stubProvider,
  stubRun,
  testRuntime,
} from './stubs.ts';

const schema: ObjectJsonSchema = { type: 'object', properties: {} };

/** Start on a provider with these capabilities; what came of it, and what reached the provider. */
async function startWith(
  request: Partial<SubagentStartRequest>,
  capabilities: SubagentCapabilities = ALL_CAPABILITIES,
  harness: Parameters<typeof testRuntime>[0] = {},
) {
  const runtime = testRuntime(harness);
  const { provider, requests } = stubProvider({ capabilities });
  runtime.subagents.registerProvider(provider);
  const error = await rejection(runtime.subagents.start('stub', runtime.request(request)));
  return { error, requests, parent: runtime.parent };
}

/** The same, but for one part that throws when it is read. */
const unreadable = (whole: object, key: string): object =>
  Object.defineProperty({ ...whole }, key, {
    get() {
      throw new Error('not to be read');
    },
  });

const refused = (flag: string) =>
  expect.objectContaining({
    code: 'UNSUPPORTED_CAPABILITY',
    message: expect.stringContaining(flag) as string,
  }) as unknown;

describe('start', () => {
  it('refuses a name that no provider has', async () => {
    const { subagents, request } = testRuntime();
    await expect(subagents.start('nobody', request())).rejects.toMatchObject({
      code: 'NO_PROVIDER',
    });
  });

  it('refuses a parent that only has the id of a live agent, before anything else', async () => {
    const { subagents, request } = testRuntime();
    const start = subagents.start('nobody', request({ parent: stubAgent('parent'), maxDepth: -1 }));
    await expect(start).rejects.toMatchObject({ name: 'SubagentError', code: 'UNAUTHORIZED' });
  });

  it('refuses a parent that has left', async () => {
    const { subagents, request, live, parent } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    live.delete(parent.id);
    await expect(subagents.start('stub', request())).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    });
    expect(requests).toEqual([]);
  });

  it.each<[string, Partial<SubagentStartRequest>]>([
    ['outputSchema', { outputSchema: schema }],
    ['depthLimit', { maxDepth: 1 }],
    ['toolFilter', { toolFilter: { deny: [] } }],
    ['persona', { persona: '' }],
  ])('refuses what needs %s from a provider without it', async (flag, request) => {
    const { error, requests } = await startWith(request, NO_CAPABILITIES);
    expect(error).toEqual(refused(flag));
    expect(requests).toEqual([]);
  });

  it('names the first thing that is missing', async () => {
    const everything = {
      persona: 'p',
      toolFilter: { deny: [] },
      maxDepth: 1,
      outputSchema: schema,
    };
    const missing = { ...NO_CAPABILITIES };
    for (const flag of ['outputSchema', 'depthLimit', 'toolFilter', 'persona'] as const) {
      expect((await startWith(everything, missing)).error).toEqual(refused(flag));
      missing[flag as 'persona'] = true;
    }
  });

  it('looks at the depth cap before the schema', async () => {
    const bad = { maxDepth: -1, outputSchema: { type: 'string' } as unknown as ObjectJsonSchema };
    const { error, requests } = await startWith(bad);
    expect(error).toBeInstanceOf(ArgumentError);
    expect(requests).toEqual([]);
  });

  it.each([
    ['without an object at its root', { type: 'string' }, /root/],
    ['with an empty choice', { type: 'object', oneOf: [] }, /oneOf/],
    ['with a function as default', { type: 'object', default: () => 1 }, /lossless JSON/],
  ])('refuses a schema %s', async (_, outputSchema, named) => {
    const { error, requests } = await startWith({ outputSchema: outputSchema as never });
    expect(error).toBeInstanceOf(JsonSchemaError);
    expect(String((error as JsonSchemaError).violations)).toMatch(named);
    expect(requests).toEqual([]);
  });

  it('refuses a label that is no text', async () => {
    for (const label of [() => 'l', Symbol('l'), 7]) {
      const { error, requests } = await startWith({ label: label as never });
      expect(error).toBeInstanceOf(ArgumentError);
      expect(requests).toEqual([]);
    }
  });

  it('refuses a request without a signal', async () => {
    const { error, requests } = await startWith({ signal: undefined as never });
    expect(error).toBeInstanceOf(ArgumentError);
    expect(requests).toEqual([]);
  });

  it('holds every child to the cap of the harness, whatever its provider can do', async () => {
    const { error, requests } = await startWith({}, NO_CAPABILITIES, { maxDepth: 0 });
    expect(error).toEqual(new SubagentDepthError(1, 0));
    expect(requests).toEqual([]);
  });

  it('refuses a parent whose depth is no number to count with', async () => {
    for (const subagentDepth of [NaN, -1, Number.MAX_SAFE_INTEGER]) {
      const parent = stubAgent('odd', { options: { subagentDepth } });
      const { error, requests } = await startWith({ parent }, undefined, { agents: [parent] });
      expect(error).toBeInstanceOf(ArgumentError);
      expect(requests).toEqual([]);
    }
  });

  it('gives the provider a request of its own, with a one-shot descriptor', async () => {
    const { subagents, request } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    const plain = request();
    await subagents.start('stub', plain);
    await subagents.start('stub', request({ label: 'read', persona: 'p', maxDepth: 2 }));
    const [first, second] = requests;
    expect(first).not.toBe(plain);
    expect(first).toStrictEqual({
      ...plain,
      descriptor: { version: 1, mode: 'one-shot', provider: 'stub' },
    });
    expect(plain).not.toHaveProperty('descriptor');
    expect(second).toMatchObject({
      label: 'read',
      persona: 'p',
      maxDepth: 2,
      descriptor: { version: 1, mode: 'one-shot', provider: 'stub', label: 'read' },
    });
  });

  it('gives the provider copies: neither may what is frozen keep it, nor what is changed reach it', async () => {
    const { subagents, request } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    const parts = {
      agentOptions: { model: 'm' },
      outputSchema: { type: 'object', properties: { n: { type: 'integer' } } },
      toolFilter: { allow: ['look'] },
      limits: { turnMs: 1_000 },
    } satisfies Partial<SubagentStartRequest>;
    const was = structuredClone(parts);
    await subagents.start('stub', Object.freeze(request(parts)));
    parts.agentOptions.model = 'other';
    parts.outputSchema.properties.n.type = 'text';
    parts.toolFilter.allow.push('write');
    parts.limits.turnMs = 1;
    expect(requests[0]).toMatchObject(was);
    expect(Object.isFrozen(requests[0])).toBe(false);
  });

  it('gives the provider what was checked, though the request says something else by then', async () => {
    const { subagents, request } = testRuntime();
    const { provider, requests } = stubProvider({ capabilities: NO_CAPABILITIES });
    subagents.registerProvider(provider);
    const answers = [undefined, 'You rule.'];
    const twoFaced = Object.defineProperty(request(), 'persona', {
      enumerable: true,
      get: () => answers.shift(),
    });
    await subagents.start('stub', twoFaced);
    expect(requests[0]!.persona).toBeUndefined();
    expect(answers).toEqual(['You rule.']);
  });

  it('refuses a parent whose id cannot even be printed', async () => {
    const { subagents, request } = testRuntime();
    for (const id of [Symbol('id'), Object.create(null) as object]) {
      const start = subagents.start('stub', request({ parent: { id } as never }));
      await expect(start).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    }
  });

  it('rejects with what the provider throws at once', async () => {
    const failure = new Error('not even a promise');
    const { subagents, request } = testRuntime();
    const start = (): never => {
      throw failure;
    };
    subagents.registerProvider(stubProvider({ start }).provider);
    await expect(subagents.start('stub', request())).rejects.toBe(failure);
  });

  it('can be asked for while its provider is told of', async () => {
    const { subagents, request } = testRuntime();
    const { run } = stubRun();
    const starts: Promise<unknown>[] = [];
    subagents.on('subagent/provider-added', ({ name }) => {
      starts.push(subagents.start(name, request()));
    });
    subagents.registerProvider(stubProvider({ start: async () => run }).provider);
    expect(await Promise.all(starts)).toEqual([run]);
  });

  it('keeps a run that was started while its provider was told of and then refused', async () => {
    const { subagents, request } = testRuntime();
    const { run } = stubRun();
    const starts: Promise<unknown>[] = [];
    subagents.on('subagent/provider-added', ({ name }) => {
      starts.push(subagents.start(name, request()));
      throw new Error('not this one');
    });
    const { provider } = stubProvider({ start: async () => run });
    expect(() => subagents.registerProvider(provider)).toThrow('not this one');
    expect(await starts[0]).toBe(run);
    expect(subagents.getProvider('stub')).toBeUndefined();
  });

  it('calls the provider in the tick of the call', () => {
    const { subagents, request } = testRuntime();
    const { provider, requests } = stubProvider({});
    subagents.registerProvider(provider);
    void subagents.start('stub', request());
    expect(requests).toHaveLength(1);
  });

  it.each<[string, (run: SubagentRun) => unknown]>([
    ['nothing', () => undefined],
    ['null', () => null],
    ['a text', () => 'run'],
    ['no id', (run) => ({ ...run, id: undefined })],
    ['an empty id', (run) => ({ ...run, id: '' })],
    ['a result that is no promise', (run) => ({ ...run, result: completed() })],
    ['no result', (run) => ({ ...run, result: undefined })],
    ['no way to dispose it', (run) => ({ ...run, dispose: undefined })],
    ['an agent of another id', (run) => ({ ...run, localAgent: stubAgent('other') })],
    ['an id that cannot be read', (run) => unreadable(run, 'id')],
    ['a disposal that cannot be read', (run) => unreadable(run, 'dispose')],
    ['a promise that throws, and no id', (run) => ({ ...run, result: brokenPromise(), id: '' })],
    ['a result with no then to read', (run) => ({ ...run, result: unreadable({}, 'then') })],
  ])('refuses a provider that returns %s as its run, and tells nothing of it', async (_, made) => {
    const { subagents, request, logger } = testRuntime();
    const stub = stubRun();
    const told: unknown[] = [];
    subagents.on('subagent/start', (info) => told.push(info));
    subagents.on('subagent/end', (info) => told.push(info));
    const returned = made(stub.run);
    subagents.registerProvider(stubProvider({ start: async () => returned as never }).provider);
    const error = await rejection(subagents.start('stub', request()));
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as Error).message).toMatch(/provider "stub"/);
    expect(told).toEqual([]);
    const dispose = Object.getOwnPropertyDescriptor(Object(returned), 'dispose')?.value as unknown;
    expect(stub.disposals).toBe(typeof dispose === 'function' ? 1 : 0);
    expect(logger.warnings).toEqual([]);
    // Nobody holds its result any more: no failure of it is unhandled.
    const { result } = Object(returned) as SubagentRun;
    if (result === stub.run.result) stub.fail(new Error('too late'));
  });

  it('says what is wrong with a run, though that cannot be disposed either', async () => {
    const { subagents, request, logger } = testRuntime();
    const { run } = stubRun();
    const dispose = () => Promise.reject(new Error('stuck'));
    const start = async () => ({ ...run, id: '' as never, dispose });
    subagents.registerProvider(stubProvider({ start }).provider);
    await expect(subagents.start('stub', request())).rejects.toThrow(/no id/);
    expect(logger.warnings.map(({ error }) => error?.message)).toEqual(['stuck']);
  });

  it('refuses a cap of the harness that is no number to count with', () => {
    expect(() => testRuntime({ maxDepth: 1.5 })).toThrow(ArgumentError);
  });
});
