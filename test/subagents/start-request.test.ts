/** What is made of a request before the provider gets it: each part is read once, and copied. */
import { describe, expect, it } from 'vitest';
import { ArgumentError, JsonSchemaError } from '../../protocol/errors.ts';
import type { SubagentStartRequest } from '../../src/subagents/provider.ts';
import { spawning } from './spawning.ts';
import {
  ALL_CAPABILITIES,
  rejection,
  stubAgent,
  stubProvider,
  testRuntime,
  text,
} from './stubs.ts';

/** An object one of whose properties answers something else at each reading. */
const changing = (key: string, ...answers: unknown[]): object =>
  Object.defineProperty({}, key, { enumerable: true, get: () => answers.shift() });
const failure = new Error('not to be read');
const broken = (key: string): object =>
  Object.defineProperty({}, key, {
    enumerable: true,
    get() {
      throw failure;
    },
  });

/** Starts on a provider that can do all; what came of it, and what reached the provider. */
async function startWith(more: object) {
  const { subagents, request } = testRuntime();
  const { provider, requests } = stubProvider({ capabilities: ALL_CAPABILITIES });
  subagents.registerProvider(provider);
  const given = { ...request(), ...more } as SubagentStartRequest;
  return { error: await rejection(subagents.start('stub', given)), got: requests[0] };
}

describe('a request', () => {
  it.each([['Work.'], [Object.freeze([text('Work.')])]])(
    'gives the provider blocks of its own for the prompt %j',
    async (prompt) => {
      const { error, got } = await startWith({ prompt });
      expect(error).toBeUndefined();
      expect(got?.prompt).toEqual([text('Work.')]);
      expect(Object.isFrozen(got?.prompt)).toBe(false);
    },
  );

  it.each<[string, object, object]>([
    ['prompt', [changing('text', 'first', 'second')], [{ text: 'first' }]],
    ['agentOptions', changing('model', 'first', 'second'), { model: 'first' }],
    ['limits', changing('turnMs', 1, -1), { turnMs: 1 }],
    ['toolFilter', changing('allow', ['first'], ['second']), { allow: ['first'] }],
    ['toolFilter', { deny: Object.assign([], changing('0', 'first')) }, { deny: ['first'] }],
    [
      'outputSchema',
      { type: 'object', properties: { x: changing('type', 'string', () => {}) } },
      { type: 'object', properties: { x: { type: 'string' } } },
    ],
  ])('gives the provider the %s that was read first', async (field, value, expected) => {
    const { error, got } = await startWith({ [field]: value });
    expect(error).toBeUndefined();
    expect(JSON.parse(JSON.stringify(got))).toMatchObject({ [field]: expected });
  });

  it.each<[string, object]>([
    ['prompt', [broken('text')]],
    ['agentOptions', broken('model')],
    ['limits', broken('turnMs')],
    ['toolFilter', broken('allow')],
  ])('is refused for a %s that cannot be read, which is the cause', async (field, value) => {
    const { error, got } = await startWith({ [field]: value });
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as Error).cause).toBe(failure);
    expect(got).toBeUndefined();
  });

  it('is refused for a schema that cannot be read', async () => {
    const { error, got } = await startWith({ outputSchema: broken('type') });
    expect(error).toBeInstanceOf(JsonSchemaError);
    expect(got).toBeUndefined();
  });

  it('is refused when it cannot be read itself', async () => {
    const { subagents, request } = testRuntime();
    const given = Object.defineProperties(
      request(),
      Object.getOwnPropertyDescriptors(broken('persona')),
    );
    const error = await rejection(subagents.start('stub', given));
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as Error).cause).toBe(failure);
  });

  it('shares no prompt with the provider, which may go on with its own', async () => {
    const prompt = Object.freeze([Object.freeze(text('Work.'))]);
    const { got } = await startWith({ prompt });
    expect(got!.prompt).toEqual(prompt);
    expect(got!.prompt).not.toBe(prompt);
    expect(Object.isFrozen(got!.prompt[0])).toBe(false);
  });

  it.each<[string, unknown]>([
    ['a number', 7],
    ['nothing', undefined],
    ['one block', text('Work.')],
    ['a list with a function', [{ type: 'text', text: () => 'Work.' }]],
    ['a list with a date', [{ type: 'text', text: 'Work.', at: new Date(0) }]],
    ['a list of more than can be taken', Array.from({ length: 100_001 }, () => null)],
    ['what answers nothing', revoked()],
  ])('is refused for a prompt that is %s, whatever the provider', async (_, prompt) => {
    const { error, got } = await startWith({ prompt });
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as Error).message).toMatch(/prompt/);
    expect(got).toBeUndefined();
  });

  it('is refused for a tool filter of more names than there can be tools', async () => {
    const { error, got } = await startWith({ toolFilter: { deny: Array(2 ** 32 - 1) } });
    expect(error).toBeInstanceOf(ArgumentError);
    expect(got).toBeUndefined();
  });

  it('is refused for a schema that its shared parts make too large to write', async () => {
    let part: object = { type: 'null' };
    for (let level = 0; level < 60; level++) {
      part = { type: 'object', properties: { a: part, b: part } };
    }
    const { error, got } = await startWith({ outputSchema: part });
    expect(error).toMatchObject({ code: 'UNSUPPORTED_SCHEMA' });
    expect((error as Error).message).toMatch(/more than 100000 values/);
    expect(got).toBeUndefined();
  });
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('who a child is started for', () => {
  it.each<[string, unknown, RegExp]>([
    ['nothing', undefined, /it is no agent/],
    ['null', null, /it is no agent/],
    ['a text', 'parent', /it is no agent/],
    ['a handle', { agent: stubAgent('parent') }, /it is a handle; give the agent itself/],
    ['what cannot be read', broken('id'), /it cannot be read/],
  ])('is not %s, and the refusal says so', async (_, parent, words) => {
    const { subagents, request } = testRuntime();
    const start = subagents.start('stub', { ...request(), parent: parent as never });
    await expect(start).rejects.toMatchObject({ code: 'UNAUTHORIZED', message: words as never });
  });

  it('is no agent that has ended, and no handle of one that lives', async () => {
    await using t = await spawning();
    const ended = await t.harness.agents.create();
    await ended.dispose();
    const { id } = ended.agent;
    expect(await rejection(t.start({ parent: ended.agent }))).toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining(`"${id}" is not live here: it has ended`) as string,
    });
    expect(await rejection(t.start({ parent: t.rootHandle as never }))).toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('it is a handle') as string,
    });
  });
});

it('names the providers there are when one is asked for that is none of them', async () => {
  const { subagents, request } = testRuntime();
  const words = (): Promise<unknown> => rejection(subagents.start('spwan', request()));
  expect(await words()).toMatchObject({ message: expect.stringContaining('there is none') });
  subagents.registerProvider(stubProvider({ name: 'spawn' }).provider);
  subagents.registerProvider(stubProvider({ name: 'mine' }).provider);
  expect(await words()).toMatchObject({
    code: 'NO_PROVIDER',
    message: expect.stringContaining('there are: "spawn", "mine".'),
  });
});

describe.each(['spawn', 'fork'])('a start of %s', (provider) => {
  it.each<[string, Partial<SubagentStartRequest>, RegExp]>([
    ['an empty prompt', { prompt: [] }, /no text that a model could read/],
    ['a blank prompt', { prompt: [text(' \n')] }, /no text that a model could read/],
    ['a prompt of pictures', { prompt: [{ type: 'image' } as never] }, /no text/],
    ['a blank text as its prompt', { prompt: ' ' }, /no text that a model could read/],
    ['a number as its prompt', { prompt: 7 as never }, /no list of content blocks/],
    ['no number as a limit', { limits: { memoryMb: null as never } }, /memoryMb .*not null/],
    ['a limit that does not exist', { limits: { turns: 1 } as never }, /has no "turns"/],
    ['a filter of lists that do not exist', { toolFilter: { allowed: [] } as never }, /"allowed"/],
    ['an option that does not exist', { agentOptions: { modell: 'm' } as never }, /"modell"/],
    ['a field that does not exist', { timeout: 1 } as never, /has no "timeout"/],
    [
      'a signal that cannot be let go of',
      { signal: { aborted: false, addEventListener() {} } as never },
      /"signal" of a start request takes an AbortSignal/,
    ],
  ])('is refused for %s, and leaves nothing', async (_, more, words) => {
    await using t = await spawning({ provider });
    const before = t.live();
    const error = await rejection(t.start(more));
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as Error).message).toMatch(words);
    expect(t.live()).toEqual(before);
  });
});

it('is made twelve times with one signal and one parent, without a word of a leak', async () => {
  const warned: string[] = [];
  const listen = ({ name }: Error): void => void warned.push(name);
  process.on('warning', listen);
  try {
    await using t = await spawning({ script: () => 'Done.' });
    const { signal } = new AbortController();
    const runs = await Promise.all(Array.from({ length: 12 }, () => t.run({ signal })));
    expect(runs.map(({ result }) => result.stopReason)).toEqual(Array(12).fill('completed'));
    // Told in a tick of its own.
    await new Promise((resolve) => setImmediate(resolve));
    expect(warned).toEqual([]);
  } finally {
    process.off('warning', listen);
  }
});
