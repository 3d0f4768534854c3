import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { serveStdio } from '../../src/serve/stdio.ts';
import { testHarness } from '../support/harness.ts';

function streams(): { input: PassThrough; output: PassThrough; text(): string } {
  const [input, output] = [new PassThrough(), new PassThrough()];
  let text = '';
  output.on('data', (part: Buffer) => void (text += part.toString()));
  return { input, output, text: () => text };
}

it('answers shutdown, and then is over', async () => {
  await using t = await testHarness();
  const { text, ...both } = streams();
  const server = serveStdio(t.harness, both);
  both.input.write(
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n',
  );
  both.input.write('{"jsonrpc":"2.0","id":2,"method":"shutdown","params":{}}\n');
  expect(await server.closed).toBe('shutdown');
  expect(
    text()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object),
  ).toEqual([
    {
      jsonrpc: '2.0',
      id: 1,
      result: {
        serverInfo: { name: 'subagent-runtime', version: '0.1.0' },
        protocolVersion: 1,
        pid: process.pid,
      },
    },
    { jsonrpc: '2.0', id: 2, result: {} },
  ]);
});

it('is over when its input ends, after all that was asked for is answered', async () => {
  await using t = await testHarness({ script: ['One.'] });
  const { text, ...both } = streams();
  const server = serveStdio(t.harness, both);
  const params = { sessionId: 'mine', contentBlocks: [{ type: 'text', text: 'Hi' }] };
  // The last line comes without its end.
  both.input.end(JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'session/prompt', params }));
  expect(await server.closed).toBe('end');
  const answer = text()
    .split('\n')
    .find((line) => line.includes('"id":0'));
  expect(JSON.parse(answer ?? '{}')).toMatchObject({ result: { messageId: expect.any(String) } });
});
