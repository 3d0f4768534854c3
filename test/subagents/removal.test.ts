/** What a provider leaves behind when it goes: its runs, and nothing else. */
import { describe, expect, it } from 'vitest';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { Scope } from '../../src/base/scope.ts';
import { fork } from '../../src/providers/worker-fork.ts';
import { spawn } from '../../src/providers/worker-spawn.ts';
import type { TestHarnessOptions } from '../support/harness.ts';
import { spawning } from './spawning.ts';
import { rejection, text } from './stubs.ts';

const makers = { spawn, fork };
type Name = keyof typeof makers;

/** A harness whose one provider belongs to a scope of its own. */
async function owned(name: Name, options: TestHarnessOptions) {
  const t = await spawning({ ...options, providers: [], provider: name });
  const scope = new Scope();
  const { agents, subagents } = t.harness;
  subagents.registerProvider(makers[name]()({ agents }), { scope });
  return { ...t, scope, [Symbol.asyncDispose]: () => t[Symbol.asyncDispose]() };
}

/** An answer that the test lets go on, after its first word. */
function held() {
  const asked = gate();
  const hold = gate();
  return { asked, hold, text: ['Half', { wait: async () => asked.open() }, hold, ' and half'] };
}

const turnEnd = ({ session }: Agent) => session.events.findLast(({ type }) => type === 'turn/end');

describe.each<Name>(['spawn', 'fork'])('a child of %s whose provider goes', (name) => {
  it('lives on, and its result is told as that of its provider', async () => {
    const { asked, hold, text: words } = held();
    await using t = await owned(name, { script: [{ text: words }] });
    const ends: unknown[] = [];
    t.harness.on('subagent/end', ({ provider, stopReason }) => ends.push([provider, stopReason]));
    const run = await t.start();
    await asked.wait();
    await t.scope.dispose();
    expect(t.harness.agents.get(run.id)).toBe(run.localAgent);
    expect(await rejection(t.start())).toMatchObject({ code: 'NO_PROVIDER' });
    hold.open();
    expect(await run.result).toEqual({
      output: [text('Half and half')],
      stopReason: 'completed',
    });
    await run.dispose();
    expect(ends).toEqual([[name, 'completed']]);
    expect(t.live()).toEqual({ agents: 1, sessions: 1 });
  });

  it('is still stopped by the signal that it was started with', async () => {
    const { asked, text: words } = held();
    await using t = await owned(name, { script: [{ text: words }] });
    const controller = new AbortController();
    const run = await t.start({ signal: controller.signal });
    await asked.wait();
    await t.scope.dispose();
    controller.abort();
    expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
    expect(turnEnd(run.localAgent!)!.data).toMatchObject({
      reason: { kind: 'aborted', reason: { kind: 'parent' } },
    });
    await run.dispose();
  });

  it('can still hand in its structured result', async () => {
    const schema: ObjectJsonSchema = { type: 'object', properties: { n: { type: 'integer' } } };
    const asked = gate();
    const hold = gate();
    await using t = await owned(name, {
      script: [
        {
          text: [{ wait: async () => asked.open() }, hold],
          toolCalls: [{ name: 'structured_output', arguments: { n: 3 } }],
        },
      ],
    });
    const run = await t.start({ outputSchema: schema });
    await asked.wait();
    await t.scope.dispose();
    hold.open();
    expect(await run.result).toMatchObject({ structured: { n: 3 }, stopReason: 'completed' });
    await run.dispose();
  });

  it('is published when that happens while it is made', async () => {
    await using t = await owned(name, { script: ['Done.'] });
    const starting = t.start();
    await t.scope.dispose();
    const run = await starting;
    expect((await run.result).stopReason).toBe('completed');
    await run.dispose();
  });
});
