/**
 * A worker thread under simulation: the product's own worker body over simulated ports, an event
 * loop of its own, and the ways in which a thread ends or does not. `Worker` of the stand-in for
 * `node:worker_threads` is this; what watches it, `WorkerThread`, is the product's.
 */
import { EventEmitter } from 'node:events';
import { pack, unpack } from '../../protocol/codec.ts';
import { PROTOCOL_VERSION } from '../../protocol/to-main.ts';
import { MemoryCell } from '../../protocol/memory-cell.ts';
import type { InitMessage, MeasureMessage, WorkerInit } from '../../protocol/worker-init.ts';
import { boot } from '../../workers/boot.ts';
import type { BootedAgent } from '../../workers/boot.ts';
import type { Breach, Death, Life, Task, Thread, ThreadOptions } from './life.ts';
import { here } from './life.ts';
import type { SimPort } from './sim-port.ts';

/** What is imported in a thread, by URL. */
export type Modules = (url: string, thread: SimThread) => unknown;

export interface ThreadWorld {
  readonly modules: Modules;
  /** A turn of this session has ended by the word of its thread, which main is to hear. */
  said?(thread: SimThread, frame: { readonly type: string } & Record<string, unknown>): void;
  /** What it printed came out of main. */
  leaked?(thread: SimThread): void;
}

/** Frames that no thread posts that means well. */
const FLOOD = 2_500;
/** What has piled up comes in one go, as in Node. */
const PILE = 100;
const AT_ONCE = 500;
const MIB = 1024 * 1024;
/** More than anybody reads. */
const MUCH = Buffer.alloc(MIB, 'x');
const PRINTS = 20;
/** What it says that it holds, when it is asked: less than any of them may. */
const MEMORY_BYTES = 16 * MIB;

type Posted = InitMessage<SimPort> | MeasureMessage;

export class SimThread extends EventEmitter implements Thread {
  readonly life: Life;
  readonly stdout = new EventEmitter();
  readonly stderr = new EventEmitter();
  readonly performance = { eventLoopUtilization: () => ({ idle: 1, active: 0, utilization: 0 }) };
  readonly threadId: number;
  readonly resourceLimits: ThreadOptions['resourceLimits'];
  init: WorkerInit | undefined;
  /** Main's end of the agent's port, and the thread's. */
  main: SimPort | undefined;
  own: SimPort | undefined;
  /** Its event loop. */
  readonly tasks: Task[] = [];
  state: 'starting' | 'running' | 'ending' | 'gone' = 'starting';
  /** It runs nothing and cannot be asked to. */
  isHung = false;
  /** `terminate` does nothing. */
  isStuck = false;
  /** What it did is no crash but a breach of the protocol: what it says does not count. */
  hasMisbehaved = false;
  terminatedAt: number | undefined;
  exitCode = 0;
  /** All that it printed. */
  printed = '';
  readonly #world: ThreadWorld;
  readonly #options: ThreadOptions;
  readonly #ownPort: unknown[] = [];
  readonly #inbox: Posted[] = [];
  #hasPosted = false;
  /** Parts of models that it acknowledged. */
  #taken = 0;
  #thrown: { readonly error: unknown } | undefined;
  #agent: BootedAgent | undefined;

  constructor(life: Life, world: ThreadWorld, number: number, options: ThreadOptions) {
    super();
    this.life = life;
    this.threadId = number;
    this.#world = world;
    this.resourceLimits = options.resourceLimits;
    this.#options = options;
    life.threads.push(this);
  }

  ref(): void {}
  unref(): void {}

  /** To the thread's own port. */
  postMessage(value: unknown): void {
    const message = value as Posted;
    const isOver = this.state === 'ending' || this.state === 'gone';
    if (!isOver) this.#inbox.push(message);
    if ('measure' in message) return;
    const { port } = message;
    this.own = port;
    this.main = port.other;
    port.onPost = (posted) => this.#heard(posted);
    // Its end of the port goes with it.
    if (isOver) port.close();
  }

  /** Main wants it gone. It runs nothing from here on. */
  terminate(): Promise<number> {
    this.terminatedAt ??= here.now;
    if (!this.isStuck && this.state !== 'gone') this.#stop(1);
    return Promise.resolve(1);
  }

  /** Ends by itself, in the middle of whatever it does. */
  die(how: Death): void {
    if (this.state === 'ending' || this.state === 'gone') return;
    const agent = this.#agent;
    switch (how) {
      case 'throw':
        if (agent === undefined) this.#thrown = { error: new Error('Boom.') };
        else agent.fault(new Error('Boom.'));
        break;
      case 'out of memory': {
        const error = Object.assign(new Error('Worker terminated due to reaching memory limit'), {
          code: 'ERR_WORKER_OUT_OF_MEMORY',
        });
        this.#thrown = { error };
        break;
      }
      case 'silent':
        this.#thrown = { error: new TypeError('Out of the blue.') };
        break;
      default:
    }
    this.#stop(how === 'exit 0' ? 0 : 1);
  }

  /** Posts what no thread may post. */
  misbehave(how: Breach): void {
    this.hasMisbehaved = true;
    const { own } = this;
    if (how === 'prints') {
      for (let left = PRINTS; left > 0; left--) this.print('stderr', MUCH);
      return;
    }
    if (own === undefined || this.state !== 'running') return;
    if (how === 'no bytes') own.postMessage({ type: 'stopped' });
    else if (how === 'stopped') own.postMessage(pack({ type: 'stopped', reason: 'stopped' }));
    else if (how === 'garbage') own.postMessage(new Uint8Array([193, 1, 2, 3]));
    else
      for (let left = FLOOD; left > 0; left--)
        own.postMessage(pack({ type: 'ack', taken: this.#taken }));
  }

  print(to: 'stdout' | 'stderr', text: string | Buffer): void {
    if (this.state === 'ending' || this.state === 'gone') return;
    if (this.#options[to] !== true) return this.#world.leaked?.(this);
    if (typeof text === 'string') this.printed += text;
    this[to].emit('data', text);
  }

  defer(run: () => void): void {
    this.tasks.push({ run, isCancelled: false });
  }

  /** It has something to do, and can. */
  get isReady(): boolean {
    if (this.isHung || this.state === 'ending' || this.state === 'gone') return false;
    if (this.state === 'starting') return true;
    return this.tasks.length > 0 || this.#inbox.length > 0 || this.own?.canDeliver === true;
  }

  /** One task of its event loop: a message, or what it put off. `coin` decides if both wait. */
  step(coin: boolean): string {
    if (this.state === 'starting') {
      this.state = 'running';
      this.#hasPosted = true;
      const heapLimitBytes = ((this.resourceLimits.maxOldGenerationSizeMb ?? 4_096) + 48) * MIB;
      const up = { type: 'up', protocol: PROTOCOL_VERSION, heapLimitBytes, node: process.version };
      this.#ownPort.push(pack(up));
      return 'up';
    }
    const message = this.#inbox.shift();
    if (message !== undefined) {
      if (!('measure' in message)) this.#boot(message);
      else new MemoryCell(message.measure).tell(MEMORY_BYTES);
      return 'measure' in message ? 'measures' : 'boot';
    }
    const hasMessage = this.own?.canDeliver === true;
    if (this.tasks.length > 0 && (coin || !hasMessage)) {
      (this.tasks.shift() as Task).run();
      return 'task';
    }
    const frame = this.own?.deliver() as { type?: string } | undefined;
    return `hears ${String(frame?.type ?? frame)}`;
  }

  /** Something it posted on its own port, or on that of its agent, can be told to main. */
  get canTell(): boolean {
    return this.#ownPort.length > 0 || this.main?.canDeliver === true;
  }

  tell(): string {
    if (this.#ownPort.length > 0) {
      this.emit('message', this.#ownPort.shift());
      return 'own port';
    }
    const isPiledUp = (this.main?.queue.length ?? 0) > PILE;
    const frame = this.main?.deliver();
    if (isPiledUp) for (let left = AT_ONCE; left > 0; left--) this.main?.deliver();
    if (this.isForgotten) this.#forget();
    return frame instanceof Uint8Array ? nameOf(frame) : String(frame);
  }

  /** Its `exit` can be told: it may overtake what it posted to its agent's port, as a real one. */
  get canExit(): boolean {
    return this.state === 'ending';
  }

  /** What it threw comes first, and by itself. */
  exit(): string {
    const thrown = this.#thrown;
    if (thrown !== undefined) {
      this.#thrown = undefined;
      this.emit('error', thrown.error);
      return 'with an error';
    }
    this.state = 'gone';
    while (this.#ownPort.length > 0) this.emit('message', this.#ownPort.shift());
    this.emit('exit', this.exitCode);
    if (this.isForgotten) this.#forget();
    return '';
  }

  #forget(): void {
    const place = this.life.threads.indexOf(this);
    if (place >= 0) this.life.threads.splice(place, 1);
  }

  /** Everything of it is over. */
  get isForgotten(): boolean {
    return this.state === 'gone' && this.main?.canDeliver !== true;
  }

  #stop(code: number): void {
    if (this.state === 'ending' || this.state === 'gone') return;
    this.state = 'ending';
    this.exitCode = code;
    this.tasks.length = 0;
    this.#inbox.length = 0;
    // The other end of its port learns that this one is gone, behind all that was posted.
    this.own?.close();
  }

  #boot({ init, port }: InitMessage<SimPort>): void {
    this.init = init;
    const agent = boot(port, init, {
      import: async (url) => this.#world.modules(url, this),
      defer: (run) => this.defer(run),
      delay: (ms, signal) => this.#delay(ms, signal),
    });
    this.#agent = agent;
    void agent.done.then(() => this.#stop(0));
  }

  #delay(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', finish);
        if (signal.aborted) reject(signal.reason as Error);
        else resolve();
      };
      const timer = this.life.after(here.now + ms, () => this.defer(finish));
      signal.addEventListener('abort', finish);
      if (signal.aborted) finish();
    });
  }

  #heard(value: unknown): void {
    if (!this.#hasPosted || !(value instanceof Uint8Array) || this.#world.said === undefined)
      return;
    let frame: { type: string } & Record<string, unknown>;
    try {
      frame = unpack(value) as typeof frame;
    } catch {
      // Garbage was to be posted.
      return;
    }
    if (frame.type === 'ack') this.#taken = frame['taken'] as number;
    this.#world.said(this, frame);
  }
}

export function nameOf(bytes: Uint8Array): string {
  try {
    const frame = unpack(bytes) as {
      type: string;
      message?: { path?: string[] };
      events?: { type: string }[];
    };
    if (frame.type === 'call') return `call ${String(frame.message?.path?.[0])}`;
    if (frame.type === 'events') return `events ${frame.events?.map(({ type }) => type).join('+')}`;
    return frame.type;
  } catch {
    return 'garbage';
  }
}
