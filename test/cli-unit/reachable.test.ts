import { createServer, type AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { assertReachable } from '../../src/cli/reachable.ts';

it('gives a connection up as soon as its signal aborts', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => server.once('listening', listening));
  const { port } = server.address() as AddressInfo;
  const stop = new AbortController();
  const reached = assertReachable(`http://127.0.0.1:${port}/v1`, stop.signal);
  // No connection is made within the turn that asks for it.
  const reason = new Error('Stopped.');
  stop.abort(reason);
  await expect(reached).rejects.toBe(reason);
  await new Promise((closed) => server.close(closed));
});
