import type { ContentBlock, ToolCallBlock, UserMessage } from '../protocol/content.ts';
import { toErrorRecord } from '../protocol/error-record.ts';
import type { HostServices, ToolCallRequest, ToolOutcome } from '../protocol/host-services.ts';
import type { CallId } from '../protocol/ids.ts';
import { isPlainObject, losslessCopy } from '../protocol/json.ts';
import type { Json, JsonObject } from '../protocol/json.ts';
import { NO_OUTPUT } from '../protocol/tool.ts';
import type { ToolAgent, ToolContext, ToolDefinition } from '../protocol/tool.ts';
import { FrameError } from './link.ts';
import { valueOf } from './services.ts';

/** Whether the calls' turn is to stop. */
export interface Cancellation {
  readonly signal: AbortSignal;
  isRaised(): boolean;
}

export interface AgentToolsOptions {
  readonly services: Pick<HostServices, 'callTool' | 'finishTool'>;
  /** Tools of modules, by name. */
  readonly modules: ReadonlyMap<string, ToolDefinition>;
  readonly agent: ToolAgent;
  /** Calls of one step in flight together. */
  readonly concurrency: number;
  /** Contract: resolves after `ms`; rejects when `signal` aborts. */
  delay(ms: number, signal: AbortSignal): Promise<void>;
}

/** What one result may hold; main refuses more. */
const MAX_CONTEXTS = 100;
const MAX_BLOCKS = 10_000;
const MAX_ID_CHARS = 256;
/** How long past its time limit a tool may take to notice its signal. */
const TIMEOUT_GRACE_MS = 1_000;

/** One tool set for the loop: main decides every call; bodies of modules run here. */
export class AgentTools {
  readonly #options: AgentToolsOptions;

  constructor(options: AgentToolsOptions) {
    this.#options = options;
  }

  /**
   * Ask for all calls of a step, in the model's order, and wait until each has its result in
   * the log. When one cannot be settled no further one is asked for; those that run are waited
   * for, and the first failure is thrown. A turn that is to stop still asks for all of them:
   * main answers those with an error result.
   */
  async run(
    calls: readonly ToolCallBlock[],
    at: { readonly turn: number; readonly step: number },
    cancellation: Cancellation,
  ): Promise<{ concludesTurn: boolean }> {
    let concludesTurn = false;
    let failure: { readonly thrown: unknown } | undefined;
    const waiting = calls.values();
    const lane = async (): Promise<void> => {
      for (const call of waiting) {
        if (failure !== undefined) return;
        try {
          const concludes = await this.#call(call, at, cancellation);
          concludesTurn ||= concludes;
        } catch (thrown) {
          failure ??= { thrown };
        }
      }
    };
    const lanes = Math.max(1, Math.min(this.#options.concurrency, calls.length));
    await Promise.all(Array.from({ length: lanes }, lane));
    if (failure !== undefined) throw (failure as { readonly thrown: unknown }).thrown;
    return { concludesTurn };
  }

  async #call(
    block: ToolCallBlock,
    at: { readonly turn: number; readonly step: number },
    cancellation: Cancellation,
  ): Promise<boolean> {
    const { services } = this.#options;
    const tool = this.#options.modules.get(block.name);
    const request: ToolCallRequest = {
      ...at,
      callId: block.id,
      name: block.name,
      arguments: block.arguments,
      ...(tool === undefined ? {} : { concurrencySafe: mayOverlap(tool, block.arguments) }),
    };
    const reply = valueOf(await services.callTool(request));
    if (reply.done) return reply.concludesTurn;
    const outcome = await this.#runBody(tool, block, reply.args, cancellation);
    const settled = await services.finishTool(block.id, outcome).catch((thrown: unknown) => {
      if (!(thrown instanceof FrameError)) throw thrown;
      return services.finishTool(block.id, invalidOutput(block.name, thrown));
    });
    return valueOf(settled).concludesTurn;
  }

  async #runBody(
    tool: ToolDefinition | undefined,
    { id: callId, name }: ToolCallBlock,
    args: JsonObject,
    cancellation: Cancellation,
  ): Promise<ToolOutcome> {
    if (tool === undefined) {
      return refused('UNKNOWN_TOOL', `This thread has no tool \`${name}\`.`);
    }
    if (cancellation.isRaised()) {
      return refused('ABORTED_BEFORE_DISPATCH', `\`${name}\` was cancelled before it ran.`);
    }
    const body = new ToolBody(tool, this.#options.agent, callId, cancellation.signal);
    const done = new AbortController();
    const limit = tool.timeoutMs;
    const tooSlow = `The tool \`${name}\` took longer than ${limit} ms.`;
    try {
      if (limit === undefined) return await body.run(args);
      const expired = this.#options
        .delay(limit, done.signal)
        .then(() => {
          body.abort(new DOMException(tooSlow, 'TimeoutError'));
          return this.#options.delay(TIMEOUT_GRACE_MS, done.signal);
        })
        // Rejects only when the body was done first, and then nobody looks at it.
        .catch(() => {});
      const outcome = await Promise.race([body.run(args), expired]);
      if (outcome !== undefined && !body.isTimedOut) return outcome;
      return refused('TOOL_TIMEOUT', tooSlow);
    } finally {
      done.abort();
      body.close();
      // A flag raised meanwhile becomes an abort before the next call is asked for.
      cancellation.isRaised();
    }
  }
}

/** One run of a module's tool: what its context gathered, and its own signal. */
class ToolBody {
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

const textContent = (text: string): readonly ContentBlock[] => [{ type: 'text', text }];

/** A failure that is ours to tell, not the body's. */
function refused(code: string, message: string): ToolOutcome {
  return { ok: false, error: { name: 'ToolError', code, message } };
}

function invalidOutput(name: string, thrown: unknown): ToolOutcome {
  const problem = toErrorRecord(thrown).message;
  return refused(
    'INVALID_TOOL_OUTPUT',
    `The tool \`${name}\` ran and gave no usable result: ${problem}`,
  );
}

/** What the tool's own classifier says; a classifier that throws says no. */
function mayOverlap(tool: ToolDefinition, text: string): boolean {
  if (tool.isConcurrencySafe === undefined) return false;
  try {
    const args: unknown = text === '' ? {} : JSON.parse(text);
    return isPlainObject(args) && tool.isConcurrencySafe(args as JsonObject) === true;
  } catch {
    // Arguments that are no JSON, or a classifier that cannot take them: not safe.
    return false;
  }
}

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
