import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { noticeOf } from '../../src/subagents/settlement.ts';
import type { Settlement } from '../../src/subagents/settlement.ts';
import { settled, until } from '../support/until.ts';
import { ends, has, waiting } from '../worker-host/agent-words.ts';
import { codeOf, endsTold, family, insertions, notices, turns } from './children.ts';
import type { Family } from './children.ts';

const NO_WORDS = 'It left no closing message.';
const NOT_FINAL = 'What it had said by then, which is not a final answer:';

/** Nothing of any agent below the root takes its second turn further before the gate opens. */
function holdSecondTurn({ rt }: Family, then: () => void = () => {}) {
  const held = gate();
  rt.harness.hooks.on('agent/pre-step', async ({ agent, turn }, next) => {
    if (agent === rt.root || turn !== 2) return next();
    await held.wait();
    then();
    return next();
  });
  return held;
}

describe('a notice', () => {
  it('says that the child has finished, and what it said', async () => {
    await using all = await family({ child: ['The answer is 42.'] });
    const { root } = all.rt;
    const told = endsTold(all.rt);
    const child = await all.start({ label: 'solver' });
    await all.gone(child);
    await root.whenIdle();
    const [{ list, message }] = insertions(root) as [ReturnType<typeof insertions>[0]];
    const outcome = `Your subagent "solver" (id ${child.id}) has finished, and is idle until you send it more work.`;
    expect(list).toBe('next-turn');
    expect(message.content).toEqual([
      { type: 'text', text: `${outcome}\n` },
      { type: 'text', text: 'Its closing message:\n' },
      { type: 'text', text: 'The answer is 42.' },
    ]);
    expect(message.source).toEqual({
      kind: 'subagent-settled',
      form: 'notice',
      summary: outcome.replace(` (id ${child.id})`, ''),
      senderSessionId: child.id,
      turn: 1,
      stopReason: 'completed',
      waiting: 0,
    });
    expect(insertions(root)).toHaveLength(1);
    expect(turns(root)).toBe(1);
    expect(told).toEqual([{ reason: 'completed', said: 'The answer is 42.' }]);
  });

  it('says that the answer was cut off', async () => {
    await using all = await family({ child: [{ text: 'The answ', finish: 'max-tokens' }] });
    const told = endsTold(all.rt);
    await all.gone(await all.start());
    const [notice] = notices(all.rt.root);
    expect(notice).toContain('ran out of room for its answer');
    expect(notice).toContain(`${NOT_FINAL} | The answ`);
    expect(told).toEqual([{ reason: 'max-tokens', said: 'The answ' }]);
  });

  it('says that the task was declined, and how much waits behind it', async () => {
    await using all = await family({});
    const { root, harness } = all.rt;
    const told = endsTold(all.rt);
    const deciding = gate();
    harness.hooks.on('agent/pre-step', async ({ agent }, next) => {
      if (agent === root) return next();
      await deciding.wait();
      return { kind: 'reject', reason: 'Not that.' };
    });
    const child = await all.start();
    await deciding.arrived();
    await all.tell(child, 'More.');
    deciding.open();
    await all.gone(child);
    const [notice] = notices(root);
    expect(notice).toContain('declined what it was asked');
    expect(notice).toContain('1 message waits for it still');
    expect(notice).toContain(NO_WORDS);
    expect(told).toEqual([{ reason: 'refusal', said: undefined }]);
  });

  it('says that a later turn failed before its first step, and that the answer was an earlier one', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'First.' }] });
    const told = endsTold(all.rt);
    const second = holdSecondTurn(all, () => {
      throw new Error('No prompt for this.');
    });
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'More.');
    held.open();
    second.open();
    await all.gone(child);
    const [notice] = notices(all.rt.root);
    expect(notice).toContain('failed before it finished');
    expect(notice).toContain(`${NOT_FINAL} | First.`);
    expect(told).toEqual([{ reason: 'error', said: 'First.' }]);
  });

  it('says that it was stopped in a later turn, and that the answer was an earlier one', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'First.' }] });
    const { root, harness } = all.rt;
    const told = endsTold(all.rt);
    const second = holdSecondTurn(all);
    const child = await all.start();
    await held.arrived();
    await all.tell(child, 'More.');
    held.open();
    await second.arrived();
    await harness.subagents.drainContinuableDescendants([root]);
    const [notice] = notices(root);
    expect(notice).toContain('was stopped before it finished');
    expect(notice).toContain(`${NOT_FINAL} | First.`);
    expect(told).toEqual([{ reason: 'aborted', said: 'First.' }]);
    second.open();
  });

  it('says that it was stopped before it began', async () => {
    await using all = await family({});
    const { root, harness } = all.rt;
    const told = endsTold(all.rt);
    const child = await all.start();
    await harness.subagents.drainContinuableDescendants([root]);
    expect(has(child.session, 'turn/start')).toBe(false);
    const [notice] = notices(root);
    expect(notice).toContain('was stopped before it finished');
    expect(notice).toContain('1 message that waited for it was thrown away');
    expect(notice).toContain(NO_WORDS);
    expect(told).toEqual([{ reason: 'aborted', said: undefined }]);
  });

  it.each(['at once', 'before its first step'])(
    'says that it was stopped when somebody else cancels it %s',
    async (when) => {
      await using all = await family({});
      const { root, harness } = all.rt;
      const told = endsTold(all.rt);
      const deciding = gate();
      harness.hooks.on('agent/pre-step', async ({ agent }, next) => {
        if (agent !== root) await deciding.wait();
        return next();
      });
      const child = await all.start();
      if (when !== 'at once') await deciding.arrived();
      child.cancel({ kind: 'user' });
      deciding.open();
      await all.gone(child);
      expect(notices(root)).toMatchObject([expect.stringContaining('was stopped before')]);
      expect(told).toEqual([{ reason: 'aborted', said: undefined }]);
      expect(all.models.child.requests).toEqual([]);
    },
  );

  it('says nothing of what an earlier residency answered', async () => {
    await using all = await family({ child: ['First.'] });
    const { root, harness } = all.rt;
    const told = endsTold(all.rt);
    const child = await all.start();
    await all.gone(child);
    await root.whenIdle();
    await all.tell(child, 'More.');
    harness.agents.get(child.id)?.cancel({ kind: 'user' });
    await until(() => told.length === 2);
    expect(told).toEqual([
      { reason: 'completed', said: 'First.' },
      { reason: 'aborted', said: undefined },
    ]);
    expect(notices(root)[1]).toContain(NO_WORDS);
  });

  it('repeats what was said before a last message that says nothing', async () => {
    const usage = { inputTokens: 1, outputTokens: 0 };
    const tool: ToolDefinition<Agent> = {
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object' },
      execute: () => 'Seen.',
    };
    await using all = await family(
      { child: [{ text: 'I look.', toolCalls: [{ name: 'look', arguments: {} }] }, { usage }] },
      { tools: [tool] },
    );
    const told = endsTold(all.rt);
    await all.gone(await all.start());
    expect(told).toEqual([{ reason: 'completed', said: 'I look.' }]);
    expect(notices(all.rt.root)[0]).toContain('I look.');
  });

  it.each(['naturally', 'by a drain'])(
    'of a child that could not be released %s says that it failed, and withholds its answer',
    async (how) => {
      const held = gate();
      await using all = await family({ child: [{ hold: held, text: ['Done.', held] }] });
      const {
        root,
        harness,
        harness: { subagents },
      } = all.rt;
      const told = endsTold(all.rt);
      const remove = subagents.registerContinuableSetup(() => () => {
        throw new Error('It holds on.');
      });
      const child = await all.start();
      await held.arrived();
      if (how === 'naturally') {
        held.open();
        await all.gone(child);
        expect(all.rt.warnings).not.toEqual([]);
      } else {
        const drained = codeOf(() => subagents.drainContinuableDescendants([root]));
        expect(await drained).toBe('ACTIVATION_TEARDOWN_FAILED');
      }
      const why = `ACTIVATION_TEARDOWN_FAILED: The subagent "${child.id}" did not end cleanly: 1 of 1 setup installations could not be undone.`;
      expect(notices(root)).toEqual([
        `Your subagent "worker" (id ${child.id}) failed before it finished (${why}), and is idle until you send it more work. | ${NO_WORDS}`,
      ]);
      expect(told).toEqual([{ reason: 'error', said: undefined }]);
      expect(harness.agents.get(child.id)).toBeUndefined();
      remove();
    },
  );

  it('of a dead thread says that it failed and what waits, which runs first afterwards', async () => {
    const held = gate();
    await using all = await family({ child: [{ hold: held, text: 'A' }, 'B', 'C', 'D'] });
    const { root, harness, threads } = all.rt;
    const told = endsTold(all.rt);
    const child = await all.start({ prompt: 'A.' });
    await held.arrived();
    await all.tell(child, 'B.');
    await all.tell(child, 'C.');
    threads.of(child.id).crash();
    await all.gone(child);
    const [notice] = notices(root);
    expect(notice).toContain('failed before it finished');
    expect(notice).toContain('2 messages wait for it still');
    expect(told).toEqual([{ reason: 'error', said: undefined }]);
    await all.tell(child, 'D.');
    const again = harness.agents.get(child.id)!;
    await all.gone(again);
    expect(ends(again.session).slice(1)).toEqual(['completed', 'completed', 'completed']);
    const said = again.session.events.flatMap((event) =>
      event.type === 'user/message' ? [textOf(event.data.content)] : [],
    );
    expect(said.filter((words) => /^.\.$/.test(words))).toEqual(['A.', 'B.', 'C.', 'D.']);
  });

  it('of a thread that died before it claimed anything says that it failed', async () => {
    await using all = await family({ child: ['A'] });
    const { root, threads, harness } = all.rt;
    const told = endsTold(all.rt);
    harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent !== root) threads.of(agent.id).crash();
    });
    const child = await all.start({ prompt: 'A.' });
    await all.gone(child);
    expect(has(child.session, 'turn/start')).toBe(false);
    expect(told).toEqual([{ reason: 'error', said: undefined }]);
    expect(notices(root)[0]).toContain('1 message waits for it still');
  });

  it('counts what a drain throws away, and not what the runtime itself had to say', async () => {
    const held = gate();
    const below = gate();
    await using all = await family({
      child: [{ hold: held, text: 'A' }],
      grandchild: [{ hold: below, text: 'B' }],
    });
    const { root, harness } = all.rt;
    const child = await all.start();
    await held.arrived();
    await all.start({ parent: child });
    await below.arrived();
    await all.tell(child, 'B.');
    await all.tell(child, 'C.');
    await harness.subagents.drainContinuableChildren(root, [child.id]);
    expect(notices(child)).toHaveLength(1);
    const [notice] = notices(root);
    expect(notice).toContain('2 messages that waited for it were thrown away');
    expect(notice).not.toContain('still');
    expect(waiting(child)).toEqual([[], []]);
  });

  it('is one for each residency, also when it is ended in the moment in which it settles', async () => {
    await using all = await family({});
    const { root, harness } = all.rt;
    const told = endsTold(all.rt);
    let drained: Promise<void> | undefined;
    harness.on('agent/status', ({ agent, status }) => {
      if (agent === root || status !== 'idle') return;
      drained ??= harness.subagents.drainContinuableChildren(root, [agent.id]);
    });
    await all.gone(await all.start());
    await drained;
    expect(notices(root)).toHaveLength(1);
    expect(told).toEqual([{ reason: 'completed', said: 'Noted.' }]);
  });

  it('is none for a child whose start was refused', async () => {
    await using all = await family({});
    const { root, harness } = all.rt;
    const controller = new AbortController();
    harness.on('subagent/start', () => controller.abort(new Error('No.')));
    await expect(all.start({ signal: controller.signal })).rejects.toThrow('No.');
    await settled();
    expect(insertions(root)).toEqual([]);
    expect(harness.agents.list()).toEqual([root]);
  });
});

describe('the words of a notice', () => {
  const child = { id: 'c0ffee' as Agent['id'], label: 'worker', lastTurn: 3 };
  const settlement = (more: Partial<Settlement> = {}): Settlement => ({
    stopReason: 'completed',
    output: [],
    waiting: 0,
    discarded: 0,
    untold: 0,
    ...more,
  });
  const said = (more: Partial<Settlement>, label = 'worker') => {
    const { content, source } = noticeOf({ ...child, label }, settlement(more));
    return {
      first: textOf(content.slice(0, 1)).trimEnd(),
      rest: content.slice(1),
      summary: source.summary,
    };
  };

  it('are an outcome for every reason, and for one that nobody knows', () => {
    const outcomes = ['completed', 'aborted', 'max-tokens', 'refusal', 'error', 'constructor'].map(
      (stopReason) => said({ stopReason: stopReason as Settlement['stopReason'] }).first,
    );
    expect(outcomes.map((first) => /\) (.*), and is idle/.exec(first)?.[1])).toEqual([
      'has finished',
      'was stopped before it finished',
      'ran out of room for its answer before it finished',
      'declined what it was asked',
      'failed before it finished',
      'ended abnormally (constructor) before it finished',
    ]);
  });

  it('stand in lines of their own when a notice is printed', () => {
    const { content } = noticeOf({ ...child, label: 'worker' }, settlement({}));
    expect(textOf(content)).toBe(
      'Your subagent "worker" (id c0ffee) has finished, and is idle until you send it more work.\n' +
        'It left no closing message.',
    );
    const output = [{ type: 'text', text: 'Six words.' }] as const;
    expect(textOf(said({ output }).rest)).toBe('Its closing message:\nSix words.');
    expect(textOf(said({ stopReason: 'error', output }).rest)).toBe(
      'What it had said by then, which is not a final answer:\nSix words.',
    );
  });

  it('say what waits and what was thrown away', () => {
    expect(said({ stopReason: 'error', waiting: 1 }).first).toBe(
      'Your subagent "worker" (id c0ffee) failed before it finished, and is idle. 1 message waits for it still: what you send it next wakes it, and runs after that one.',
    );
    expect(said({ stopReason: 'error', waiting: 2 }).first).toContain(
      '2 messages wait for it still: what you send it next wakes it, and runs after those.',
    );
    expect(said({ stopReason: 'aborted', discarded: 2 }).first).toContain(
      'until you send it more work. 2 messages that waited for it were thrown away and will not run.',
    );
    expect(said({ stopReason: 'aborted', untold: 1 }).first).toContain(
      'until you send it more work. 1 message that it had taken up was not told to it and will not run.',
    );
  });

  it('give output that has no words as it is, and say so', () => {
    const output = [{ type: 'reasoning', text: 'Hm.' }] as const;
    expect(said({ output }).rest).toEqual([
      { type: 'text', text: 'It left no closing message in words.' },
      ...output,
    ]);
  });

  it.each([0, 1])('fit into a summary without half of a character (%s)', (shift) => {
    const emoji = '😀'.repeat(100);
    const { summary, first } = said({ waiting: 1 }, `${'x'.repeat(shift)}${emoji}`);
    // Half of a character is written as another one.
    for (const words of [summary, first]) expect(Buffer.from(words).toString()).toBe(words);
    expect(summary.length).toBeLessThanOrEqual(120);
    expect(summary).toMatch(/…$/);
    expect(summary).toContain('has finished');
    expect(summary).not.toContain('c0ffee');
  });
});
