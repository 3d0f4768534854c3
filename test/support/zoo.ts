import { StoreError } from '../../protocol/errors.ts';

const no = (): never => {
  throw new Error('not to be asked');
};
const TRAPS = ['get', 'getPrototypeOf', 'has', 'ownKeys', 'getOwnPropertyDescriptor'] as const;

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function itsOwnCause(): Error {
  const error: Error & { cause?: unknown } = new Error('round');
  error.cause = error;
  return error;
}

const unreadable = (error: Error, key: string): Error =>
  Object.defineProperty(error, key, { get: no });

/** What anybody's code may throw or return, each kind made anew. */
export const ZOO: readonly (readonly [kind: string, make: () => unknown])[] = [
  ['a revoked proxy', revoked],
  ...TRAPS.map(
    (trap) => [`a proxy that throws at ${trap}`, () => new Proxy({}, { [trap]: no })] as const,
  ),
  [
    'a proxy that throws',
    () => new Proxy(() => {}, Object.fromEntries(TRAPS.map((trap) => [trap, no]))),
  ],
  [
    'a proxy of an error of ours',
    () => new Proxy(new StoreError('STORE_IO', 'Gone.'), { get: no }),
  ],
  [
    'one that says it is ours',
    () => new Proxy({}, { getPrototypeOf: () => StoreError.prototype, get: no }),
  ],
  ['one of ours without its code', () => unreadable(new StoreError('STORE_IO', 'Gone.'), 'code')],
  [
    'one of ours without its message',
    () => unreadable(new StoreError('STORE_IO', 'Gone.'), 'message'),
  ],
  [
    'one of ours below a proxy',
    () => Object.setPrototypeOf(new StoreError('STORE_IO', 'Gone.'), revoked() as object),
  ],
  [
    'an error below a proxy',
    () => Object.setPrototypeOf(new Error('below'), new Proxy({}, { get: no, getPrototypeOf: no })),
  ],
  ['null', () => null],
  ['nothing', () => undefined],
  ['a symbol', () => Symbol('s')],
  ['an object without a prototype', () => Object.create(null)],
  ['a text without a conversion', () => ({ toString: no, [Symbol.toPrimitive]: no })],
  [
    'a list of unreadable errors',
    () => Object.assign(new Error('many'), { errors: revoked(), cause: revoked() }),
  ],
  ['an unreadable stack', () => unreadable(new Error('no stack'), 'stack')],
  ['a frozen error', () => Object.freeze(new Error('frozen'))],
  ['an error that is its own cause', itsOwnCause],
];
