import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { controlTools } from '../../src/subagent-tools/control.ts';
import { jobTools } from '../../src/subagent-tools/jobs.ts';
import { reportSetup } from '../../src/subagent-tools/report.ts';
import { until } from '../support/until.ts';
import {
  call,
  CHILD,
  continuable,
  delegate,
  heard,
  lastText,
  quiet,
  results,
  startedId,
  talking,
} from './talking.ts';
import type { Talking } from './talking.ts';

const signal = new AbortController().signal;

/** A child of `parent` that goes on, started by the program itself. */
async function startChild({ rt }: Talking, parent: Agent, label: string, prompt = 'Work.') {
  const { childId } = await rt.harness.subagents.startContinuable({
    provider: 'spawn',
    label,
    request: { parent, prompt, agentOptions: CHILD },
    signal,
  });
  return rt.harness.agents.get(childId)!;
}

describe('send_message', () => {
  it('queues a later turn for a child that has settled, on behalf of its caller', async () => {
    let id = '';
    await using t = await talking(
      [
        delegate(),
        (request) => {
          id = startedId(lastText(request));
          return 'I go on when it comes.';
        },
        () => call('send_message', { subagent_id: id, message: 'And the letters?' }),
        'Asked again.',
        'Done.',
      ],
      ['Six words.', 'Thirty letters.'],
    );
    await t.rt.ask('Begin.');
    await until(() => heard(t.root).length === 3);
    await quiet(t);
    expect(results(t.root)[1]?.text).toBe(
      `Message queued for subagent ${id} as its next turn. You will get a message when it has finished.`,
    );
    const { events } = await t.rt.harness.sessions.inspect(SessionId(id));
    const told = events.flatMap((event) =>
      event.type === 'user/message' && event.data.source.kind === 'coordinator' ? [event.data] : [],
    );
    expect(told).toMatchObject([
      {
        source: { kind: 'coordinator', form: 'relay', senderSessionId: t.root.id },
        content: [{ type: 'text', text: 'And the letters?' }],
      },
    ]);
    expect(lastText(t.rt.model.requests.at(-1)!)).toMatch(/Thirty letters\.$/);
  });

  it('says of whom it does not know that nothing was delivered, and where ids come from', async () => {
    await using t = await talking(
      [call('send_message', { subagent_id: 'nobody', message: 'Hello?' }), 'Well.'],
      [],
    );
    await t.rt.ask('Begin.');
    expect(results(t.root)).toMatchObject([
      { isError: true, text: expect.stringMatching(/was not delivered\./) },
    ]);
  });

  it('reaches no child of a child', async () => {
    await using t = await talking(
      () => 'Noted.',
      () => 'Done.',
    );
    const child = await startChild(t, t.root, 'child');
    const grandchild = await startChild(t, child, 'grandchild');
    const [send] = controlTools(t.rt.harness);
    const args = { subagent_id: grandchild.id, message: 'Hello?' };
    await expect(
      Promise.resolve(send!.execute(args, { agent: t.root, signal } as never)),
    ).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(/`list_agents` shows the subagents you started/) as string,
    });
    await quiet(t);
  });
});

describe('list_agents', () => {
  it('lists running, idle, finished and unreadable ones in order, and no one-shot', async () => {
    const held = gate();
    await using t = await talking(
      () => 'Noted.',
      (request) => (lastText(request).includes('Hold') ? { hold: held, text: 'Held.' } : 'Done.'),
    );
    const { harness } = t.rt;
    const ready = await startChild(t, t.root, 'ready\none');
    await until(() => harness.agents.get(ready.id) === undefined);
    const idle = await startChild(t, t.root, 'idle one');
    const below = await startChild(t, idle, 'below', 'Hold.');
    await held.arrived();
    const busy = await startChild(t, t.root, 'busy one', 'Hold.');
    await idle.whenIdle();
    await until(() => t.childModel.requests.length === 4);
    const run = await harness.subagents.start('spawn', {
      parent: t.root,
      prompt: 'Hold.',
      agentOptions: CHILD,
      label: 'one-shot',
      signal,
    });
    // It says what it is in its first turn.
    await until(() => t.childModel.requests.length === 5);
    const [, , list] = controlTools(harness);
    const shown = async (args: object): Promise<string> => {
      const value = await list!.execute(args as never, { agent: t.root, signal } as never);
      const [block] = list!.output!.render(args as never, value as never);
      return block?.type === 'text' ? block.text : '';
    };
    expect((await shown({})).split('\n')).toEqual([
      `${ready.id} [ready] — ready one`,
      `${idle.id} [idle] — idle one`,
      `${busy.id} [running] — busy one`,
    ]);
    expect((await shown({ scope: 'descendants' })).split('\n')).toEqual([
      `${ready.id} [ready] parent=${t.root.id} depth=1 — ready one`,
      `${idle.id} [idle] parent=${t.root.id} depth=1 — idle one`,
      `${below.id} [running] parent=${idle.id} depth=2 — below`,
      `${busy.id} [running] parent=${t.root.id} depth=1 — busy one`,
    ]);
    held.open();
    await run.result;
    await run.dispose();
    await quiet(t);
  });

  it('shows a session that does not say who it is as one line', async () => {
    await using t = await talking(
      [
        'Told something.',
        call('list_agents', {}),
        call('list_agents', { scope: 'descendants' }),
        'Well.',
      ],
      [],
    );
    const handle = await t.rt.harness.agents.create({
      meta: { parentSession: t.root.id, origin: 'subagent', delegationDepth: 1 },
    });
    const { id } = handle.agent;
    await t.rt.ask('Say something.', handle.agent);
    await handle.dispose();
    await t.rt.ask('Begin.');
    expect(results(t.root).map(({ text }) => text)).toEqual([
      `${id} [diagnostic: corrupt]`,
      `${id} [diagnostic: corrupt] parent=${t.root.id} depth=1`,
    ]);
  });
});

describe('interrupt_agent', () => {
  it.each(['a child', 'a child of a child'])(
    'stops %s, and leaves the rest as it is',
    async (whom) => {
      const held = gate();
      await using t = await talking(
        () => 'Noted.',
        (request) => (lastText(request).includes('Hold') ? { hold: held, text: 'Held.' } : 'Done.'),
      );
      const child = await startChild(t, t.root, 'child', whom === 'a child' ? 'Hold.' : 'Work.');
      const target = whom === 'a child' ? child : await startChild(t, child, 'deep', 'Hold.');
      await held.arrived();
      const [, interrupt] = controlTools(t.rt.harness);
      const args = { agent_id: target.id };
      expect(await interrupt!.execute(args, { agent: t.root, signal } as never)).toEqual({
        accepted: true,
      });
      await target.whenIdle();
      expect(target.session.events.findLast(({ type }) => type === 'turn/end')?.data).toMatchObject(
        {
          reason: { kind: 'aborted', reason: { kind: 'parent' } },
        },
      );
      held.open();
      await quiet(t);
      // By then it is in the store only, and there is nothing to stop.
      expect(await interrupt!.execute(args, { agent: t.root, signal } as never)).toEqual({
        accepted: true,
      });
    },
  );

  it('stops nobody who is not below its caller', async () => {
    const held = gate();
    await using t = await talking(
      () => 'Noted.',
      () => ({ hold: held, text: 'Held.' }),
    );
    const child = await startChild(t, t.root, 'child');
    await held.arrived();
    const { agent: other } = await t.rt.harness.agents.create();
    const [, interrupt] = controlTools(t.rt.harness);
    const stop = async () =>
      interrupt!.execute({ agent_id: child.id }, { agent: other, signal } as never);
    await expect(stop()).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(/with scope "descendants" shows whom/) as string,
    });
    held.open();
    await until(() => t.rt.harness.agents.get(child.id) === undefined);
  });
});

it('no tool of these can be called by nobody', async () => {
  await using t = await talking([], [], { delegation: [continuable] });
  const contributed: { execute(args: object, context: object): unknown }[] = [];
  reportSetup(t.rt.harness.subagents)({
    tools: { register: (tool: never) => (contributed.push(tool), () => {}) },
    prompt: { section: () => () => {} },
  } as never);
  const args = { subagent_id: 'a', message: 'b', agent_id: 'a', job_id: 'a', output: 'a' };
  const tools = [...controlTools(t.rt.harness), ...jobTools(t.rt.harness.jobs), ...contributed];
  expect(tools).toHaveLength(6);
  for (const tool of tools) {
    const asked = async (): Promise<unknown> => tool.execute(args as never, { signal } as never);
    await expect(asked()).rejects.toBeInstanceOf(ArgumentError);
  }
});
