/** A model in the agent's own thread, which begins an answer and then is at fault. */
import { setImmediate as macrotask } from 'node:timers/promises';
import type { ModelAdapter, ModelPart } from '../../protocol/model.ts';
import { PARTIAL } from './orders.ts';
import type { Order } from './orders.ts';
import { CELLS, clock } from './inside.ts';
import { carryOut } from './thread-tools.ts';
import type { ThreadOptions } from './thread-tools.ts';

export default (options: ThreadOptions): ModelAdapter => ({
  async *stream({ messages }, { signal }): AsyncGenerator<ModelPart> {
    const [block] = messages.findLast(({ source }) => source.kind !== 'plugin')?.content ?? [];
    const text = block?.type === 'text' ? block.text : '';
    const order: Order = text.startsWith('{') ? (JSON.parse(text) as Order) : {};
    let said = text;
    yield { type: 'block-start', index: 0, blockType: 'text' };
    if (order.fault !== undefined) {
      // On hearing this main is held until the fault has happened.
      await macrotask();
      yield { type: 'text-delta', index: 0, text: PARTIAL };
      // What was said leaves the thread right before it is at fault: main may not have read it yet.
      await macrotask();
      if (order.fault.kind === 'events-flood') {
        const cells = new Int32Array(options.shared);
        Atomics.store(cells, CELLS.at, clock());
        Atomics.add(cells, CELLS.injected, 1);
        const words = 'word '.repeat(200);
        for (;;) yield { type: 'text-delta', index: 0, text: words };
      }
      const answer = String(await carryOut(order.fault, options, { signal }));
      said = PARTIAL + answer;
      yield { type: 'text-delta', index: 0, text: answer };
    } else yield { type: 'text-delta', index: 0, text };
    yield { type: 'block-end', index: 0, block: { type: 'text', text: said } };
    yield { type: 'finish', reason: { kind: 'stop' } };
  },
});
