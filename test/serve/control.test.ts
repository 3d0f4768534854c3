import { statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { HarnessError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { operationSchemas } from '../../src/serve/operation-schemas.ts';
import { testHarness } from '../support/harness.ts';
import { served, take } from './served.ts';

const said = (sessionId: string) => ({
  sessionId,
  contentBlocks: [{ type: 'text', text: 'Hi' }] as const,
});

describe('a prompt', () => {
  it.each(['a', '7:b.c_d-e', 'a'.repeat(128)])('makes a root of the id %s', async (id) => {
    await using s = await served({ script: ['Hello.'] });
    await s.client.call('session/prompt', said(id));
    await s.t.harness.agents.get(SessionId(id))?.whenIdle();
    expect(s.t.model.requests).toHaveLength(1);
  });

  it('reaches a root of the program by whatever id it has', async () => {
    await using s = await served({ script: ['Hello.'] });
    const { agent } = await s.t.harness.agents.create({ sessionId: 'two words' });
    await s.client.call('session/prompt', said(agent.id));
    await agent.whenIdle();
    expect(s.t.model.requests).toHaveLength(1);
  });

  it('makes a root of an unknown id, and its events and rests are told in order', async () => {
    await using s = await served({ script: ['Hello.'] });
    const told: string[] = [];
    const idle = deferred<void>();
    s.client.on('session.event', ({ event }) => void told.push(event.type));
    s.client.on('session.status', ({ status }) => {
      told.push(status);
      if (status === 'idle') idle.resolve();
    });
    const { messageId } = await s.client.call('session/prompt', {
      sessionId: 'mine',
      contentBlocks: [{ type: 'text', text: 'Hi' }],
    });
    await idle.promise;
    expect(told.filter((type) => type !== 'assistant/chunk')).toEqual([
      'agent/inbox/spliced',
      'running',
      'turn/start',
      'agent/inbox/spliced',
      'step/start',
      'user/message',
      'request/header',
      'request/context',
      'assistant/message',
      'step/end',
      'turn/end',
      'idle',
    ]);
    expect(s.t.harness.agents.get(SessionId('mine'))?.session.events[0]).toMatchObject({
      data: { inserted: [{ id: messageId }] },
    });
  });
});

describe('parameters that are wrong', () => {
  it.each([
    ['session/send', { sessionId: 'a' }, 'INVALID_ARGUMENT'],
    ['session/send', { sessionId: 'a', text: 'b', more: 1 }, 'INVALID_ARGUMENT'],
    ['session/read', { sessionId: 'a', from: -1 }, 'INVALID_ARGUMENT'],
    ['session/read', { sessionId: 'a', limit: 5_000 }, 'INVALID_ARGUMENT'],
    ['session/prompt', { sessionId: '', contentBlocks: [] }, 'INVALID_ARGUMENT'],
    ['session/prompt', { sessionId: 'a', contentBlocks: [{ no: 'type' }] }, 'INVALID_ARGUMENT'],
    ['session/prompt', said('a b'), 'INVALID_ARGUMENT'],
    ['session/prompt', said('a\u001B[31m'), 'INVALID_ARGUMENT'],
    ['session/prompt', said('a\n'), 'INVALID_ARGUMENT'],
    ['session/prompt', said('-a'), 'INVALID_ARGUMENT'],
    ['session/prompt', said('ä'), 'INVALID_ARGUMENT'],
    ['session/prompt', said(''), 'INVALID_ARGUMENT'],
    ['session/prompt', said('a'.repeat(129)), 'INVALID_ARGUMENT'],
    ['initialize', { protocolVersion: 2 }, 'PROTOCOL_VERSION'],
    ['initialize', { provider: 'nobody' }, 'INVALID_ARGUMENT'],
    ['session/list', { rootId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['session/send', { sessionId: 'unknown', text: 'x' }, 'SESSION_NOT_FOUND'],
    ['session/interrupt', { sessionId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['session/cancel', { sessionId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['session/drain', { sessionId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['session/find', { sessionId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['session/follow', { sessionId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['tree/watch', { rootId: 'unknown' }, 'SESSION_NOT_FOUND'],
    ['no/such', {}, 'UNKNOWN_OPERATION'],
    ['shutdown', {}, 'UNAUTHORIZED'],
  ] as const)('of %s %j are refused with %s', async (method, params, code) => {
    await using s = await served();
    const error = await s.client.call(method as never, params as never).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(HarnessError);
    expect((error as HarnessError).code).toBe(code);
    // Before anything happened: only the root of the test is there.
    expect(s.t.harness.agents.list()).toEqual([s.t.root]);
  });
});

it('says what there is to whoever asks for what there is not', async () => {
  await using s = await served();
  const asked = s.client.call('no/such' as never, {} as never);
  const names = Object.keys(operationSchemas).join(', ');
  await expect(asked).rejects.toThrow(`There is no operation "no/such". There are: ${names}.`);
  const long = s.client.call('x'.repeat(10_000) as never, {} as never);
  await expect(long).rejects.toThrow(`"${'x'.repeat(100)}". There`);
});

describe('reading', () => {
  it('of many at once over one connection is no sign of a leak', async () => {
    await using s = await served({ script: ['One.'] });
    await s.t.ask('Go');
    const warnings: string[] = [];
    const warned = ({ message }: Error): void => void warnings.push(message);
    process.on('warning', warned);
    const readings = Array.from({ length: 20 }, () => s.client.follow(s.t.root.id));
    readings.push(...Array.from({ length: 20 }, () => s.client.watch() as never));
    await Promise.all(readings.map((reading) => reading.next()));
    for (const reading of readings) await reading.return?.();
    await s.client.call('metrics', {});
    process.off('warning', warned);
    expect(warnings).toEqual([]);
  });

  it('gives a log page by page', async () => {
    await using s = await served({ script: ['One.'] });
    await s.t.ask('Go');
    const sessionId = s.t.root.id;
    const first = await s.client.call('session/read', { sessionId, limit: 3 });
    expect(first.events.map(({ seq }) => seq)).toEqual([0, 1, 2]);
    expect(first.next).toBe(3);
    const rest = await s.client.call('session/read', { sessionId, from: 3 });
    expect([...first.events, ...rest.events]).toEqual(s.t.root.session.events);
    expect(rest.next).toBeUndefined();
  });

  it('follows a log while it grows, and lets go of it', async () => {
    await using s = await served({ script: ['One.', 'Two.'] });
    await s.t.ask('Go');
    const isSecond = ({ type, data }: { type: string; data: unknown }): boolean =>
      type === 'turn/end' && (data as { turn: number }).turn === 2;
    const reading = take(s.client.follow(s.t.root.id), isSecond);
    await s.t.ask('Again');
    expect(await reading).toEqual(s.t.root.session.events);
  });

  it('ends with the life of the session', async () => {
    await using s = await served({ script: ['One.'] });
    await s.t.ask('Go');
    const reading = take(s.client.follow(s.t.root.id), () => false);
    await s.t.rootHandle.dispose();
    expect((await reading).at(-1)?.type).toBe('turn/end');
  });
});

describe('the socket', () => {
  it('is its owner’s alone, and gone when it is closed', async () => {
    await using s = await served();
    const { mode } = statSync(s.socket.path);
    expect((mode & 0o777).toString(8)).toBe('600');
    expect(s.socket.path).toBe(`${s.store}-${process.pid}.sock`);
    await s.socket.close();
    expect(statSync(s.socket.path, { throwIfNoEntry: false })).toBeUndefined();
    await s.client.closed;
    await expect(s.client.call('metrics', {})).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' });
  });

  it('is refused to a harness without a file', async () => {
    await using t = await testHarness();
    const { openControlSocket } = await import('../../src/serve/control-socket.ts');
    await expect(openControlSocket(t.harness)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('a turn', () => {
  it('is interrupted, and what waits stays', async () => {
    const held = gate();
    await using s = await served({ script: [{ hold: held, text: 'Never.' }] });
    const sessionId = s.t.root.id;
    s.t.root.followup(createUserMessage('One'));
    await held.arrived();
    await s.client.call('session/send', { sessionId, text: 'Two' });
    const wasRunning = await s.client.call('session/interrupt', { sessionId });
    await s.t.root.whenIdle();
    expect(wasRunning).toEqual({ wasRunning: true });
    expect(s.t.root.inbox.nextTurn).toHaveLength(1);
  });

  it('is cancelled with all that waits', async () => {
    const held = gate();
    await using s = await served({ script: [{ hold: held, text: 'Never.' }] });
    const sessionId = s.t.root.id;
    s.t.root.followup(createUserMessage('One'));
    await held.arrived();
    await s.client.call('session/send', { sessionId, text: 'Two' });
    await s.client.call('session/cancel', { sessionId });
    await s.t.root.whenIdle();
    expect(s.t.root.inbox.hasPending).toBe(false);
  });
});
