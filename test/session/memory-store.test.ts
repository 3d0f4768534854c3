import { expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { header } from './log-parts.ts';
import { storeContract } from './store-contract.ts';

storeContract('the memory store', () => {
  const store = new MemoryStore();
  return { store, [Symbol.asyncDispose]: () => store.close() };
});

it('keeps what it holds when it is closed, for the next harness', async () => {
  const store = new MemoryStore();
  await store.append([{ id: SessionId('a'), epoch: 1, header: header('a'), events: [] }]);
  await store.close();
  expect(await store.list()).toHaveLength(1);
});
