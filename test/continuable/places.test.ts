/** How many children one root may have: at once, and ever. */
import { describe, expect, it } from 'vitest';
import { WorkerError } from '../../protocol/errors.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import { codeOf, family } from './children.ts';
import { continuing, holding, told } from './continuing.ts';
import { gate } from '../../src/base/gate.ts';
import { settled, until } from '../support/until.ts';
import { spawning, toolResults } from '../subagents/spawning.ts';
import { completed, stubProvider, stubRun, text } from '../subagents/stubs.ts';

const CAPACITY = { code: 'CAPACITY' };
const done = () => 'Done.';

describe('children that live at once', () => {
  it('are refused beyond the limit, also in one tick, until one is released', async () => {
    await using t = await spawning({ script: done, limits: { maxLiveChildren: 2 } });
    const [one, two, three] = await Promise.allSettled([t.start(), t.start(), t.start()]);
    expect(three).toMatchObject({
      reason: { ...CAPACITY, message: expect.stringContaining('maxLiveChildren is 2') },
    });
    if (one.status !== 'fulfilled' || two.status !== 'fulfilled') throw new Error('refused');
    await one.value.result;
    await expect(t.start()).rejects.toMatchObject(CAPACITY);
    await one.value.dispose();
    await (await t.start()).dispose();
    await two.value.dispose();
  });

  it('are counted for their root, however deep, and for no other root', async () => {
    const held = gate();
    await using all = await family(
      { child: [{ hold: held, text: 'A' }] },
      { limits: { maxLiveChildren: 2 } },
    );
    const child = await all.start();
    await all.start({ parent: child });
    expect(await codeOf(() => all.start({ parent: child }))).toBe('CAPACITY');
    expect(await codeOf(() => all.start())).toBe('CAPACITY');
    const { agent: other } = await all.rt.harness.agents.create();
    await all.start({ parent: other });
    held.open();
  });

  it('are counted before they are there, and not any more when they fail late', async () => {
    const failure = new WorkerError('WORKER_START_FAILED', 'No thread today.');
    let starts = 0;
    await using t = await spawning({
      script: done,
      limits: { maxLiveChildren: 1, maxTotalChildren: 1 },
      threads: { failStart: (index) => (index === 1 && starts++ === 0 ? failure : undefined) },
    });
    const first = t.start();
    await expect(t.start()).rejects.toMatchObject(CAPACITY);
    await expect(first).rejects.toBe(failure);
    const { result } = await t.run();
    expect(result.stopReason).toBe('completed');
  });

  it('are not counted any more when they are given up in the queue', async () => {
    await using t = await spawning({
      script: [{ hold: gate() }],
      limits: { maxThreads: 1, maxLiveChildren: 1 },
    });
    t.root.followup(message('go'));
    await settled();
    const stop = new AbortController();
    const queued = t.start({ signal: stop.signal });
    await settled();
    await expect(t.start()).rejects.toMatchObject(CAPACITY);
    stop.abort(new Error('Enough.'));
    await expect(queued).rejects.toThrow('Enough.');
    const other = new AbortController();
    const next = t.start({ signal: other.signal });
    await settled();
    other.abort(new Error('Enough.'));
    await expect(next).rejects.toThrow('Enough.');
  });

  it('are counted when a listener of their start starts another', async () => {
    await using t = await spawning({ script: done, limits: { maxLiveChildren: 2 } });
    const codes: unknown[] = [];
    const nested: Promise<unknown>[] = [];
    t.harness.on('subagent/start', () => {
      nested.push(
        t.start().then(
          (run) => run,
          (error: { code: string }) => codes.push(error.code),
        ),
      );
    });
    const run = await t.start();
    await settled();
    await Promise.all(nested);
    // The first, and the one that its start made; that one's own was refused.
    expect(codes).toEqual(['CAPACITY']);
    expect(t.live().agents).toBe(3);
    await run.dispose();
  });

  it('of a provider whose children are elsewhere are counted until their result', async () => {
    const stubs = [stubRun({ id: 'a' }), stubRun({ id: 'b' })];
    let at = 0;
    const { provider } = stubProvider({ start: async () => stubs[at++]!.run });
    await using t = await spawning({
      providers: [provider],
      provider: 'stub',
      limits: { maxLiveChildren: 1 },
    });
    await t.start();
    await expect(t.start()).rejects.toMatchObject(CAPACITY);
    stubs[0]!.settle(completed(text('Done.')));
    await settled();
    await t.start();
    stubs[1]!.settle(completed(text('Done.')));
    await settled();
  });

  it('leave none for a child that is brought back, whose message is not accepted', async () => {
    const held = gate();
    await using t = await continuing({
      script: holding({ 'Hold.': held }),
      limits: { maxLiveChildren: 1 },
    });
    const { childId } = await t.start();
    await t.gone(childId);
    const other = await t.start({ request: { prompt: [text('Hold.')] } });
    await held.arrived();
    await expect(t.tell(childId, 'More.')).rejects.toMatchObject(CAPACITY);
    held.open();
    await t.gone(other.childId);
    await t.tell(childId, 'Again.');
    expect(told(t.agents.get(childId)!)).not.toContain('More.');
    await t.gone(childId);
  });

  it('are free again when their parent reads that they ended', async () => {
    await using t = await continuing({ limits: { maxLiveChildren: 1 } });
    const { agent: host } = await t.agents.createHost({
      async onMessage() {
        if (starts++ < 3) await begin();
      },
    });
    let starts = 0;
    const begin = async () => void (await t.start({ request: { parent: host } }));
    await begin();
    await until(() => starts === 4 && t.agents.list().length === 2);
    expect(t.edges.filter((edge) => edge === 'end completed')).toHaveLength(4);
    const failed = host.session.events.filter(
      ({ type, data }) => type === 'turn/end' && data.reason.kind === 'error',
    );
    expect(failed).toEqual([]);
  });
});

describe('children that are ever made', () => {
  it('are refused beyond the limit, and a child that is brought back is no new one', async () => {
    await using t = await continuing({ limits: { maxTotalChildren: 2 } });
    const { childId } = await t.start();
    await t.gone(childId);
    const run = await t.harness.subagents.start('fork', {
      parent: t.root,
      prompt: 'Work.',
      signal: new AbortController().signal,
    });
    await run.result;
    await run.dispose();
    await expect(t.start()).rejects.toMatchObject({
      ...CAPACITY,
      message: expect.stringContaining('maxTotalChildren'),
    });
    await t.tell(childId, 'More.');
    await t.gone(childId);
    expect(told(t.root).length).toBeGreaterThan(0);
  });

  it('do not count a start that was refused before or failed after', async () => {
    await using t = await continuing({ limits: { maxTotalChildren: 1 } });
    await expect(t.start({ provider: 'nobody' })).rejects.toMatchObject({ code: 'NO_PROVIDER' });
    const off = t.harness.on('agent/created', () => {
      throw new Error('Not this one.');
    });
    await expect(t.start()).rejects.toThrow('Not this one.');
    off();
    const { childId } = await t.start();
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end completed']);
  });
});

describe('a model that is refused a child', () => {
  const ask = { toolCalls: [{ name: 'subagent', arguments: { description: 'a', prompt: 'b' } }] };
  const answer = (agent: Agent): string => {
    const [block] = toolResults(agent).at(-1)!.content;
    return block?.type === 'text' ? block.text : '';
  };

  it.each([
    [{ maxLiveChildren: 1 }, /maxLiveChildren is 1\. .*once one of your subagents has finished\.$/],
    [{ maxTotalChildren: 1 }, /maxTotalChildren allows\. Do the task yourself\.$/],
  ])('hears what it can do: %j', async (limits, words) => {
    const held = gate();
    await using t = await spawning({
      limits,
      script: ({ sessionId, messages }) =>
        sessionId !== t.root.id
          ? { hold: held, text: 'A' }
          : messages.at(-1)?.source.kind === 'tool'
            ? 'So be it.'
            : ask,
    });
    t.harness.tools.register(subagentTool(t.harness.subagents, { provider: 'spawn' }));
    const run = await t.start();
    await t.ask('Delegate.');
    expect(answer(t.root)).toMatch(words);
    held.open();
    await run.dispose();
  });
});
