import { expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { KeyLock } from '../../src/base/key-lock.ts';

it('runs one thing after the other for a key, in the order they came', async () => {
  const lock = new KeyLock<string>();
  const [first, second] = [gate(), gate()];
  const order: string[] = [];
  const work = (name: string, held: { wait(): Promise<void> }) =>
    lock.run('a', async () => {
      order.push(`${name} begins`);
      await held.wait();
      order.push(`${name} ends`);
      return name;
    });
  const all = [work('one', first), work('two', second)];
  await first.arrived();
  second.open();
  expect(order).toEqual(['one begins']);
  first.open();
  expect(await Promise.all(all)).toEqual(['one', 'two']);
  expect(order).toEqual(['one begins', 'one ends', 'two begins', 'two ends']);
});

it('holds up no other key', async () => {
  const lock = new KeyLock<string>();
  const held = gate();
  const slow = lock.run('a', () => held.wait());
  expect(await lock.run('b', () => 'b')).toBe('b');
  held.open();
  await slow;
});

it('passes a failure to its own caller and goes on', async () => {
  const lock = new KeyLock<string>();
  const failed = lock.run('a', () => {
    throw new Error('no');
  });
  const next = lock.run('a', () => 'next');
  await expect(failed).rejects.toThrow('no');
  expect(await next).toBe('next');
});

it('takes work from inside of work for later', async () => {
  const lock = new KeyLock<string>();
  const order: string[] = [];
  let inner: Promise<unknown> | undefined;
  await lock.run('a', () => {
    inner = lock.run('a', () => order.push('inner'));
    order.push('outer');
  });
  await inner;
  expect(order).toEqual(['outer', 'inner']);
});
