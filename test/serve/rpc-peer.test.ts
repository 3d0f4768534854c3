import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { served } from './served.ts';

interface Line {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly data?: unknown };
}

/** A client that says what it likes. */
async function raw(
  path: string,
): Promise<{ socket: Socket; lines(count: number): Promise<Line[]> }> {
  const socket = connect(path);
  await once(socket, 'connect');
  let text = '';
  socket.setEncoding('utf8');
  socket.on('data', (part: string) => void (text += part));
  const complete = (): string[] => text.split('\n').slice(0, -1);
  return {
    socket,
    async lines(count) {
      while (complete().length < count && !socket.readableEnded) {
        await Promise.race([once(socket, 'data'), once(socket, 'end')]);
      }
      return complete().map((line) => JSON.parse(line) as Line);
    },
  };
}

const ask = (id: string | number, method = 'metrics', params: object = {}): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;

describe('a connection', () => {
  it.each([
    ['no JSON', 'garbage\n', -32_700],
    ['a batch', `[${ask(1).trim()}]\n`, -32_600],
    ['a number', '42\n', -32_600],
    ['brackets', `${'['.repeat(1e6)}\n`, -32_600],
    ['very many values', `{"params":[${'{},'.repeat(250_000)}1]}\n`, -32_600],
    ['no method', '{"jsonrpc":"2.0","id":1}\n', -32_600],
    ['an id that is none', '{"jsonrpc":"2.0","id":{},"method":"metrics"}\n', -32_600],
  ])('answers %s with an error, and goes on', async (_, line, code) => {
    await using s = await served();
    const { socket, lines } = await raw(s.socket.path);
    socket.write(line + ask(7));
    const answers = await lines(2);
    expect(answers.find((one) => one.error !== undefined)?.error?.code).toBe(code);
    expect(answers.find((one) => one.id === 7)?.result).toBeDefined();
    socket.destroy();
  });

  it('names what is wrong with a request by its code', async () => {
    await using s = await served();
    const { socket, lines } = await raw(s.socket.path);
    socket.write(ask(0, 'session/send', { sessionId: 'a' }) + ask('b', 'no/such'));
    const answers = await lines(2);
    expect(answers.find(({ id }) => id === 0)?.error).toMatchObject({
      code: -32_602,
      data: { code: 'INVALID_ARGUMENT' },
    });
    expect(answers.find(({ id }) => id === 'b')?.error).toMatchObject({
      code: -32_601,
      data: { code: 'UNKNOWN_OPERATION' },
    });
    socket.destroy();
  });

  it('takes a line in pieces, inside of a character too', async () => {
    await using s = await served();
    const { socket, lines } = await raw(s.socket.path);
    const bytes = Buffer.from(ask('é'));
    const inside = bytes.indexOf(0xc3) + 1;
    // The answer to what comes before it says that the first half was read.
    socket.write(Buffer.concat([Buffer.from(ask(1)), bytes.subarray(0, inside)]));
    await lines(1);
    socket.write(bytes.subarray(inside));
    expect((await lines(2))[1]).toMatchObject({ id: 'é' });
    socket.destroy();
  });

  it('ends with a line that is too long, after saying so', async () => {
    await using s = await served();
    const { socket, lines } = await raw(s.socket.path);
    socket.on('error', () => {});
    socket.write('x'.repeat(1_048_577));
    expect((await lines(1))[0]).toMatchObject({ id: null, error: { code: -32_600 } });
    if (!socket.readableEnded) await once(socket, 'end');
    socket.destroy();
  });

  it('leaves a half line behind when it goes, and all it had asked for', async () => {
    await using s = await served({ script: ['One.'] });
    const { socket, lines } = await raw(s.socket.path);
    socket.write(ask(1, 'tree/watch') + ask(2, 'session/follow', { sessionId: s.t.root.id }));
    // The root is in no store yet, but it is live.
    await lines(3);
    socket.write('{"half');
    socket.destroy();
    await once(socket, 'close');
    await s.t.ask('Go');
    expect(await s.client.call('session/list', {})).toMatchObject({ rows: [{ status: 'idle' }] });
  });
});
