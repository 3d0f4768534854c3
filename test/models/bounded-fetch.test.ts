import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { boundedFetch } from '../../src/models/bounded-fetch.ts';

/** A server that never stops. */
async function endless(status: number) {
  const bytes = Buffer.alloc(1024 * 1024, 'x');
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(status);
    const go = (): void => {
      while (!response.destroyed && response.write(bytes));
    };
    response.on('drain', go);
    go();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it('takes so much of an explanation that does not end', async () => {
  await using server = await endless(500);
  const response = await boundedFetch(server.url);
  expect(response.status).toBe(500);
  expect(await response.text()).toHaveLength(256 * 1024);
});

it('refuses an answer that does not end', async () => {
  await using server = await endless(200);
  const response = await boundedFetch(server.url);
  await expect(response.text()).rejects.toThrow(/larger than/);
});

it('passes on what ends by itself', async () => {
  const server = createServer((_, response) => response.end('short'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const response = await boundedFetch(`http://127.0.0.1:${port}/`);
  expect(await response.text()).toBe('short');
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
