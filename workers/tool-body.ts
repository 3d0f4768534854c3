import { setMaxListeners } from 'node:events';
import type { ContentBlock, UserMessage } from '../protocol/content.ts';
import { toErrorRecord } from '../protocol/error-record.ts';
import type { ToolOutcome } from '../protocol/host-services.ts';
import type { CallId } from '../protocol/ids.ts';
import { isPlainObject, losslessCopy } from '../protocol/json.ts';
import type { Json, JsonObject } from '../protocol/json.ts';
import { NO_OUTPUT } from '../protocol/tool.ts';
import type { ToolAgent, ToolContext, ToolDefinition } from '../protocol/tool.ts';

/** What one result may hold; main refuses more. */
const MAX_CONTEXTS = 100;
const MAX_BLOCKS = 10_000;
const MAX_ID_CHARS = 256;

/** One run of a module's tool: what its context gathered, and its own signal. */
export class ToolBody {
  readonly #tool: ToolDefinition;
  readonly #context: ToolContext;
  readonly #controller = new AbortController();
  readonly #turnSignal: AbortSignal;
  readonly #onAbort: () => void;
  readonly #contexts: UserMessage[] = [];
  #concludesTurn = false;
  #isTimedOut = false;

  constructor(tool: ToolDefinition, agent: ToolAgent, callId: CallId, turnSignal: AbortSignal) {
    this.#tool = tool;
    this.#turnSignal = turnSignal;
    this.#onAbort = () => this.#controller.abort(turnSignal.reason);
    // One for all that runs in this turn, however many that are.
    setMaxListeners(0, turnSignal);
    turnSignal.addEventListener('abort', this.#onAbort, { once: true });
    this.#context = {
      agent,
      callId,
      signal: this.#controller.signal,
      deferContext: (message) => {
        if (this.#contexts.length === MAX_CONTEXTS) throw new TypeError('Too many contexts.');
        this.#contexts.push(userMessageOf(message));
      },
      concludeTurn: () => {
        this.#concludesTurn = true;
      },
    };
  }

  get isTimedOut(): boolean {
    return this.#isTimedOut;
  }

  /** Its time is up. */
  abort(reason: DOMException): void {
    this.#isTimedOut = true;
    this.#controller.abort(reason);
  }

  close(): void {
    this.#turnSignal.removeEventListener('abort', this.#onAbort);
  }

  /** Never rejects: what the body throws is its outcome. */
  async run(args: JsonObject): Promise<ToolOutcome> {
    let returned: unknown;
    try {
      returned = await this.#tool.execute(args, this.#context);
    } catch (thrown) {
      return { ok: false, error: toErrorRecord(thrown) };
    }
    try {
      const isVoid = returned === undefined && this.#tool.output === undefined;
      const value = returned === undefined ? null : losslessCopy(returned);
      return {
        ok: true,
        value,
        content: isVoid ? textContent(NO_OUTPUT) : contentOf(this.#render(args, value)),
        ...(this.#contexts.length === 0 ? {} : { contexts: [...this.#contexts] }),
        ...(this.#concludesTurn ? { concludesTurn: true } : {}),
      };
    } catch (thrown) {
      return invalidOutput(this.#tool.name, thrown);
    }
  }

  #render(args: JsonObject, value: Json): readonly ContentBlock[] {
    const { output } = this.#tool;
    if (output !== undefined) return output.render(args, value);
    return textContent(typeof value === 'string' ? value : JSON.stringify(value));
  }
}

/** A failure that is ours to tell, not the body's. */
export function refused(code: string, message: string): ToolOutcome {
  return { ok: false, error: { name: 'ToolError', code, message } };
}

export function invalidOutput(name: string, thrown: unknown): ToolOutcome {
  const problem = toErrorRecord(thrown).message;
  return refused(
    'INVALID_TOOL_OUTPUT',
    `The tool \`${name}\` ran and gave no usable result: ${problem}`,
  );
}

const textContent = (text: string): readonly ContentBlock[] => [{ type: 'text', text }];

/** Rebuild what a module made, so that no more than the protocol knows leaves the thread. */
function contentOf(blocks: unknown): readonly ContentBlock[] {
  if (!Array.isArray(blocks) || blocks.length > MAX_BLOCKS) {
    throw new TypeError(`Tool content must be an array of at most ${MAX_BLOCKS} blocks.`);
  }
  return blocks.map((block: unknown): ContentBlock => {
    const { type, text } = (block ?? {}) as Record<string, unknown>;
    if ((type === 'text' || type === 'reasoning') && typeof text === 'string') {
      return { type, text };
    }
    throw new TypeError('Tool content must be text blocks: { type: "text", text }.');
  });
}

function userMessageOf(message: UserMessage): UserMessage {
  const { id, role, content, source } = message;
  const hasId = typeof id === 'string' && id !== '' && id.length <= MAX_ID_CHARS;
  const isMessage = hasId && role === 'user';
  if (!isMessage || !isPlainObject(source)) throw new TypeError('Not a user message.');
  const copy = losslessCopy(source) as unknown as UserMessage['source'];
  return { id, role, content: contentOf(content), source: copy };
}
