import { setImmediate as macrotask } from 'node:timers/promises';
import type { JsonObject } from '../../protocol/json.ts';
import type { ToolContext, ToolDefinition } from '../../protocol/tool.ts';

/** Tools whose bodies take some turns of the event loop, obey their signal, and are counted. */
export class Tools {
  /** Bodies that have begun and not ended. */
  running = 0;
  readonly #begun: () => void;

  constructor(begun: () => void) {
    this.#begun = begun;
  }

  onMain(): ToolDefinition<unknown>[] {
    return [this.#tool('look', false), this.#tool('pair', true), this.#tool('patient', true)];
  }

  inThread(): ToolDefinition[] {
    return [this.#tool('thread_look', false), this.#tool('thread_pair', true)];
  }

  #tool<A>(name: string, overlaps: boolean): ToolDefinition<A> {
    return {
      name,
      description: `The tool ${name}.`,
      parameters: { type: 'object' },
      isConcurrencySafe: () => overlaps,
      execute: (args, context) => this.#run(args, context, name === 'patient' ? 20 : 0),
    };
  }

  async #run(
    args: JsonObject,
    { signal }: Pick<ToolContext, 'signal'>,
    patience: number,
  ): Promise<string> {
    this.running++;
    try {
      this.#begun();
      for (let turn = patience + Number(args['turns']); turn > 0; turn--) {
        signal.throwIfAborted();
        await macrotask();
      }
      return 'done';
    } finally {
      this.running--;
    }
  }
}
