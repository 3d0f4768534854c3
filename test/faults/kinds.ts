/**
 * What can go wrong inside an agent's thread, as one table. What is done is in the bodies; what is
 * expected of it at each moment is in `expectation.ts`. The class is that of the thread tier, and
 * stands here before anything runs.
 */
export type FaultClass = 'contained' | 'degrades' | 'not contained';

/** What the fault does to its thread, and so how its end is known. */
export type Effect =
  /** Thrown at whoever called: a tool, a model, a module that is loaded. */
  | 'thrown'
  /** Thrown where nobody catches: the thread dies of it. */
  | 'uncaught'
  | 'exit'
  /** Its event loop does not turn until the thread is ended. */
  | 'blocked'
  /** It never answers, while its loop turns. */
  | 'silent'
  | 'violation'
  | 'port closed'
  | 'memory'
  /** Nothing of it reaches the agent: the work is done as if nothing had happened. */
  | 'harmless';

/** What a fault that degrades its process may spoil for as long as it lasts, or for good. */
export type Excuse = 'probe' | 'left open' | 'child processes' | 'settle' | 'afterwards';

/** How a process ends that a fault was not contained in. */
export interface ProcessEnd {
  readonly signal?: NodeJS.Signals;
  readonly code?: number;
  /** It does not end by itself, or not when it is asked to, and is killed by whoever watches. */
  readonly hangs?: true;
}

/** A limit of an agent that ends it before its turn has taken its time. */
export interface KindLimit {
  readonly name: 'steps' | 'outputBytes' | 'toolMs' | 'cpuMs' | 'runMs';
  readonly value: number;
  /** It is reached so long after the fault has begun. */
  readonly afterMs: number;
}

export interface Kind {
  readonly name: string;
  readonly fault: FaultClass;
  readonly effect: Effect;
  /** Codes that are right as well as those of the effect. */
  readonly alsoCodes?: readonly string[];
  /** The work may also be done: the fault races with the end of the turn. */
  readonly mayFinish?: true;
  /** The time that a thread has to start may be over before it has grown. */
  readonly growsSlowly?: true;
  readonly excuses?: readonly Excuse[];
  /** Only at these places; each such line says why. */
  readonly only?: readonly Place[];
  readonly limit?: KindLimit;
  /** Not contained: the ends that are known. */
  readonly ends?: readonly ProcessEnd[];
}

/** Where in a thread a body runs. */
export type Place = 'load' | 'factory' | 'timer' | 'model' | 'tool';

const contained = (effect: Effect, names: readonly string[], more: Partial<Kind> = {}): Kind[] =>
  names.map((name) => ({ name, fault: 'contained', effect, ...more }));
const degrades = (effect: Effect, name: string, excuses: readonly Excuse[]): Kind => ({
  name,
  fault: 'degrades',
  effect,
  excuses,
  // With a main that is deaf meanwhile, or a thread that is, the limit of the turn may be first.
  alsoCodes: ['LIMIT_EXCEEDED', 'WORKER_STUCK', 'WORKER_OUT_OF_MEMORY'],
});
const escapes = (name: string, ends: readonly ProcessEnd[], effect: Effect = 'silent'): Kind => ({
  name,
  fault: 'not contained',
  effect,
  ends,
  // The moment makes no difference to what leaves the thread: a turn is enough.
  only: ['tool'],
});

const limited = (
  effect: Effect,
  name: string,
  limit: KindLimit['name'],
  value: number,
  afterMs = 0,
): Kind => ({
  name,
  fault: 'contained',
  effect,
  limit: { name: limit, value, afterMs },
  only: ['tool'],
});

const SHAPES = [
  'error',
  'class',
  'null',
  'undefined',
  'string',
  'proxy',
  'self-cause',
  'long-message',
  'getters',
] as const;
export type Shape = (typeof SHAPES)[number];

export const KINDS: readonly Kind[] = [
  ...contained(
    'thrown',
    SHAPES.map((shape) => `throw-${shape}`),
  ),
  ...contained(
    'uncaught',
    SHAPES.map((shape) => `uncaught-${shape}`),
  ),
  ...contained('thrown', ['reject', 'abort-process', 'chdir', 'dlopen-garbage']),
  ...contained('uncaught', ['reject-unhandled', 'reject-undefined', 'nested-worker-throws']),
  ...contained('exit', ['exit-0', 'exit-7', 'exit-261', 'exit-code', 'really-exit']),
  // The exit begins, and its hook loops: what is seen is a thread that does not turn.
  ...contained('blocked', ['exit-hook-loops']),
  ...contained('blocked', [
    'loop',
    'loop-microtasks',
    'loop-next-tick',
    'atomics-wait',
    'redos',
    'sort',
  ]),
  // A model's failure is told without its stack, so that nothing of this happens there.
  ...contained('blocked', ['stack-getter-loops'], { only: ['load', 'factory', 'timer', 'tool'] }),
  // Its loop turns, and nothing else gets a turn in it.
  ...contained('silent', ['loop-immediates', 'silent', 'nested-worker-loops']),
  ...contained('thrown', ['recursion']),
  ...contained('memory', [
    'oom-objects',
    'oom-strings',
    'oom-numbers',
    'oom-map',
    'oom-set',
    'oom-array',
    'oom-match',
    'off-heap-buffer',
    'off-heap-array-buffer',
    'off-heap-shared',
    'off-heap-wasm',
    'off-heap-strings',
  ]),
  // A key of its own for each value, and tens of millions of values read at a time.
  ...contained('memory', ['oom-dictionary', 'oom-json'], { growsSlowly: true }),
  ...contained(
    'violation',
    [
      'frame-flood',
      'call-flood',
      'big-frame',
      'deep-frame',
      'garbage-frame',
      'proto-keys',
      'object-frame',
      'shared-frame',
      'own-port',
      'forged-turn-end',
    ],
    { alsoCodes: ['WORKER_FLOODED'] },
  ),
  ...contained('port closed', ['close-port']),
  ...contained('harmless', ['close-parent-port', 'broadcast', 'stdout-lines', 'pollution']),
  ...contained('blocked', ['stdout-flood-sync'], {
    alsoCodes: ['WORKER_FLOODED', 'WORKER_OUT_OF_MEMORY'],
  }),
  ...contained('silent', ['stdout-flood'], {
    alsoCodes: ['WORKER_FLOODED', 'WORKER_OUT_OF_MEMORY'],
  }),
  // Parts are a model's to give.
  ...contained('silent', ['events-flood'], {
    only: ['model'],
    // An answer has a bound of its own, which may be reached first.
    alsoCodes: ['RESPONSE_TOO_LARGE'],
  }),
  // A call is a tool's to answer.
  ...contained('violation', ['duplicate-result'], { only: ['tool'], mayFinish: true }),
  // There has to be a result for something to come after it.
  ...contained('uncaught', ['late-throw'], { only: ['tool', 'model'], mayFinish: true }),
  limited('silent', 'steps-without-end', 'steps', 4),
  limited('silent', 'output-without-end', 'outputBytes', 2 * 1024 * 1024),
  limited('silent', 'slow-tool', 'toolMs', 400, 400),
  // Nothing of it is kept: in that time there would be no memory left.
  limited('blocked', 'stdout-flood-lines', 'toolMs', 4_000, 4_000),
  limited('silent', 'slow-run', 'runMs', 2_500, 2_500),
  // Looked at now and then.
  limited('silent', 'busy', 'cpuMs', 300, 700),
  limited('blocked', 'busy-blocked', 'cpuMs', 300, 700),
  // Its thread cannot be ended before the call returns: that long it and its ports are there.
  degrades('blocked', 'spawn-sync', ['settle', 'left open']),
  degrades('blocked', 'pbkdf2-sync', ['settle', 'left open']),
  degrades('blocked', 'scrypt-sync', ['settle', 'left open']),
  degrades('silent', 'subprocess-left', ['child processes']),
  degrades('silent', 'descriptors', ['probe', 'left open', 'afterwards']),
  // Modules are read in the pool of the process: while that is taken, no thread gets ready.
  degrades('silent', 'pbkdf2-pool', ['probe', 'settle', 'left open', 'afterwards']),
  degrades('violation', 'huge-clone', ['probe', 'settle', 'left open']),
  escapes('kill-sigterm', [{ signal: 'SIGTERM' }]),
  escapes('kill-sigkill', [{ signal: 'SIGKILL' }]),
  escapes('kill-sigsegv', [{ signal: 'SIGSEGV' }]),
  escapes('kill-sigusr2', [{ signal: 'SIGUSR2' }]),
  escapes('close-descriptors', [{ signal: 'SIGABRT' }, { hangs: true }]),
  escapes('fifo-sync', [{ hangs: true }], 'blocked'),
  escapes('fifo-async', [{ hangs: true }]),
  // Its thread is told to end, and never hears of it; it hangs, or reaches the end of its heap.
  escapes('array-fill', [{ signal: 'SIGABRT' }, { hangs: true }], 'memory'),
  // It lives until the next thread is made, which has no memory to begin with.
  escapes('heap-flag', [{ signal: 'SIGTRAP' }, { signal: 'SIGABRT' }], 'harmless'),
];

const byName = new Map(KINDS.map((kind) => [kind.name, kind]));
export function kindOf(name: string): Kind {
  const kind = byName.get(name);
  if (kind === undefined) throw new Error(`There is no kind "${name}".`);
  return kind;
}
