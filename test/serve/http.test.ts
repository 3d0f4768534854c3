import { describe, expect, it } from 'vitest';
import { createUserMessage } from '../../src/agent/agent.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { get, rpc, serving } from './http-asking.ts';

describe('whoever asks', () => {
  it.each([
    ['without a token', '/sessions', { authorization: '' }, 401],
    ['with another token', '/sessions', { authorization: 'Bearer nope' }, 401],
    ['by a name that only leads here', '/sessions', { host: 'evil.example' }, 403],
    ['from a page of another site', '/sessions', { origin: 'https://evil.example' }, 403],
    ['from a page without an origin', '/sessions', { origin: 'null' }, 403],
    ['for its health, without a token', '/healthz', { authorization: '' }, 200],
    ['for its health, by a name that only leads here', '/healthz', { host: 'evil.example' }, 403],
    ['for what is not there', '/nothing', {}, 404],
  ])('%s at %s is answered accordingly', async (_, path, headers, status) => {
    await using s = await serving();
    expect((await get(s.server, path, { headers })).status).toBe(status);
  });
});

describe('one request', () => {
  it('is one operation', async () => {
    await using s = await serving({ script: ['Done.'] });
    const { status, body } = await get(s.server, '/rpc', rpc('session/list', {}));
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({ id: 1, result: { rows: [{ id: s.t.root.id }] } });
    const sent = await get(
      s.server,
      '/rpc',
      rpc('session/send', { sessionId: s.t.root.id, text: 'Go' }),
    );
    expect(sent.status).toBe(200);
    await s.t.root.whenIdle();
    expect(s.t.root.session.events.at(-1)?.type).toBe('turn/end');
  });

  it.each([
    ['parameters that are wrong', rpc('session/send', {}), 400],
    ['a session that is not there', rpc('session/send', { sessionId: 'x', text: 'y' }), 404],
    ['an operation that is not there', rpc('no/such', {}), 404],
    ['what needs a connection', rpc('tree/watch', {}), 400],
    ['no JSON', { method: 'POST', body: '{' }, 400],
    ['null', { method: 'POST', body: 'null' }, 400],
    ['too much', { method: 'POST', body: `"${'x'.repeat(1_048_576)}"` }, 413],
  ])('with %s is refused', async (_, asked, status) => {
    await using s = await serving();
    expect((await get(s.server, '/rpc', asked)).status).toBe(status);
  });

  it('gives counters as Prometheus reads them', async () => {
    await using s = await serving();
    const { body } = await get(s.server, '/metrics');
    expect(body).toContain('# TYPE subagents_turns_total counter\nsubagents_turns_total 0\n');
    expect(body).toContain('# TYPE subagents_agents gauge\nsubagents_agents 1\n');
  });

  it('ends the server where it asks for that', async () => {
    await using s = await serving();
    expect((await get(s.server, '/rpc', rpc('shutdown', {}))).status).toBe(200);
    expect(await s.server.closed).toBe('shutdown');
  });
});

describe('a stream', () => {
  it('goes on after the event that its reader saw last', async () => {
    await using s = await serving({ script: ['One.'] });
    await s.t.ask('Go');
    const last = s.t.root.session.seq - 1;
    const path = `/sessions/${s.t.root.id}/events`;
    const isEnd = (text: string): boolean =>
      text.includes(`id: ${last}\n`) && text.endsWith('\n\n');
    const whole = await get(s.server, path, { until: isEnd });
    expect(whole.body.match(/^id: \d+$/gmu)).toHaveLength(last + 1);
    const headers = { 'last-event-id': String(last - 2) };
    const rest = await get(s.server, path, { headers, until: isEnd });
    expect(rest.body.match(/^id: \d+$/gmu)).toEqual([`id: ${last - 1}`, `id: ${last}`]);
  });

  it('of the tree begins with all rows and goes on with what happens', async () => {
    await using s = await serving({ script: ['One.'] });
    const isShown = deferred<void>();
    const reading = get(s.server, '/tree', {
      until(text) {
        if (text.endsWith('\n\n')) isShown.resolve();
        return text.includes('"type":"turn/end"') && text.endsWith('\n\n');
      },
    });
    await isShown.promise;
    await s.t.ask('Go');
    const { body } = await reading;
    expect(body.indexOf('event: tree.snapshot')).toBe(0);
  });

  it('is ended when the server closes', async () => {
    const held = gate();
    await using s = await serving({ script: [{ hold: held, text: 'Late.' }] });
    s.t.root.followup(createUserMessage('Go'));
    await held.arrived();
    const isShown = deferred<void>();
    const reading = get(s.server, `/sessions/${s.t.root.id}/events`, {
      until(text) {
        if (text.endsWith('\n\n')) isShown.resolve();
        return false;
      },
    });
    await isShown.promise;
    await s.server.close();
    expect((await reading).status).toBe(200);
    held.open();
  });

  it('of a session that is not there is refused', async () => {
    await using s = await serving();
    expect((await get(s.server, '/sessions/nobody/events')).status).toBe(404);
    expect((await get(s.server, '/sessions/%E0%A4%A/events')).status).toBe(404);
  });
});
