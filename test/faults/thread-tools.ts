/** The tools of every agent on the ground: one that is at fault when it is told to, one that works. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ToolContext } from '../../protocol/tool.ts';
import { bodyOf } from './bodies.ts';
import { CELLS, clock } from './inside.ts';

export interface ThreadOptions {
  readonly shared: SharedArrayBuffer;
  readonly folder: string;
}

/** What is to go wrong: at once, when the turn is told to stop, or when the ground says so. */
export interface FaultOrder {
  readonly kind: string;
  readonly when: 'now' | 'abort' | 'go';
}
const POLL_MS = 2;

/** A number that can be checked, and that nobody gets by accident. */
export function work(n: number): number {
  let sum = n;
  for (let i = 0; i < 20_000; i++) sum = (Math.imul(sum, 31) + i) >>> 0;
  return sum;
}

/** Carries out an order; resolves with what the tool answers. */
export async function carryOut(
  { kind, when }: FaultOrder,
  { shared, folder }: ThreadOptions,
  context: { readonly callId?: string; readonly signal?: AbortSignal },
): Promise<unknown> {
  const cells = new Int32Array(shared);
  const run = (): unknown => {
    const inside = { folder, callId: context.callId, signal: context.signal };
    const body = bodyOf(kind);
    Atomics.compareExchange(cells, CELLS.at, 0, clock());
    Atomics.add(cells, CELLS.injected, 1);
    Atomics.notify(cells, CELLS.injected);
    return body(inside);
  };
  const { signal } = context;
  switch (when) {
    case 'now':
      return run();
    case 'abort':
      Atomics.add(cells, CELLS.ready, 1);
      if (signal?.aborted !== true) {
        await new Promise((resolve) => signal?.addEventListener('abort', resolve, { once: true }));
      }
      return run();
    case 'go': {
      // Left behind when the call, and its turn, are over; it looks each time its loop turns.
      const look = (): void => {
        if (Atomics.load(cells, CELLS.go) === 0) setImmediate(look);
        else run();
      };
      look();
      Atomics.add(cells, CELLS.ready, 1);
      return 'armed';
    }
    default:
      return when satisfies never;
  }
}

export default (options: ThreadOptions): unknown => {
  const cells = new Int32Array(options.shared);
  const tool = (
    name: string,
    execute: (args: Record<string, unknown>, context: ToolContext) => unknown,
  ) => ({
    name,
    description: `The tool ${name}.`,
    parameters: { type: 'object' },
    isConcurrencySafe: () => true,
    execute,
  });
  return [
    tool('fault', (args, { callId, signal }) =>
      carryOut(args as unknown as FaultOrder, options, { callId, signal }),
    ),
    // At work while the fault happens, and done only after it.
    tool('work', async ({ n }) => {
      Atomics.add(cells, CELLS.siblingsReady, 1);
      while (Atomics.load(cells, CELLS.siblingsGo) === 0) await delay(POLL_MS);
      return work(n as number);
    }),
    tool('wait', async (_, { signal }) => {
      Atomics.add(cells, CELLS.waiting, 1);
      while (Atomics.load(cells, CELLS.waitersGo) === 0 && !signal.aborted) await delay(POLL_MS);
      return 'waited';
    }),
  ];
};
