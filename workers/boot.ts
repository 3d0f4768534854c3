import { CancelFlag } from '../protocol/cancel-flag.ts';
import type { Port } from '../protocol/port.ts';
import type { WorkerInit } from '../protocol/worker-init.ts';
import { TurnCancellations } from './agent/interrupt.ts';
import { runLoop, Wake } from './agent/loop.ts';
import { Link } from './link.ts';
import { AgentModel } from './model.ts';
import { loadModules, specOf } from './modules.ts';
import { RemoteServices } from './services.ts';
import { AgentTools } from './tools.ts';

/** What differs between a thread and a test. */
export interface BootEnvironment {
  import(url: string): Promise<unknown>;
  /** Run something in a later macrotask. */
  defer(run: () => void): void;
  /** Resolves after `ms`; rejects when `signal` aborts, and lets go of its timer. */
  delay(ms: number, signal: AbortSignal): Promise<void>;
}

/** One agent that runs. */
export interface BootedAgent {
  /** Resolves, and never rejects, when the agent has ended: stopped, faulted or cut off. */
  readonly done: Promise<void>;
  /** Something outside the loop broke: say so to main and end. */
  fault(thrown: unknown): void;
}

/**
 * Join a port to an agent: load its modules, say `ready`, run its loop until main says stop or
 * the port closes. Takes ownership of the port. Changes nothing of the process around it.
 */
export function boot(port: Port, init: WorkerInit, environment: BootEnvironment): BootedAgent {
  const link = new Link(port, { window: init.window, defer: (run) => environment.defer(run) });
  const services = new RemoteServices({ send: (message) => link.call(message) });
  const cancellations = new TurnCancellations(new CancelFlag(init.cancel));
  const wake = new Wake();
  let model: AgentModel | undefined;

  const stop = (): void => {
    wake.finish();
    cancellations.stop();
  };
  link.listen({
    wake: () => wake.raise(),
    reply: (message) => services.deliver(message),
    parts: (frame) => (model === undefined ? link.takeParts() : model.deliver(frame)),
    interrupt: (turn) => cancellations.interrupt(turn),
    stop,
    closed() {
      services.close(new Error('The port to main is closed.'));
      model?.close();
      stop();
    },
  });

  const run = async (): Promise<void> => {
    const loaded = await loadModules(init, (url) => environment.import(url));
    const { sessionId, cwd, depth } = init;
    model = new AgentModel({
      services,
      adapter: loaded.model,
      events: link,
      takeParts: () => link.takeParts(),
    });
    const tools = new AgentTools({
      services,
      modules: loaded.tools,
      agent: Object.freeze({ id: sessionId, cwd, depth }),
      concurrency: init.toolConcurrency,
      delay: environment.delay.bind(environment),
    });
    link.announce({
      tools: [...loaded.tools.values()].map(specOf),
      ...(loaded.retryPolicy === undefined ? {} : { retryPolicy: loaded.retryPolicy }),
    });
    await runLoop({
      services,
      wake,
      cancellations,
      model,
      tools,
      post: (event) => link.post(event),
    });
    link.stopped('stopped');
  };
  const fault = (thrown: unknown): void => {
    // Read before everything ends: it is the turn that main has to close.
    const turn = cancellations.openTurn;
    link.fault(thrown, turn);
    services.close(new Error('The agent has failed.'));
    stop();
  };
  return { done: run().catch(fault), fault };
}
