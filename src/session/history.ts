import type { Message } from '../../protocol/content.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';

/** The message an event adds to what the model is shown, or `undefined`. */
function messageOf(event: SessionEvent): Message | undefined {
  switch (event.type) {
    case 'user/message':
      return event.data;
    case 'assistant/message':
      // An answer without content (only its usage counted) is not shown again.
      return event.data.message.content.length === 0 ? undefined : event.data.message;
    case 'tool/result':
      return event.data.message;
    default:
      return undefined;
  }
}

/** The model's history, folded from a log one event at a time. */
export class History {
  readonly #messages: Message[] = [];
  #snapshot: readonly Message[] | undefined;

  push(event: SessionEvent): void {
    const message = messageOf(event);
    if (message === undefined) return;
    this.#messages.push(message);
    this.#snapshot = undefined;
  }

  /** Frozen, and the same array until a message is added. */
  get messages(): readonly Message[] {
    this.#snapshot ??= Object.freeze([...this.#messages]);
    return this.#snapshot;
  }
}
