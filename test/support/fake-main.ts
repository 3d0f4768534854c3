/**
 * A main end that does as it is told, for tests of the worker's side: it decodes and checks every
 * frame as main does, answers calls from a script, and keeps what it saw.
 */
import { CancelFlag } from '../../protocol/cancel-flag.ts';
import type { Outcome } from '../../protocol/error-record.ts';
import { fail, succeed } from '../../protocol/error-record.ts';
import type {
  ClaimBoundary,
  ClaimReply,
  HostServiceName,
  ModelCallReply,
  ModelCallRequest,
  ToolCallReply,
  ToolCallRequest,
  ToolOutcome,
  ToolSettled,
} from '../../protocol/host-services.ts';
import type { CallId } from '../../protocol/ids.ts';
import { SessionId, StreamId } from '../../protocol/ids.ts';
import type { ModelPart } from '../../protocol/model.ts';
import type { Port } from '../../protocol/port.ts';
import type {
  ToMain,
  WorkerEvent,
  WorkerEventOf,
  WorkerEventType,
} from '../../protocol/to-main.ts';
import type { ToWorker } from '../../protocol/to-worker.ts';
import { checkCall, decodeFrame } from '../../protocol/validate.ts';
import { DEFAULT_WINDOW, ReceiveWindow, SendWindow } from '../../protocol/window.ts';
import type { WorkerInit } from '../../protocol/worker-init.ts';
import { boot } from '../../workers/boot.ts';
import type { BootedAgent, BootEnvironment } from '../../workers/boot.ts';
import { linkedPorts } from './linked-ports.ts';
import type { LinkedPorts } from './linked-ports.ts';

type Answer<T> = T | Promise<T>;

/** What main answers. A throw becomes an error outcome. Absent: see each. */
export interface MainScript {
  /** Absent: idle. */
  claim?(boundary: ClaimBoundary, concluded: boolean): Answer<ClaimReply>;
  /** Absent: done, not concluding. */
  callTool?(call: ToolCallRequest): Answer<ToolCallReply>;
  /** Absent: done, concluding when the outcome asks for it. */
  finishTool?(callId: CallId, outcome: ToolOutcome): Answer<ToolSettled>;
  /** Parts: a host stream that gives them at once. Absent: an answer that says "done". */
  openModel?(request: ModelCallRequest): Answer<ModelCallReply | readonly ModelPart[]>;
  /** How often a failed request of a step may be made again. Absent: never, as main says. */
  readonly retries?: number;
}

export interface SeenCall {
  readonly id: string;
  readonly name: HostServiceName;
  readonly values: readonly unknown[];
}

export class FakeMain {
  readonly frames: ToMain[] = [];
  readonly events: WorkerEvent[] = [];
  readonly calls: SeenCall[] = [];
  /** What arrived, in order: `ready`, `claim(turn,false)`, event types, … */
  readonly trail: string[] = [];
  /** The first thing the worker did that main would end its thread for. */
  violation: unknown;
  isClosed = false;
  /** False: events are taken and their credit is kept. */
  acknowledges = true;
  readonly #port: Port;
  readonly #script: MainScript;
  readonly #received: ReceiveWindow;
  readonly #credit: SendWindow;
  readonly #waiting = new Set<() => void>();
  #streams = 0;
  /** The stream that has no finish yet. */
  #open: string | undefined;

  constructor(port: Port, script: MainScript = {}, window = DEFAULT_WINDOW) {
    this.#port = port;
    this.#script = script;
    this.#received = new ReceiveWindow(window);
    this.#credit = new SendWindow(window);
    port.on('message', (received) => this.#receive(received));
    port.on('close', () => {
      this.isClosed = true;
      this.#notify();
    });
  }

  get partsInFlight(): number {
    return this.#credit.framesInFlight;
  }

  send(frame: ToWorker): void {
    // As main does: a turn that is told to stop has its stream ended in the same tick.
    if (frame.type === 'interrupt' || frame.type === 'stop') this.#endStream();
    this.#port.postMessage(frame);
  }
  wake(): void {
    this.send({ type: 'wake' });
  }
  sendParts(stream: string, ...parts: readonly ModelPart[]): void {
    const bytes = JSON.stringify(parts).length;
    this.#open = parts.some(({ type }) => type === 'finish') ? undefined : stream;
    this.#credit.spend(bytes);
    this.send({ type: 'parts', stream: StreamId(stream), parts, bytes });
  }
  /** Give back the credit of everything that arrived. */
  acknowledge(): void {
    const taken = this.#received.acknowledgement();
    if (taken !== undefined) this.send({ type: 'ack', taken, durable: 0 });
  }
  reply(id: string, outcome: Outcome<unknown>): void {
    this.send({ type: 'reply', message: { id, type: 'RAW', value: outcome } });
  }
  eventsOf<T extends WorkerEventType>(type: T): WorkerEventOf<T>['data'][] {
    return this.events.flatMap((event) =>
      event.type === type ? [event.data as WorkerEventOf<T>['data']] : [],
    );
  }
  count(name: string): number {
    return this.trail.filter((entry) => entry === name).length;
  }

  /** Wait for a fact. */
  async until(fact: () => boolean): Promise<void> {
    while (!fact()) {
      if (this.violation !== undefined) throw this.violation;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }
  /** Wait until something has arrived `times` times. */
  untilSeen(name: string, times = 1): Promise<void> {
    return this.until(() => this.count(name) >= times);
  }

  #receive(received: unknown): void {
    try {
      this.#handle(decodeFrame(received));
    } catch (error) {
      this.violation ??= error;
    }
    this.#notify();
  }

  #handle({ frame, bytes }: ReturnType<typeof decodeFrame>): void {
    this.frames.push(frame);
    switch (frame.type) {
      case 'events':
        if (!this.#received.receive(bytes)) throw new Error('Events without credit.');
        if (frame.from !== this.events.length) throw new Error('Events with a wrong number.');
        this.events.push(...frame.events);
        this.trail.push(...frame.events.map((event) => event.type));
        this.#received.take();
        if (this.acknowledges) this.acknowledge();
        return;
      case 'call': {
        const { id, path, argumentList } = checkCall(frame.message);
        const call = { id, name: path[0], values: argumentList.map(({ value }) => value) };
        this.calls.push(call);
        this.trail.push(describe(call));
        void this.#answer(call);
        return;
      }
      case 'ack':
        if (!this.#credit.acknowledge(frame.taken)) throw new Error('An ack that cannot be.');
        return;
      default:
        this.trail.push(frame.type);
    }
  }

  async #answer({ id, name, values }: SeenCall): Promise<void> {
    try {
      const value: unknown = await this.#run(name, values as never[]);
      if (!Array.isArray(value)) return this.reply(id, succeed(value));
      const stream = StreamId(`stream-${++this.#streams}`);
      const reply: ModelCallReply = { route: 'host', stream, provider: 'script', model: 'test' };
      this.reply(id, succeed(reply));
      this.sendParts(stream, ...(value as ModelPart[]));
    } catch (error) {
      this.reply(id, fail(error));
    }
  }

  #run(name: HostServiceName, values: readonly never[]): unknown {
    const script = this.#script;
    const [first, second] = values as readonly [never, never];
    switch (name) {
      case 'claim':
        return script.claim?.(first, second) ?? { kind: 'idle' };
      case 'callTool':
        return script.callTool?.(first) ?? { done: true, concludesTurn: false };
      case 'finishTool': {
        const { concludesTurn = false } = second as { concludesTurn?: boolean };
        return script.finishTool?.(first, second) ?? { done: true, concludesTurn };
      }
      case 'openModel':
        if ((first as ModelCallRequest).attempt > 1 + (script.retries ?? 0)) {
          return { route: 'none' } satisfies ModelCallReply;
        }
        return (
          script.openModel?.(first) ?? [
            { type: 'text-delta', index: 0, text: 'done' },
            { type: 'finish', reason: { kind: 'stop' } },
          ]
        );
      default:
        return name satisfies never;
    }
  }

  #endStream(): void {
    if (this.#open === undefined) return;
    const failure = { code: 'ABORTED', message: 'The request was cancelled.' };
    this.sendParts(this.#open, { type: 'finish', reason: { kind: 'aborted', failure } });
  }

  #notify(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

function describe({ name, values }: SeenCall): string {
  if (name === 'claim') return `claim(${values.join()})`;
  if (name === 'openModel') return 'openModel';
  const [first] = values as readonly [{ callId?: string } | string];
  return `${name}(${typeof first === 'string' ? first : first.callId})`;
}

/** A wait that the loop began; the test ends it. */
export interface PendingDelay {
  readonly ms: number;
  readonly signal: AbortSignal;
  end(): void;
}

export interface FakeAgent {
  readonly main: FakeMain;
  readonly ports: LinkedPorts;
  readonly agent: BootedAgent;
  readonly flag: CancelFlag;
  /** Waits that were begun, in order. */
  readonly delays: PendingDelay[];
  /** Stop the agent and wait until both ends are closed. Throws what main would not accept. */
  stop(): Promise<void>;
}

export interface FakeAgentOptions {
  readonly script?: MainScript;
  readonly init?: Partial<WorkerInit>;
  /** Default exports of modules, by URL. */
  readonly modules?: Readonly<Record<string, unknown>>;
  readonly environment?: Partial<BootEnvironment>;
  readonly mode?: 'auto' | 'manual';
}

/** An agent booted in this thread, with a fake main at the other end of its port. */
export function fakeAgent(options: FakeAgentOptions = {}): FakeAgent {
  const { script, init, modules = {}, environment, mode } = options;
  const ports = linkedPorts(mode);
  const flag = new CancelFlag();
  const delays: PendingDelay[] = [];
  const window = init?.window ?? DEFAULT_WINDOW;
  const main = new FakeMain(ports.main, script, window);
  const agent = boot(
    ports.worker,
    {
      sessionId: SessionId('agent-1'),
      cwd: '/work',
      depth: 1,
      toolModules: [],
      cancel: flag.buffer,
      window,
      toolConcurrency: 10,
      ...init,
    },
    {
      import: async (url) => {
        if (!Object.hasOwn(modules, url)) throw new Error(`Cannot find module ${url}`);
        return { default: modules[url] };
      },
      defer: (run) => void setImmediate(run),
      delay: (ms, signal) => pendingDelay(ms, signal, delays),
      ...environment,
    },
  );
  return {
    main,
    ports,
    agent,
    flag,
    delays,
    async stop() {
      // The cell first, as main does.
      flag.raiseForEver('disposed');
      main.send({ type: 'stop', deadlineMs: 1_000 });
      while (!main.isClosed) {
        if (mode === 'manual') ports.flush();
        await new Promise((resolve) => setImmediate(resolve));
      }
      await agent.done;
      if (main.violation !== undefined) throw main.violation;
    },
  };
}

function pendingDelay(ms: number, signal: AbortSignal, delays: PendingDelay[]): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    delays.push({ ms, signal, end: resolve });
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Claims answered one after the other; idle after the last. */
export function claims(...replies: readonly ClaimReply[]): NonNullable<MainScript['claim']> {
  const left = [...replies];
  return () => left.shift() ?? { kind: 'idle' };
}

export const enter = (turn: number, step = 1): ClaimReply => ({ kind: 'enter', turn, step });
export const close = (turn: number): ClaimReply => ({ kind: 'close', turn });
