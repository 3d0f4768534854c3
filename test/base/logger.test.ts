import { expect, it } from 'vitest';
import { containedLogger } from '../../src/base/logger.ts';
import type { Logger } from '../../src/base/logger.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled } from '../support/until.ts';

const unhandled = watchUnhandled();
const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

it.each(LEVELS)('swallows what a logger throws or rejects with at %s', async (level) => {
  const failure = new Error('The disk of the log is full.');
  const throws = (): never => {
    throw failure;
  };
  const rejects = (): Promise<never> => Promise.reject(failure);
  for (const fails of [throws, rejects]) {
    const logger = { [level]: fails } as unknown as Logger;
    expect(containedLogger(logger)[level]({}, 'Told.')).toBeUndefined();
  }
  await settled();
  expect(unhandled).toEqual([]);
});

it.each(LEVELS)('tells the logger itself what is logged at %s', (level) => {
  const told: unknown[] = [];
  const logger = {
    [level](this: unknown, ...given: unknown[]) {
      told.push(this, ...given);
    },
  } as unknown as Logger;
  const fields = { a: 1 };
  containedLogger(logger)[level](fields, 'Told.');
  expect(told).toEqual([logger, fields, 'Told.']);
});
