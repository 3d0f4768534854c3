import type { ContentBlock } from '../../protocol/content.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';

/**
 * What an agent has to say at the end: the content of its last message that has any, or else
 * the text that was streamed. How the turn ended does not matter.
 */
export class OutputFold {
  #content: readonly ContentBlock[] | undefined;
  #text: string[] = [];
  /** How much of the text came before the request that is being answered. */
  #settled = 0;

  push(event: SessionEvent): void {
    if (event.type === 'assistant/message') {
      const { content } = event.data.message;
      if (content.length === 0) return;
      this.#content = content;
      this.#text = [];
      this.#settled = 0;
    } else if (event.type === 'step/start') {
      this.#settled = this.#text.length;
    } else if (event.type === 'llm/retry-started') {
      // What the failed request said is said again, or otherwise.
      this.#text.length = this.#settled;
    } else if (event.type === 'assistant/chunk' && event.data.chunk.type === 'text-delta') {
      this.pushText(event.data.chunk.text);
    }
  }

  /** Streamed text of an agent that has no session here. */
  pushText(text: string): void {
    // Beside a message the streamed text cannot win any more.
    if (text !== '' && this.#content === undefined) this.#text.push(text);
  }

  /** `undefined` when nothing was said. May be asked again after more was pushed. */
  collect(): readonly ContentBlock[] | undefined {
    if (this.#content !== undefined) return this.#content;
    if (this.#text.length === 0) return undefined;
    return [{ type: 'text', text: this.#text.join('') }];
  }
}

/**
 * What a run came to, from its log: the content of the last assistant message that has any, or else
 * the text that was streamed. `undefined` when there is neither.
 */
export function finalOutput(events: readonly SessionEvent[]): readonly ContentBlock[] | undefined {
  const fold = new OutputFold();
  for (const event of events) fold.push(event);
  return fold.collect();
}
