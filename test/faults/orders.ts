/** What an agent on the ground is told to do, as the JSON of its prompt. */
import type { FaultOrder } from './thread-tools.ts';

export interface Order {
  readonly fault?: FaultOrder;
  /** Call this tool and repeat what it answers. */
  readonly call?: { readonly tool: string; readonly args: object };
}

/** What an agent has said before it is at fault. */
export const PARTIAL = 'So far: ';
export const prompt = (order: Order): string => JSON.stringify(order);
