/** Roots that were opened from outside are let go of, so that another process can own them. */
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { serveHttp } from '../../src/serve/http.ts';
import { serveStdio } from '../../src/serve/stdio.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { served } from './served.ts';
import type { Served } from './served.ts';

const id = SessionId('mine');
const prompt = ({ client }: Served, text = 'Hi') =>
  client.call('session/prompt', { sessionId: id, contentBlocks: [{ type: 'text', text }] });
const agentOf = ({ t }: Served) => t.harness.agents.get(id);
const gone = async (s: Served): Promise<void> => {
  while (agentOf(s) !== undefined) await new Promise((done) => setImmediate(done));
};

const othersTurns = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn++) await new Promise((done) => setImmediate(done));
};

describe('session/close', () => {
  it('lets go of a root once its turn is over, and it is opened again by what is sent', async () => {
    const held = gate();
    await using s = await served({ script: [{ hold: held, text: 'One.' }, 'Two.'] });
    await prompt(s);
    await held.arrived();
    const closing = s.client.call('session/close', { sessionId: id });
    await s.client.call('metrics', {});
    expect(agentOf(s)?.status).toBe('running');
    held.open();
    expect(await closing).toEqual({ wasLive: true });
    expect(agentOf(s)).toBeUndefined();
    expect(await s.t.harness.sessionPersistence.isHeldElsewhere?.(id)).toBe(false);
    const { events } = await s.t.harness.sessions.inspect(id);
    expect(events.at(-1)?.type).toBe('turn/end');
    await prompt(s, 'Again');
    await agentOf(s)?.whenIdle();
    expect(s.t.model.requests).toHaveLength(2);
  });

  it('keeps what waits', async () => {
    const held = gate();
    await using s = await served({ script: [{ hold: held, text: 'Never.' }] });
    await prompt(s);
    await held.arrived();
    await prompt(s, 'Later');
    await s.client.call('session/interrupt', { sessionId: id });
    expect(await s.client.call('session/close', { sessionId: id })).toEqual({ wasLive: true });
    const { agent } = await s.t.harness.agents.resume(id);
    expect(agent.inbox.nextTurn).toMatchObject([{ content: [{ type: 'text', text: 'Later' }] }]);
  });

  it('leaves alone what the program itself opened, and finds nothing to do for the rest', async () => {
    await using s = await served({ script: ['One.'] });
    const close = (sessionId: string) => s.client.call('session/close', { sessionId });
    await expect(close(s.t.root.id)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    await expect(close('unknown')).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await prompt(s);
    expect(await close(id)).toEqual({ wasLive: true });
    expect(await close(id)).toEqual({ wasLive: false });
  });
});

describe.each(['stdio', 'http'] as const)('a server on %s', (door) => {
  const serve = async ({ t: { harness } }: Served, clock: ManualClock): Promise<() => unknown> => {
    const options = { clock, idleMs: 4_000 };
    if (door === 'http') {
      const server = await serveHttp(harness, options);
      return () => server.close();
    }
    const streams = { input: new PassThrough(), output: new PassThrough() };
    const server = serveStdio(harness, { ...streams, ...options });
    return () => server.close();
  };

  it('lets go of a root that is idle for long, and of no timer of its own when it closes', async () => {
    const clock = new ManualClock();
    await using s = await served({ script: ['One.'] });
    const close = await serve(s, clock);
    await prompt(s);
    await agentOf(s)?.whenIdle();
    await clock.advance(4_000);
    expect(agentOf(s)).toBeDefined();
    await clock.advance(1_000);
    await gone(s);
    expect(s.t.harness.agents.list()).toEqual([s.t.root]);
    await close();
    await clock.advance(0);
    expect(clock.pending).toBe(0);
  });

  it('holds a root that did something between two looks, whoever told it to', async () => {
    const clock = new ManualClock();
    await using s = await served({ script: ['One.', 'Two.'] });
    const close = await serve(s, clock);
    await prompt(s);
    await agentOf(s)?.whenIdle();
    await clock.advance(4_000);
    // The program itself: nobody outside is told of it, or uses it.
    agentOf(s)?.followup(createUserMessage('Go on'));
    await agentOf(s)?.whenIdle();
    await clock.advance(4_000);
    await othersTurns();
    expect(agentOf(s)).toBeDefined();
    await clock.advance(1_000);
    await gone(s);
    await close();
  });

  it('holds a root that works, was told something, or is followed', async () => {
    const clock = new ManualClock();
    const held = gate();
    await using s = await served({ script: ['One.', { hold: held, text: 'Two.' }] });
    const close = await serve(s, clock);
    await prompt(s);
    await agentOf(s)?.whenIdle();
    await clock.advance(4_000);
    await prompt(s, 'Again');
    await held.arrived();
    await clock.advance(20_000);
    expect(agentOf(s)).toBeDefined();
    held.open();
    await agentOf(s)?.whenIdle();
    const reading = s.client.follow(id);
    await reading.next();
    await clock.advance(20_000);
    expect(agentOf(s)).toBeDefined();
    await reading.return?.();
    await s.client.call('metrics', {});
    await clock.advance(6_000);
    await gone(s);
    await close();
  });
});
