import { describe, expect, it } from 'vitest';
import type { UserMessage } from '../../protocol/content.ts';
import { SubagentError } from '../../protocol/errors.ts';
import { MessageId, SessionId } from '../../protocol/ids.ts';
import type { CancelCause, TurnEndReason } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent, AgentEvents } from '../../src/agent/agent.ts';
import { systemClock } from '../../src/base/clock.ts';
import { deferred } from '../../src/base/deferred.ts';
import { Emitter } from '../../src/base/emitter.ts';
import { newId } from '../../src/base/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { WorkerRun } from '../../src/providers/worker-run.ts';
import { Session } from '../../src/session/session.ts';
import type { StructuredCapture } from '../../src/subagents/structured.ts';
import { rejection, text } from '../subagents/stubs.ts';

/** A published child with a real log and no thread: the test writes what its turn would. */
function childOf(made: { followup?: () => void; dispose?: () => Promise<void> } = {}) {
  const id = SessionId(newId());
  const session = new Session({ header: { version: 0, id, createdAt: 0 }, clock: systemClock });
  const observers = new Emitter<AgentEvents>(silentLogger);
  const idle = deferred<void>();
  const told: UserMessage[] = [];
  const trail: string[] = [];
  const hooks = { onCancel() {} };
  const inbox = { hasPending: false };
  const agent = {
    id,
    session,
    inbox,
    followup(message: UserMessage) {
      made.followup?.();
      told.push(message);
      session.append('agent/inbox/spliced', { target: 'next-turn', start: 0, inserted: [message] });
    },
    whenIdle: () => idle.promise,
    cancel(cause: CancelCause) {
      trail.push(`cancel ${cause.kind}`);
      hooks.onCancel();
    },
  } as unknown as Agent;
  const dispose = async () => {
    trail.push('dispose');
    idle.resolve();
    await made.dispose?.();
  };
  const prompt = createUserMessage('Work.');
  const controller = new AbortController();
  const takes = (outcome?: 'canceled') =>
    session.append('agent/inbox/spliced', {
      target: 'next-turn',
      start: 0,
      removedCount: 1,
      inserted: [],
      ...(outcome === undefined ? {} : { outcome }),
    });
  const says = (words: string) =>
    session.append('assistant/message', {
      turn: 1,
      step: 1,
      message: {
        id: MessageId(newId()),
        role: 'assistant',
        content: words === '' ? [] : [text(words)],
        source: { kind: 'model', provider: 'p', model: 'm' },
      },
    });
  return {
    agent,
    session,
    observers,
    told,
    trail,
    controller,
    idle,
    says,
    set onCancel(run: () => void) {
      hooks.onCancel = run;
    },
    keepsPrompt: () => void (inbox.hasPending = true),
    /** The claimed prompt is dropped, as a disposal does. */
    dropsPrompt: () => takes('canceled'),
    /** The one turn of the child, with this in its step, ended like this. */
    runsTurn(reason: TurnEndReason, inStep: () => unknown = () => {}, hasStep = true) {
      session.append('turn/start', { turn: 1 });
      takes();
      if (hasStep) {
        session.append('step/start', { turn: 1, step: 1 });
        inStep();
        session.append('step/end', { turn: 1, step: 1 });
      }
      session.append('turn/end', { turn: 1, reason });
    },
    run: (capture?: StructuredCapture) =>
      new WorkerRun({
        handle: { agent, dispose, [Symbol.asyncDispose]: dispose },
        prompt,
        signal: controller.signal,
        capture,
        observers,
      }),
  };
}

const completed: TurnEndReason = { kind: 'completed' };
const nothing: StructuredCapture = { captured: undefined };

describe('WorkerRun', () => {
  it('tells the child its prompt once and reads the result when it is idle', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn(completed, () => child.says('Done.'));
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [text('Done.')], stopReason: 'completed' });
    expect(child.told).toMatchObject([{ content: [text('Work.')], source: { kind: 'user' } }]);
    expect(run).toMatchObject({ id: child.agent.id, localAgent: child.agent });
  });

  it('never tells the prompt when an abort came between publication and handoff', async () => {
    const child = childOf();
    child.controller.abort();
    const run = child.run();
    expect(run.id).toBe(child.agent.id);
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
    await run.dispose();
    expect(child.told).toEqual([]);
    expect(child.trail).toEqual(['dispose']);
  });

  it('rejects the result with what telling the prompt threw, and the disposal with its own', async () => {
    const [mute, stuck] = [new Error('mute'), new Error('stuck')];
    const child = childOf({
      followup() {
        throw mute;
      },
      dispose: () => Promise.reject(stuck),
    });
    const run = child.run();
    expect(await rejection(run.result)).toBe(mute);
    expect(await rejection(run.dispose())).toBe(stuck);
    expect(child.observers.listenerCount('agent/error')).toBe(0);
    child.controller.abort();
    expect(child.trail).toEqual(['dispose']);
  });

  it.each<[TurnEndReason, string]>([
    [completed, 'completed'],
    [{ kind: 'max-tokens' }, 'max-tokens'],
    [{ kind: 'aborted', reason: { kind: 'disposed' } }, 'aborted'],
    [{ kind: 'blocked' }, 'refusal'],
    [{ kind: 'interrupted' }, 'error'],
    [{ kind: 'error', error: { code: 'AUTH', message: 'no key' } }, 'error'],
  ])('reads %j as its reason', async (reason, stopReason) => {
    const child = childOf();
    const run = child.run();
    child.runsTurn(reason);
    child.idle.resolve();
    expect(await run.result).toMatchObject({ output: [], stopReason });
  });

  it('refuses a prompt that was rejected before its first step', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn({ kind: 'blocked' }, undefined, false);
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [], stopReason: 'refusal' });
  });

  it('keeps earlier text when a last message without content ran out of tokens', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn({ kind: 'max-tokens' }, () => {
      child.says('So far.');
      child.says('');
    });
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [text('So far.')], stopReason: 'max-tokens' });
  });

  it('is not changed by what is logged after its turn', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn(completed, () => child.says('Done.'));
    child.session.append('turn/start', { turn: 2 });
    child.session.append('turn/end', { turn: 2, reason: completed });
    child.session.append('session/end-seed', {});
    child.idle.resolve();
    expect(await run.result).toMatchObject({ stopReason: 'completed' });
  });

  it('names the failure of the turn as its diagnostic', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn({ kind: 'error', error: { code: 'WORKER_EXITED', message: 'It exited.' } });
    child.idle.resolve();
    expect((await run.result).diagnostic).toBe('WORKER_EXITED: It exited.');
  });

  it('names a failure of the child itself when there is no turn to tell of it', async () => {
    const child = childOf();
    const run = child.run();
    const told = (agent: Agent, code: string) =>
      child.observers.emit('agent/error', { agent, error: { code, message: 'No.' } });
    told(child.agent, 'STORE_FULL');
    told({ ...child.agent }, 'OTHER');
    child.dropsPrompt();
    child.idle.resolve();
    expect(await run.result).toEqual({
      output: [],
      stopReason: 'error',
      diagnostic: 'STORE_FULL: No.',
    });
  });

  it('bounds the diagnostic', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn({ kind: 'error', error: { code: 'SERVER', message: '€'.repeat(5_000) } });
    child.idle.resolve();
    expect(Buffer.byteLength((await run.result).diagnostic!)).toBeLessThanOrEqual(4_096);
  });

  it('is aborted when its prompt was dropped before it ran', async () => {
    const child = childOf();
    const run = child.run();
    child.dropsPrompt();
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  });

  it('is aborted when its prompt still waits at the end', async () => {
    const child = childOf();
    const run = child.run();
    child.keepsPrompt();
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  });

  it('is aborted when its owner ended it before it could be told anything', async () => {
    const child = childOf({
      followup() {
        throw new SubagentError('DRAINING', 'It is being disposed.');
      },
    });
    expect(await child.run().result).toEqual({ output: [], stopReason: 'aborted' });
  });

  it('says why a hook kept the child from its step', async () => {
    for (const reason of ['not today', '€'.repeat(5_000)]) {
      const child = childOf();
      const run = child.run();
      child.runsTurn({ kind: 'blocked', reason });
      child.idle.resolve();
      const { stopReason, diagnostic } = await run.result;
      expect(stopReason).toBe('refusal');
      expect(diagnostic!.slice(0, 12)).toBe(`BLOCKED: ${reason}`.slice(0, 12));
      expect(Buffer.byteLength(diagnostic!)).toBeLessThanOrEqual(4_096);
    }
  });

  it('gives no reason of a refusal to who cancelled it', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn({ kind: 'blocked', reason: 'not today' });
    child.controller.abort();
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  });

  it('is disposed once, also by whoever is told that it is being stopped', async () => {
    const child = childOf();
    const run = child.run();
    const again: Promise<void>[] = [];
    child.onCancel = () => void again.push(run.dispose());
    const first = run.dispose();
    expect(again).toEqual([first]);
    expect(again[0]).toBe(first);
    await first;
    expect(child.trail).toEqual(['cancel parent', 'dispose']);
  });

  it('passes an abort on as the cause of the parent, and only while there is something to stop', async () => {
    const child = childOf();
    const run = child.run();
    child.controller.abort();
    expect(child.trail).toEqual(['cancel parent']);
    child.runsTurn({ kind: 'aborted', reason: { kind: 'parent' } }, () => child.says('Half'));
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [text('Half')], stopReason: 'aborted' });
  });

  it('says aborted for whatever a cancelled child recorded, except that it completed', async () => {
    for (const [reason, stopReason] of [
      [{ kind: 'error', error: { code: 'SERVER', message: 'gone' } }, 'aborted'],
      [completed, 'completed'],
    ] as const) {
      const child = childOf();
      const run = child.run();
      child.runsTurn(reason);
      child.controller.abort();
      child.idle.resolve();
      expect(await run.result).toEqual({ output: [], stopReason });
    }
  });

  it('lets go of the signal when the result is there', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn(completed);
    child.idle.resolve();
    await run.result;
    child.controller.abort();
    expect(child.trail).toEqual([]);
  });

  it('stops the child, then releases it, once for all who dispose', async () => {
    const child = childOf();
    const run = child.run();
    child.runsTurn({ kind: 'aborted', reason: { kind: 'parent' } });
    const [first, second] = [run.dispose(), run.dispose()];
    expect(second).toBe(first);
    await first;
    expect(child.trail).toEqual(['cancel parent', 'dispose']);
    expect(await run.result).toMatchObject({ stopReason: 'aborted' });
  });

  it('gives the captured value with the ordinary reason', async () => {
    const child = childOf();
    const run = child.run({ captured: { value: { count: 1 } } });
    child.runsTurn({ kind: 'max-tokens' });
    child.idle.resolve();
    expect(await run.result).toEqual({
      output: [],
      structured: { count: 1 },
      stopReason: 'max-tokens',
    });
  });

  it('fails a clean finish without the value that was asked for', async () => {
    const child = childOf();
    const run = child.run(nothing);
    child.runsTurn(completed, () => child.says('Prose.'));
    child.idle.resolve();
    const result = await run.result;
    expect(result).toMatchObject({ output: [text('Prose.')], stopReason: 'error' });
    expect(result).not.toHaveProperty('structured');
    expect(result.diagnostic).toMatch(/structured result/);
  });

  it('is aborted when it was cancelled at the end of a clean turn without the value', async () => {
    const child = childOf();
    const run = child.run(nothing);
    child.runsTurn(completed);
    child.controller.abort();
    child.idle.resolve();
    expect(await run.result).toEqual({ output: [], stopReason: 'aborted' });
  });

  it('keeps any other reason when the value is missing', async () => {
    const child = childOf();
    const run = child.run(nothing);
    child.runsTurn({ kind: 'error', error: { code: 'AUTH', message: 'no key' } });
    child.idle.resolve();
    expect(await run.result).toEqual({
      output: [],
      stopReason: 'error',
      diagnostic: 'AUTH: no key',
    });
  });
});
