import { describe, expect, it } from 'vitest';
import type { ContentBlock } from '../../protocol/content.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import { CallId, SessionId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { systemClock } from '../../src/base/clock.ts';
import { newId } from '../../src/base/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Scope } from '../../src/base/scope.ts';
import { PromptRegistry } from '../../src/prompt/prompt.ts';
import { Session } from '../../src/session/session.ts';
import { installStructuredOutput } from '../../src/subagents/structured.ts';
import { ToolDesk } from '../../src/tools/desk.ts';
import type { ToolResult } from '../../src/tools/desk.ts';
import { ToolRegistry } from '../../src/tools/registry.ts';

const schema: ObjectJsonSchema = {
  type: 'object',
  properties: { count: { type: 'integer' } },
  required: ['count'],
  additionalProperties: false,
};
const registries = () => ({ tools: new ToolRegistry(), prompt: new PromptRegistry() });

/**
 * One child with the real registries, desk and log, and its first step open. `rewrite` changes
 * a result before it becomes the authoritative one in the log.
 */
function childOf({ tools, prompt }: ReturnType<typeof registries>, outputSchema = schema) {
  const id = SessionId(newId());
  const session = new Session({ header: { version: 0, id, createdAt: 0 }, clock: systemClock });
  const agent = { id, session } as unknown as Agent;
  const scope = new Scope();
  const child = {
    tools: tools.scope(),
    prompt: prompt.scope(),
    onDispose: (undo: () => void | Promise<void>) => void scope.add(undo),
  };
  const ran: unknown[] = [];
  child.tools.register({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: (args) => void ran.push(args),
    isConcurrencySafe: () => true,
  });
  const capture = installStructuredOutput(child, outputSchema);
  session.append('turn/start', { turn: 1 });
  session.append('step/start', { turn: 1, step: 1 });

  const results: ToolResult[] = [];
  let rewrite = (result: ToolResult): ToolResult => result;
  const desk = new ToolDesk({
    scope: child.tools,
    clock: systemClock,
    logger: silentLogger,
    ports: {
      agent,
      started: async ({ turn, step, callId, name, arguments: raw }) =>
        void session.append('tool/call', { turn, step, callId, name, arguments: raw }),
      settled({ turn, step, callId }, settled) {
        const result = rewrite(settled);
        results.push(result);
        const { content, isError } = result;
        session.append('tool/result', {
          turn,
          step,
          message: {
            id: newId() as never,
            role: 'user',
            source: { kind: 'tool', callId },
            content: [{ type: 'tool-result', toolCallId: callId, content, isError }],
          },
        });
      },
    },
  });
  const call = (name: string, args: JsonObject | string, callId = newId()) => {
    const request: ToolCallRequest = {
      turn: 1,
      step: 1,
      callId: CallId(callId),
      name,
      arguments: typeof args === 'string' ? args : JSON.stringify(args),
    };
    return desk.call(request, new AbortController().signal);
  };
  return {
    capture,
    call,
    child,
    results,
    ran,
    rewriteResults: (by: typeof rewrite) => void (rewrite = by),
    assemble: async () => {
      const { signal } = new AbortController();
      return (await child.prompt.assemble({ agent, signal })).system();
    },
    dispose: () => scope.dispose(),
  };
}

const blocked = (result: ToolResult): ToolResult => ({
  ...result,
  content: [{ type: 'text', text: 'No.' }],
  isError: true,
});
const textOf = (result: ToolResult | undefined): string =>
  result?.content.map((block: ContentBlock) => ('text' in block ? block.text : '')).join('') ?? '';

describe('structured output', () => {
  it('captures the value of a call that succeeds, and concludes the turn', async () => {
    const t = childOf(registries());
    const reply = await t.call('structured_output', { count: 3 });
    expect(reply).toEqual({ done: true, concludesTurn: true });
    expect(textOf(t.results[0])).toBe('{"recorded":true}');
    expect(t.capture.captured).toEqual({ value: { count: 3 } });
  });

  it('shows the schema of the caller as the parameters of the tool', () => {
    const t = childOf(registries());
    const shown = t.child.tools.view().find(({ name }) => name === 'structured_output');
    expect(shown?.parameters).toEqual(schema);
  });

  it('denies every call after the capture, also one made in the same response', async () => {
    const t = childOf(registries());
    const calls = [
      t.call('structured_output', { count: 1 }),
      t.call('look', { at: 1 }),
      t.call('structured_output', { count: 2 }),
    ];
    await Promise.all(calls);
    expect(t.results.map(({ isError }) => isError)).toEqual([false, true, true]);
    expect(textOf(t.results[1])).toMatch(/already handed in/);
    expect(t.ran).toEqual([]);
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it('cannot be talked out of its denial by a later guard', async () => {
    const t = childOf(registries());
    t.child.tools.guard(() => undefined);
    await t.call('structured_output', { count: 1 });
    await t.call('look', {});
    expect(t.ran).toEqual([]);
  });

  it('leaves a call before the capture alone', async () => {
    const t = childOf(registries());
    await Promise.all([t.call('look', { at: 1 }), t.call('structured_output', { count: 1 })]);
    expect(t.ran).toEqual([{ at: 1 }]);
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it.each([{ count: 'three' }, {}, { count: 1, more: true }, '{', '"text"'])(
    'takes a valid value after the invalid %j',
    async (invalid) => {
      const t = childOf(registries());
      const reply = await t.call('structured_output', invalid);
      expect(reply).toEqual({ done: true, concludesTurn: false });
      expect(t.results[0]?.error?.code).toBe('INVALID_ARGS');
      expect(t.capture.captured).toBeUndefined();
      await t.call('structured_output', { count: 2 });
      expect(t.capture.captured).toEqual({ value: { count: 2 } });
    },
  );

  it('captures nothing when the call is blocked after its body has run', async () => {
    const t = childOf(registries());
    t.rewriteResults(blocked);
    await t.call('structured_output', { count: 1 });
    expect(t.capture.captured).toBeUndefined();
    t.rewriteResults((result) => result);
    await t.call('look', {});
    expect(t.ran).toHaveLength(1);
  });

  it('keeps the original value when the result shows something else', async () => {
    const t = childOf(registries());
    t.rewriteResults((result) => ({ ...result, content: [{ type: 'text', text: 'Thanks.' }] }));
    await t.call('structured_output', { count: 1 });
    expect(t.capture.captured).toEqual({ value: { count: 1 } });
  });

  it('captures nothing before the result is in the log', async () => {
    const t = childOf(registries());
    const early: unknown[] = [];
    t.rewriteResults((result) => {
      early.push(t.capture.captured);
      return result;
    });
    await t.call('structured_output', { count: 1 });
    expect(early).toEqual([undefined]);
  });

  it('never promotes a blocked value through a later call of the same id', async () => {
    const t = childOf(registries());
    t.rewriteResults(blocked);
    await t.call('structured_output', { count: 1 }, 'same');
    t.rewriteResults((result) => result);
    await t.call('structured_output', { count: 'x' }, 'same');
    expect(t.capture.captured).toBeUndefined();
    await t.call('structured_output', { count: 3 }, 'same');
    expect(t.capture.captured).toEqual({ value: { count: 3 } });
    expect(t.results.map(({ isError }) => isError)).toEqual([true, true, false]);
  });

  it('keeps children apart that run at the same time with schemas of their own', async () => {
    const shared = registries();
    const other: ObjectJsonSchema = { type: 'object', properties: { name: { type: 'string' } } };
    const [first, second] = [childOf(shared), childOf(shared, other)];
    await Promise.all([
      first.call('structured_output', { count: 1 }),
      second.call('structured_output', { name: 'two' }),
    ]);
    expect(first.capture.captured).toEqual({ value: { count: 1 } });
    expect(second.capture.captured).toEqual({ value: { name: 'two' } });
    expect(second.child.tools.find('structured_output')?.spec.parameters).toEqual(other);
  });

  it('is unknown to every other agent', () => {
    const shared = registries();
    childOf(shared);
    expect(shared.tools.scope().find('structured_output')).toBeUndefined();
  });

  it('adds its instruction behind the prompt of the harness, for that child only', async () => {
    const shared = registries();
    shared.prompt.section({ name: 'last', order: 200, text: 'Last.' });
    shared.prompt.section({ name: 'base', order: 0, text: 'Base.' });
    const prompt = await childOf(shared).assemble();
    expect(prompt?.split('\n\n')).toEqual([
      'Base.',
      expect.stringContaining('`structured_output`'),
      'Last.',
    ]);
    const other = shared.prompt.scope();
    const signal = new AbortController().signal;
    const theirs = await other.assemble({ agent: undefined, signal });
    expect(theirs.system()).toBe('Base.\n\nLast.');
  });

  it('stays usable behind a filter that hides all inherited tools', () => {
    const t = childOf(registries());
    t.child.tools.restrict({ allow: [] });
    expect(t.child.tools.find('structured_output')).toBeDefined();
  });

  it('is gone with its child', async () => {
    const t = childOf(registries());
    await t.dispose();
    expect(t.child.tools.find('structured_output')).toBeUndefined();
    expect(await t.assemble()).toBeUndefined();
  });

  it('gives out a value that shares nothing with the call', async () => {
    const t = childOf(registries());
    await t.call('structured_output', { count: 1 });
    expect(Object.isFrozen(t.capture.captured?.value)).toBe(true);
  });
});
