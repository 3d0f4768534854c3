/** What a client reads of a connection, and how it is left. */
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Operations } from '../../src/serve/operations.ts';
import { connectPeer } from '../../src/serve/peer-client.ts';
import { served } from './served.ts';

type Line = { id?: string; method?: string; params?: Record<string, unknown> };

/** The other end of a client, line by line. */
async function farEnd() {
  const [toClient, fromClient] = [new PassThrough(), new PassThrough()];
  const lines: Line[] = [];
  const waiting: ((line: Line) => void)[] = [];
  let rest = '';
  fromClient.on('data', (part: Buffer) => {
    const parts = (rest + part.toString()).split('\n');
    rest = parts.pop() ?? '';
    for (const text of parts) {
      const line = JSON.parse(text) as Line;
      const next = waiting.shift();
      if (next === undefined) lines.push(line);
      else next(line);
    }
  });
  const hears = (): Promise<Line> => {
    const line = lines.shift();
    return line === undefined ? new Promise((done) => waiting.push(done)) : Promise.resolve(line);
  };
  const says = (...all: readonly object[]): void =>
    void toClient.write(
      all.map((one) => `${JSON.stringify({ jsonrpc: '2.0', ...one })}\n`).join(''),
    );
  const connecting = connectPeer({ input: toClient, output: fromClient });
  says({ id: (await hears()).id, result: { pid: 1 } });
  return { client: await connecting, hears, says };
}

const eventOf = (followId: string, seq: number): object => ({
  method: 'session.event',
  params: { sessionId: 'a', followId, event: { type: 'x', seq } },
});

describe('a reading', () => {
  it('has all that comes in one piece with its answer', async () => {
    const { client, hears, says } = await farEnd();
    const reading = client.follow('a');
    const first = reading.next();
    const { id } = await hears();
    const end = { method: 'follow.end', params: { sessionId: 'a', followId: 'f' } };
    says({ id, result: { followId: 'f' } }, eventOf('f', 0), eventOf('f', 1), end);
    expect((await first).value).toMatchObject({ seq: 0 });
    expect((await reading.next()).value).toMatchObject({ seq: 1 });
    expect(await reading.next()).toEqual({ done: true, value: undefined });
    await client.close();
  });

  it('keeps nothing that is told of what nobody reads', async () => {
    const { client, hears, says } = await farEnd();
    const reading = client.follow('a');
    const first = reading.next();
    const { id } = await hears();
    says(eventOf('f', 0), eventOf('other', 1));
    says({ id, result: { followId: 'f' } }, eventOf('f', 2));
    expect((await first).value).toMatchObject({ seq: 2 });
    await client.close();
  });

  it('ends at once when it is left while a read waits', async () => {
    const { client, hears, says } = await farEnd();
    const reading = client.follow('a');
    const first = reading.next();
    says({ id: (await hears()).id, result: { followId: 'f' } }, eventOf('f', 0));
    await first;
    const waits = reading.next();
    expect(await reading.return?.()).toEqual({ done: true, value: undefined });
    expect(await waits).toEqual({ done: true, value: undefined });
    // The far end is told, and need not answer for that.
    expect(await hears()).toMatchObject({ method: 'session/unfollow', params: { followId: 'f' } });
    await client.close();
  });

  it('that is left before it is answered is let go of when it is', async () => {
    const { client, hears, says } = await farEnd();
    const reading = client.watch();
    const first = reading.next();
    const { id } = await hears();
    await reading.return?.();
    expect(await first).toEqual({ done: true, value: undefined });
    says({ id, result: { watchId: 'w' } });
    expect(await hears()).toMatchObject({ method: 'tree/unwatch', params: { watchId: 'w' } });
    await client.close();
  });

  it('that is aborted before it is answered is let go of when it is', async () => {
    const { client, hears, says } = await farEnd();
    const stop = new AbortController();
    const first = client.follow('a', { signal: stop.signal }).next();
    const { id } = await hears();
    stop.abort(new Error('Enough.'));
    await expect(first).rejects.toThrow('Enough.');
    says({ id, result: { followId: 'f' } });
    expect(await hears()).toMatchObject({ method: 'session/unfollow' });
    await client.close();
  });
});

it('answers before it tells anything of what was asked for', async () => {
  await using s = await served({ script: ['One.'] });
  await s.t.ask('Go');
  const told: string[] = [];
  const tell = async (name: string): Promise<void> => void told.push(name);
  const operations = new Operations({ harness: s.t.harness }, tell, () => {});
  await operations.call('session/follow', { sessionId: s.t.root.id });
  // What reads the answer does so in these steps.
  for (let step = 0; step < 20; step++) await Promise.resolve();
  expect(told).toEqual([]);
  await operations.close();
});
