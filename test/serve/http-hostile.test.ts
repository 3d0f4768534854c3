/** What an HTTP server is asked by mistake, or to do harm. */
import { describe, expect, it } from 'vitest';
import { deafReader, get, rpc, serving } from './http-asking.ts';

const MAX_STREAMS = 64;
const later = (): Promise<void> => new Promise((done) => setImmediate(done));

describe('an address', () => {
  it.each([
    ['//', 404],
    ['//[', 404],
    ['//evil.example/healthz', 404],
    ['/%', 404],
    ['http://[', 400],
    ['*', 400],
  ])('%s is answered with %d', async (path, status) => {
    await using s = await serving();
    const answer = await get(s.server, path);
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { message: expect.any(String) } });
  });
});

describe('the id of a request', () => {
  const body = (id: string): { method: string; body: string } => ({
    method: 'POST',
    body: `{"jsonrpc":"2.0","id":${id},"method":"metrics"}`,
  });
  const DEEP = 200_000;

  it.each([
    ['an object', '{"a":1}'],
    ['null', 'null'],
    ['a flag', 'true'],
    ['larger than a number can be', '1e999'],
    ['very deep', `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`],
  ])('that is %s is refused', async (_, id) => {
    await using s = await serving();
    const answer = await get(s.server, '/rpc', body(id));
    expect(answer.status).toBe(400);
    const { error, id: echoed } = JSON.parse(answer.body) as { error: object; id: unknown };
    expect(echoed).toBeNull();
    expect(error).toMatchObject({ code: -32_600 });
  });

  it.each(['"a"', '7'])('%s comes back', async (id) => {
    await using s = await serving();
    const answer = await get(s.server, '/rpc', body(id));
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body)).toMatchObject({ id: JSON.parse(id) as unknown });
  });

  it('is not looked for when what it asks with is very deep, or has very many values', async () => {
    await using s = await serving();
    const deep = `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`;
    const many = `[${'{},'.repeat(200_000)}{}]`;
    for (const value of [deep, many]) {
      const asked = `{"id":1,"method":"metrics","params":{"a":${value}}}`;
      const answer = await get(s.server, '/rpc', { method: 'POST', body: asked });
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body)).toMatchObject({ id: null, error: { code: -32_600 } });
    }
  });
});

describe('the last event that a reader saw', () => {
  it.each([
    ['abc', 400],
    ['1e1', 400],
    ['-1', 400],
    ['99', 400],
    ['99999999999999999999', 400],
  ])('%s of a log of a few is refused before the stream', async (seen, status) => {
    await using s = await serving({ script: ['One.'] });
    await s.t.ask('Go');
    const headers = { 'last-event-id': seen };
    const answer = await get(s.server, `/sessions/${s.t.root.id}/events`, { headers });
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'INVALID_ARGUMENT' } });
  });

  it('is none when the header is empty', async () => {
    await using s = await serving({ script: ['One.'] });
    await s.t.ask('Go');
    const headers = { 'last-event-id': '' };
    const path = `/sessions/${s.t.root.id}/events`;
    const until = (text: string): boolean => text.endsWith('\n\n');
    expect((await get(s.server, path, { headers, until })).body).toMatch(/^id: 0\n/u);
  });

  it('is looked for in a session that is there', async () => {
    await using s = await serving();
    const headers = { 'last-event-id': '1' };
    expect((await get(s.server, '/sessions/nobody/events', { headers })).status).toBe(404);
  });
});

describe('a token', () => {
  it.each(['bearer', 'BEARER', 'Bearer '])('is taken after "%s"', async (scheme) => {
    await using s = await serving();
    const headers = { authorization: `${scheme} ${s.server.token}` };
    expect((await get(s.server, '/sessions', { headers })).status).toBe(200);
  });
});

describe.each(['127.1', '::ffff:127.0.0.1', 'localhost', '127.0.0.2'])('a server on %s', (host) => {
  it('is one for this machine alone: other names of it are refused', async () => {
    await using s = await serving({}, { host });
    expect((await get(s.server, '/healthz')).status).toBe(200);
    for (const name of ['127.1', '[::ffff:127.0.0.1]:80', 'LOCALHOST:1', '[::1]', '127.0.0.1']) {
      expect((await get(s.server, '/healthz', { headers: { host: name } })).status).toBe(200);
    }
    for (const name of [
      'evil.example',
      '127.evil.example',
      '10.0.0.1',
      '127.0.0.1@evil',
      '[::2]',
    ]) {
      expect((await get(s.server, '/healthz', { headers: { host: name } })).status).toBe(403);
    }
  });
});

describe('readers of events', () => {
  it('are as many as a server takes, of all kinds, without a warning', async () => {
    const warnings: string[] = [];
    const warned = ({ message }: Error): void => void warnings.push(message);
    process.on('warning', warned);
    await using s = await serving({ script: ['One.'] });
    const paths = ['/tree', `/tree?rootId=${s.t.root.id}`, `/sessions/${s.t.root.id}/events`];
    await s.t.ask('Go');
    const readers = [];
    for (let count = 0; count < MAX_STREAMS; count++) {
      readers.push(await deafReader(s.server, paths[count % paths.length] ?? ''));
    }
    for (const path of paths) {
      const { status, body } = await get(s.server, path);
      expect(status).toBe(503);
      expect(JSON.parse(body)).toMatchObject({ error: { code: 'LIMIT_EXCEEDED' } });
    }
    // All else is answered, and who leaves makes room.
    expect((await get(s.server, '/rpc', rpc('metrics', {}))).status).toBe(200);
    await readers.pop()?.leave();
    const until = (text: string): boolean => text.endsWith('\n\n');
    let status = 503;
    while (status === 503) {
      await later();
      ({ status } = await get(s.server, '/tree', { until }));
    }
    expect(status).toBe(200);
    await later();
    process.off('warning', warned);
    expect(warnings).toEqual([]);
    for (const reader of readers) await reader.leave();
  });

  it('that are refused take no room', async () => {
    await using s = await serving();
    for (let count = 0; count <= MAX_STREAMS; count++) {
      expect((await get(s.server, '/sessions/nobody/events')).status).toBe(404);
    }
  });
});
