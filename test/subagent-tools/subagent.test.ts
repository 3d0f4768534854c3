import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { CallId } from '../../protocol/ids.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { ToolContext } from '../../protocol/tool.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { systemClock } from '../../src/base/clock.ts';
import { deferred } from '../../src/base/deferred.ts';
import { silentLogger } from '../../src/base/logger.ts';
import type { SubagentToolConfig } from '../../src/subagent-tools/config.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import type {
  SubagentResult,
  SubagentRun,
  SubagentStopReason,
} from '../../src/subagents/provider.ts';
import { ToolDesk } from '../../src/tools/desk.ts';
import type { ToolResult } from '../../src/tools/desk.ts';
import { ToolRegistry } from '../../src/tools/registry.ts';
import {
  completed,
  NO_CAPABILITIES,
  rejection,
  stubProvider,
  stubRun,
  testRuntime,
  text,
} from '../subagents/stubs.ts';

const args = { description: 'read the docs', prompt: 'Read them.' };
const schema: ObjectJsonSchema = { type: 'object', properties: {} };

/** The tool over the real service and a provider whose runs the test settles. */
function toolOf(
  config: Partial<SubagentToolConfig> = {},
  made: Parameters<typeof stubProvider>[0] & { maxDepth?: number } = {},
) {
  const runtime = testRuntime(made.maxDepth === undefined ? {} : { maxDepth: made.maxDepth });
  const { provider, requests } = stubProvider(made);
  runtime.subagents.registerProvider(provider);
  const tool = subagentTool(runtime.subagents, { provider: 'stub', ...config });
  const context = (more: Partial<ToolContext<Agent>> = {}): ToolContext<Agent> => ({
    agent: runtime.parent,
    callId: CallId('c1'),
    signal: new AbortController().signal,
    deferContext: () => {},
    concludeTurn: () => {},
    ...more,
  });
  return { ...runtime, tool, requests, context };
}

/** One call whose child ends like this: what the model reads, and how often it was released. */
async function callWith(
  end: (stub: ReturnType<typeof stubRun>) => void,
  config: Partial<SubagentToolConfig> = {},
  dispose?: SubagentRun['dispose'],
) {
  const stub = stubRun();
  end(stub);
  const run = dispose === undefined ? stub.run : { ...stub.run, dispose };
  const { tool, context, parent } = toolOf(config, { start: async () => run });
  const results: ToolResult[] = [];
  const registry = new ToolRegistry();
  registry.register(tool);
  const desk = new ToolDesk({
    scope: registry.scope(),
    clock: systemClock,
    logger: silentLogger,
    ports: {
      agent: parent,
      started: async () => {},
      settled: (_, result) => void results.push(result),
    },
  });
  const request = { turn: 1, step: 1, callId: CallId('c1'), name: tool.name };
  await desk.call({ ...request, arguments: JSON.stringify(args) }, context().signal);
  const [result] = results;
  const shown = result?.content.map((block) => ('text' in block ? block.text : '')).join('');
  return { shown, result, disposals: stub.disposals };
}
const ends = (result: SubagentResult) => (stub: ReturnType<typeof stubRun>) => stub.settle(result);

describe('subagent tool', () => {
  it('hands back the text of the child and releases it once', async () => {
    const { shown, result, disposals } = await callWith(
      ends(completed(text('All '), text('done'))),
    );
    expect(shown).toBe('All done');
    expect(result).toMatchObject({
      isError: false,
      value: { kind: 'foreground', runId: 'child', output: [text('All '), text('done')] },
    });
    expect(disposals).toBe(1);
  });

  it('says so when the child finished without a text', async () => {
    const { shown, result } = await callWith(ends(completed()));
    expect(result?.isError).toBe(false);
    expect(shown).toMatch(/without a text/);
  });

  it('hands back a structured value as JSON', async () => {
    const end = ends({ ...completed(text('Handed in.')), structured: { count: 3 } });
    const { shown, result } = await callWith(end, { outputSchema: schema });
    expect(shown).toBe('{"count":3}');
    expect(result?.value).toMatchObject({ structured: { count: 3 } });
  });

  it.each<[SubagentStopReason, RegExp]>([
    ['aborted', /was stopped/],
    ['error', /failed/],
    ['max-tokens', /ran out of output tokens/],
    ['refusal', /declined/],
    ['quota' as SubagentStopReason, /ended abnormally \(quota\)/],
    ['constructor' as SubagentStopReason, /ended abnormally \(constructor\)/],
  ])(
    'fails with a headline for a child that ended %s, and keeps its text',
    async (reason, head) => {
      const { shown, result, disposals } = await callWith(
        ends({ output: [text('half')], stopReason: reason }),
      );
      const [headline, ...rest] = (shown ?? '').split('\n');
      expect(result?.isError).toBe(true);
      expect(headline).toMatch(head);
      expect(rest).toEqual(['Partial output:', 'half']);
      expect(disposals).toBe(1);
    },
  );

  it('shows headline, diagnostic and partial text in that order', async () => {
    const { shown } = await callWith(
      ends({ output: [text('half')], stopReason: 'error', diagnostic: 'AUTH: no key' }),
    );
    expect(shown?.split('\n').slice(1)).toEqual([
      'Diagnostic: AUTH: no key',
      'Partial output:',
      'half',
    ]);
  });

  it('fails when the result rejects, and releases the child', async () => {
    const { shown, disposals } = await callWith((stub) => stub.fail(new Error('broken')));
    expect(shown).toMatch(/could not be run: broken/);
    expect(disposals).toBe(1);
  });

  it('fails when only the release fails', async () => {
    const { shown, result } = await callWith(ends(completed(text('done'))), {}, () =>
      Promise.reject(new Error('stuck')),
    );
    expect(result?.isError).toBe(true);
    expect(shown).toMatch(/could not be released: stuck/);
  });

  it('keeps both failures when result and release fail', async () => {
    const [broken, stuck] = [new Error('broken'), new Error('stuck')];
    const { run, fail } = stubRun();
    fail(broken);
    const { tool, context } = toolOf(
      {},
      { start: async () => ({ ...run, dispose: () => Promise.reject(stuck) }) },
    );
    const error = (await rejection(
      Promise.resolve(tool.execute(args, context())),
    )) as AggregateError;
    expect(error).toBeInstanceOf(AggregateError);
    expect(error.errors.map(({ cause }: Error) => cause)).toEqual([broken, stuck]);
    expect(error.message).toMatch(/broken[^]*stuck/);
  });

  it('overlaps its calls, so that siblings may need each other', async () => {
    const both = deferred<void>();
    const { tool, parent, requests } = toolOf(
      {},
      {
        async start() {
          if (requests.length === 2) both.resolve();
          await both.promise;
          const { run, settle } = stubRun();
          settle(completed(text('met')));
          return run;
        },
      },
    );
    const registry = new ToolRegistry();
    registry.register(tool);
    const results: ToolResult[] = [];
    const desk = new ToolDesk({
      scope: registry.scope(),
      clock: systemClock,
      logger: silentLogger,
      ports: {
        agent: parent,
        started: async () => {},
        settled: (_, result) => void results.push(result),
      },
    });
    const { signal } = new AbortController();
    await Promise.all(
      ['a', 'b'].map((id) =>
        desk.call(
          {
            turn: 1,
            step: 1,
            callId: CallId(id),
            name: 'subagent',
            arguments: JSON.stringify(args),
          },
          signal,
        ),
      ),
    );
    expect(results.map(({ isError }) => isError)).toEqual([false, false]);
  });

  it('starts with the calling agent, its own signal, and only what is configured', async () => {
    const { tool, context, requests, parent } = toolOf({ toolFilter: { deny: ['write'] } });
    const call = context();
    void tool.execute(args, call);
    expect(requests).toStrictEqual([
      {
        toolFilter: { deny: ['write'] },
        label: 'read the docs',
        prompt: [text('Read them.')],
        parent,
        signal: call.signal,
        descriptor: { version: 1, mode: 'one-shot', provider: 'stub', label: 'read the docs' },
      },
    ]);
  });

  it('passes on all that is configured', () => {
    const config = {
      agentOptions: { model: 'small' },
      persona: '',
      maxDepth: 2,
      outputSchema: schema,
      limits: { turnMs: 5 },
    };
    const { tool, context, requests } = toolOf(config);
    void tool.execute(args, context());
    expect(requests).toMatchObject([config]);
  });

  it('never reaches the provider with a call that was aborted already', async () => {
    const { tool, context, requests } = toolOf();
    const reason = new Error('stopped');
    const call = async () => tool.execute(args, context({ signal: AbortSignal.abort(reason) }));
    expect(await rejection(call())).toBe(reason);
    expect(requests).toEqual([]);
  });

  it('needs a calling agent', async () => {
    const { tool, context, requests } = toolOf();
    const call = async () => tool.execute(args, context({ agent: undefined as never }));
    expect(await rejection(call())).toBeInstanceOf(ArgumentError);
    expect(requests).toEqual([]);
  });

  it('tells an agent at the depth cap to do the task itself', async () => {
    const { tool, context } = toolOf({}, { maxDepth: 0 });
    const error = await rejection(Promise.resolve(tool.execute(args, context())));
    expect(error).toMatchObject({ code: 'DEPTH_EXCEEDED' });
    expect((error as Error).message).toMatch(/Do the task yourself/);
  });

  it('asks the model for a description and a prompt, and nothing else', () => {
    const { tool } = toolOf({ toolName: 'ask_expert' });
    expect(tool.name).toBe('ask_expert');
    expect(tool.parameters).toMatchObject({
      required: ['description', 'prompt'],
      additionalProperties: false,
    });
    expect(Object.keys(tool.parameters['properties'] as object)).toEqual(['description', 'prompt']);
  });

  it('says truthfully what the child knows and how it answers', () => {
    const fresh = toolOf().tool.description;
    const seeded = toolOf({}, { inheritsParentContext: true }).tool.description;
    expect(fresh).toMatch(/knows nothing of this conversation/);
    expect(seeded).toMatch(/knows this conversation/);
    expect(toolOf({ outputSchema: schema }).tool.description).toMatch(/JSON/);
  });

  it.each<[string, Partial<SubagentToolConfig>, string]>([
    ['a provider that does not exist', { provider: 'nobody' }, 'NO_PROVIDER'],
    ['an empty filter', { toolFilter: {} }, 'EMPTY_FILTER'],
    ['a cap that is no number', { maxDepth: 1.5 }, 'INVALID_ARGUMENT'],
    [
      'a schema that is not supported',
      { outputSchema: {} as ObjectJsonSchema },
      'UNSUPPORTED_SCHEMA',
    ],
  ])('cannot be made with %s', (_, config, code) => {
    expect(() => toolOf(config)).toThrow(expect.objectContaining({ code }));
  });

  it.each<[string, Partial<SubagentToolConfig>]>([
    ['outputSchema', { outputSchema: schema }],
    ['depthLimit', { maxDepth: 3 }],
    ['toolFilter', { toolFilter: { deny: [] } }],
    ['persona', { persona: '' }],
  ])('cannot be made with a setting that needs %s of a provider without it', (flag, config) => {
    expect(() => toolOf(config, { capabilities: NO_CAPABILITIES })).toThrow(
      expect.objectContaining({
        code: 'UNSUPPORTED_CAPABILITY',
        message: expect.stringContaining(flag) as string,
      }),
    );
  });
});
