/** What a body has in its thread: nothing but what any tool or model could get hold of. */
import { parentPort, Worker } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import { pack } from '../../protocol/codec.ts';

/** Int32 cells that the ground and all its threads share. */
export const CELLS = {
  /** How often a body was begun, and when first. */
  injected: 0,
  at: 1,
  /** Lets loose what waits for it. */
  go: 2,
  /** An order is there and waits. */
  ready: 3,
  siblingsReady: 4,
  siblingsGo: 5,
  waiting: 6,
  waitersGo: 7,
} as const;
export const CELL_COUNT = 8;
/** A time of day that fits a cell. */
export const clock = (): number => Date.now() % 2 ** 31;

export interface Inside {
  /** A folder of the ground's, for pipes and files. */
  readonly folder: string;
  /** Of the tool call it happens in. */
  readonly callId: string | undefined;
  /** The turn's, where there is one. */
  readonly signal: AbortSignal | undefined;
}
export type Body = (inside: Inside) => unknown;

export const never = (): Promise<never> => new Promise(() => {});

/** The agent's own port: found, as any code in the thread could find it. */
export function agentPort(): MessagePort {
  const { _getActiveHandles: handles } = process as unknown as {
    _getActiveHandles(): readonly object[];
  };
  const found = handles
    .call(process)
    .find((handle) => handle.constructor?.name === 'MessagePort' && handle !== parentPort);
  if (found === undefined) throw new Error('The agent has no port.');
  return found as MessagePort;
}

/** A frame as the protocol has it, whatever it says. */
export const postFrame = (port: MessagePort, frame: unknown): void =>
  port.postMessage(pack(frame as never));

/** A thread below this one, which nobody listens to. */
export const startBelow = (code: string): Worker => new Worker(code, { eval: true });
