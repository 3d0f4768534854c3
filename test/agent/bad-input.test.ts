import { describe, expect, it } from 'vitest';
import type { UserMessage } from '../../protocol/content.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { buildHarness } from '../../src/harness.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { testHarness } from '../support/harness.ts';

const INVALID = expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as Error;

describe('a message that is none', () => {
  it.each<[string, unknown]>([
    ['text', 'hi'],
    ['nothing', undefined],
    ['one without an id', { role: 'user', content: [], source: { kind: 'user' } }],
    [
      'one with text as its content',
      { id: 'm', role: 'user', content: 'hi', source: { kind: 'user' } },
    ],
    ['one without a source', { id: 'm', role: 'user', content: [] }],
  ])('is refused at once when it is %s, and the agent goes on', async (_, given) => {
    await using rt = await testHarness({ script: ['Hello.'] });
    for (const accept of ['followup', 'steer', 'inject'] as const) {
      expect(() => rt.root[accept](given as UserMessage)).toThrow(INVALID);
    }
    await rt.ask('Hi');
    expect(rt.model.requests).toHaveLength(1);
  });

  it('cannot be made of blocks that are not filled', () => {
    expect(() => createUserMessage([{ type: 'text' } as never])).toThrow(INVALID);
    expect(() => createUserMessage([{ text: 'hi' } as never])).toThrow(INVALID);
  });
});

describe('a message that is nested deeply', () => {
  const nested = (depth: number): object => {
    let value: object = {};
    for (let level = 1; level < depth; level++) value = { x: value };
    return value;
  };

  it('is made down to 900 levels, which a log can hold', async () => {
    await using rt = await testHarness({ script: ['Hello.'] });
    // The message, its content, and the block are levels as well.
    await rt.ask(createUserMessage([{ type: 'x', x: nested(897) } as never]));
    expect(rt.model.requests).toHaveLength(1);
  });

  it.each<[string, () => UserMessage]>([
    ['content', () => createUserMessage([{ type: 'x', x: nested(898) } as never])],
    ['content without end', () => createUserMessage([{ type: 'x', x: nested(50_000) } as never])],
    ['source', () => createUserMessage('hi', { kind: 'x', x: nested(899) } as never)],
  ])('is refused for its %s below that', (_, make) => {
    expect(make).toThrow(INVALID);
  });
});

it('refuses to cancel for no cause', async () => {
  await using rt = await testHarness();
  for (const cause of ['stop', undefined, { kind: 'whim' }]) {
    expect(() => rt.root.cancel(cause as CancelCause)).toThrow(INVALID);
  }
});

it('refuses to make an agent of a session that is stored, and says to resume it', async () => {
  const store = new MemoryStore();
  {
    await using rt = await testHarness({ store, script: ['Hello.'] });
    const { agent } = await rt.harness.agents.create({ sessionId: 'conversation' });
    await rt.ask('Hi', agent);
  }
  await using rt = await testHarness({ store, script: ['Again.'] });
  const { agents } = rt.harness;
  await expect(agents.create({ sessionId: 'conversation' })).rejects.toThrow(/resume it/);
  const { agent } = await agents.resume('conversation');
  await rt.ask('Hi', agent);
  expect(agent.session.lastTurn).toBe(2);
});

it('refuses options, limits and events that do not exist', async () => {
  await using rt = await testHarness();
  const { agents } = rt.harness;
  await expect(agents.create({ model: 'x' } as object)).rejects.toThrow(INVALID);
  await expect(agents.create({ agentOptions: { temperature: 1 } as object })).rejects.toThrow(
    INVALID,
  );
  await expect(agents.create({ limits: { turnMS: 1 } as object })).rejects.toThrow(
    /memoryMb, turnMs/,
  );
  await expect(agents.resume('x', { owner: rt.root } as object)).rejects.toThrow(INVALID);
  expect(() => rt.harness.on('subagent/ended' as 'subagent/end', () => {})).toThrow(
    /subagent\/end/,
  );
  const start = {
    parent: rt.root,
    prompt: [{ type: 'text', text: 'go' }] as const,
    signal: new AbortController().signal,
  };
  const { subagents } = rt.harness;
  await expect(subagents.start('spawn', { ...start, timeoutMs: 1 } as never)).rejects.toThrow(
    /"timeoutMs"/,
  );
  await expect(
    subagents.start('spawn', { ...start, parent: rt.rootHandle } as never),
  ).rejects.toThrow(/handle\.agent/);
});

describe('a harness', () => {
  it.each<[string, object]>([
    ['an option that does not exist', { modles: {} }],
    ['a store that is none', { store: {} }],
    ['a logger without methods', { logger: {} }],
    ['tools that are no list', { tools: 5 }],
    ['a persona that is no text', { persona: () => 'x' }],
    ['a default model that is null', { defaultModel: null }],
    ['limits that are null', { limits: null }],
    ['flags that are no list', { limits: { execArgv: '--x' } }],
    ['an entry that is no URL', { workers: { entry: 5 } }],
    ['names of variables that are no list', { workers: { env: 'PATH' } }],
  ])('is refused with %s', async (_, options) => {
    await expect(buildHarness(options)).rejects.toThrow(INVALID);
  });
});

describe('a start', () => {
  it.each<[string, object | null]>([
    ['nothing', null],
    ['a model that is no text', { agentOptions: { model: 5 } }],
    ['a persona that is a function', { persona: () => 'x' }],
    ['a filter that is null', { toolFilter: null }],
    ['a signal that is none', { signal: 5 }],
    ['a limit that does not exist', { limits: { stepsMs: 1 } }],
  ])('is refused with %s', async (_, odd) => {
    await using rt = await testHarness();
    const request = {
      parent: rt.root,
      prompt: [{ type: 'text', text: 'go' }],
      signal: new AbortController().signal,
    };
    const given = odd === null ? null : { ...request, ...odd };
    await expect(rt.harness.subagents.start('spawn', given as never)).rejects.toThrow(INVALID);
    expect(rt.harness.agents.list()).toEqual([rt.root]);
  });
});

it('gives what the last request said, not what the failed ones before it did', async () => {
  await using rt = await testHarness({
    models: {},
    script: [
      { text: 'par', failure: { code: 'SERVER', message: 'gone' } },
      { text: 'par', failure: { code: 'AUTH', message: 'no' } },
    ],
  });
  const run = await rt.harness.subagents.start('spawn', {
    parent: rt.root,
    prompt: [{ type: 'text', text: 'go' }],
    signal: new AbortController().signal,
  });
  expect((await run.result).output).toEqual([{ type: 'text', text: 'par' }]);
  await run.dispose();
});
