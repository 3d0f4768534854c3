/** In place of `node:worker_threads`: threads and ports of the simulation. */
import { here } from '../life.ts';
import type { Thread, ThreadOptions } from '../life.ts';
import { SimPort, simPorts } from '../sim-port.ts';

export const isMainThread = true;
export const parentPort = null;
export const threadId = 0;
export const workerData = null;

export class MessageChannel {
  readonly port1: SimPort;
  readonly port2: SimPort;
  constructor() {
    [this.port1, this.port2] = simPorts();
  }
}
export { SimPort as MessagePort };

export const receiveMessageOnPort = (port: SimPort): { message: unknown } | undefined =>
  port.take();

/** A constructor that returns an object makes that object. */
export const Worker = function Worker(_entry: URL, options: ThreadOptions): Thread {
  if (here.make === undefined) throw new Error('Nothing is simulated.');
  return here.make(here.life, options);
} as unknown as new (entry: URL, options: object) => Thread;
