import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import {
  fail,
  isInstance,
  printed,
  succeed,
  toErrorRecord,
  toShortErrorRecord,
} from '../../protocol/error-record.ts';
import { ArgumentError, HarnessError, StoreError } from '../../protocol/errors.ts';
import { ZOO } from '../support/zoo.ts';

describe('toErrorRecord', () => {
  it('keeps the name, the code, the text and the causes', () => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    const record = toErrorRecord(new ArgumentError('Cannot do it.', { cause }));
    expect(record).toMatchObject({
      name: 'ArgumentError',
      code: 'INVALID_ARGUMENT',
      message: 'Cannot do it.',
      cause: { name: 'Error', code: 'ECONNREFUSED', message: 'refused' },
    });
    expect(record.stack).toContain('Cannot do it.');
  });

  it.each<[string, unknown, string]>([
    ['a text', 'just text', 'just text'],
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a number', 7, '7'],
    ['a symbol', Symbol('s'), 'Symbol(s)'],
    ['an object without a prototype', Object.create(null), '[unprintable object]'],
    ['an object with a text', { message: 'from afar' }, 'from afar'],
  ])('makes a record of %s', (_, thrown, message) => {
    expect(toErrorRecord(thrown, 'FALLBACK')).toMatchObject({ code: 'FALLBACK', message });
  });

  it('takes no code that is no text', () => {
    expect(toErrorRecord(Object.assign(new Error('x'), { code: 11 })).code).toBe('UNKNOWN');
  });

  it('never throws and never runs away, whatever it is given', () => {
    const angry = new Proxy(new Error('x'), {
      get() {
        throw new Error('no');
      },
      getPrototypeOf() {
        throw new Error('no');
      },
    });
    expect(toErrorRecord(angry).name).toBe('Error');
    const loop: Error & { cause?: unknown } = new Error('loop');
    loop.cause = new Error('other', { cause: loop });
    expect(JSON.stringify(toErrorRecord(loop)).length).toBeLessThan(100_000);
    const endless = new Error('deep');
    Object.defineProperty(endless, 'cause', { get: () => new Error('deeper', { cause: endless }) });
    expect(toErrorRecord(endless)).toHaveProperty('cause.cause.cause');
    expect(toErrorRecord(endless)).not.toHaveProperty('cause.cause.cause.cause');
  });

  it('bounds what it keeps', () => {
    const huge = Object.assign(new Error('m'.repeat(1_000_000)), {
      name: 'n'.repeat(1_000),
      code: 'c'.repeat(1_000),
    });
    const record = toErrorRecord(huge);
    expect(record.message).toHaveLength(4_096);
    expect(record.name).toHaveLength(128);
    expect(record.code).toHaveLength(128);
  });
});

describe.each(ZOO)('asked for its class, %s', (kind, make) => {
  const value = make();

  it('is none of our errors', () => {
    expect(() => value instanceof HarnessError).not.toThrow();
    expect([value instanceof HarnessError, value instanceof StoreError]).toEqual([false, false]);
  });

  it('is an error or none, and never throws', () => {
    const isPlain = ['a frozen error', 'an error that is its own cause'].includes(kind);
    expect(() => isInstance(value, Error)).not.toThrow();
    if (isPlain) expect(isInstance(value, Error)).toBe(true);
  });

  it('has a record', () => {
    const { name, code, message } = toErrorRecord(value);
    expect([typeof name, typeof code, typeof message]).toEqual(['string', 'string', 'string']);
  });
});

describe('toShortErrorRecord', () => {
  it('takes at most 8 KiB, whatever the script of its text', () => {
    const text = '\u{ffff}'.repeat(10_000);
    const error = Object.assign(new Error(text, { cause: new Error(text) }), {
      name: text,
      code: text,
      stack: text,
    });
    expect(pack(toShortErrorRecord(error)).byteLength).toBeLessThanOrEqual(8 * 1024);
  });
});

describe('an outcome', () => {
  it('is a value, or the record of what was thrown', () => {
    expect(succeed(1)).toEqual({ ok: true, value: 1 });
    expect(fail(new Error('no'))).toMatchObject({ ok: false, error: { message: 'no' } });
  });
});

describe('printed', () => {
  it('is short for any value', () => {
    expect(printed('x'.repeat(10_000))).toHaveLength(4_096);
    expect(
      printed({
        toString() {
          throw new Error('no');
        },
      }),
    ).toBe('[unprintable object]');
  });
});
