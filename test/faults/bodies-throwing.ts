/** Bodies that throw, reject or exit. */
import { dlopen } from 'node:process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Body } from './inside.ts';
import { never, startBelow } from './inside.ts';
import type { Shape } from './kinds.ts';

class Custom extends Error {
  override readonly name = 'Custom';
  readonly code = 'E_CUSTOM';
}
const refuse = (): never => {
  throw new Error('A trap.');
};

const thrown: Readonly<Record<Shape, () => unknown>> = {
  error: () => Object.assign(new TypeError('Thrown.'), { code: 'E_THROWN', extra: { a: [1] } }),
  class: () => new Custom('Thrown of a class.'),
  null: () => null,
  undefined: () => undefined,
  string: () => 'a text',
  proxy: () =>
    new Proxy(new Error('Hidden.'), {
      get: refuse,
      has: refuse,
      getPrototypeOf: refuse,
      ownKeys: refuse,
      getOwnPropertyDescriptor: refuse,
    }),
  'self-cause': () => {
    const error = new Error('Its own cause.');
    error.cause = error;
    return error;
  },
  'long-message': () => new Error('m'.repeat(16 * 1024 * 1024)),
  getters: () =>
    Object.defineProperties(new Error('x'), {
      message: { get: refuse },
      stack: { get: refuse },
      name: { get: refuse },
      code: { get: refuse },
    }),
};

const throwing = Object.entries(thrown).flatMap(([shape, make]): [string, Body][] => [
  [
    `throw-${shape}`,
    () => {
      throw make();
    },
  ],
  [
    `uncaught-${shape}`,
    () => {
      setTimeout(() => {
        throw make();
      }, 0);
      return never();
    },
  ],
]);

export const throwingBodies: Readonly<Record<string, Body>> = {
  ...Object.fromEntries(throwing),
  reject: () => Promise.reject(new RangeError('Rejected.')),
  'reject-unhandled': () => {
    void Promise.reject(new RangeError('Rejected, and nobody handles it.'));
    return never();
  },
  'reject-undefined': () => {
    void Promise.reject();
    return never();
  },
  'abort-process': () => process.abort(),
  chdir: () => process.chdir('/'),
  'dlopen-garbage': ({ folder }) => {
    const path = join(folder, 'garbage.node');
    writeFileSync(path, 'no machine code');
    dlopen({ exports: {} }, path);
  },
  'nested-worker-throws': () => {
    startBelow('setTimeout(() => { throw new Error("Thrown below.") }, 5)');
    return never();
  },
  'exit-0': () => process.exit(0),
  'exit-7': () => process.exit(7),
  'exit-261': () => process.exit(261),
  'exit-code': () => {
    process.exitCode = 7;
    process.exit();
  },
  'really-exit': () => (process as unknown as { reallyExit(code: number): void }).reallyExit(5),
  'exit-hook-loops': () => {
    process.on('exit', () => {
      for (;;);
    });
    process.exit(3);
  },
  'late-throw': () => {
    setImmediate(() =>
      setImmediate(() => {
        throw new Error('Too late.');
      }),
    );
    return 'survived';
  },
};
