import { isInstance } from '../protocol/error-record.ts';
import type { ToolCallBlock } from '../protocol/content.ts';
import type { HostServices, ToolCallRequest, ToolOutcome } from '../protocol/host-services.ts';
import { isPlainObject } from '../protocol/json.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ToolAgent, ToolDefinition } from '../protocol/tool.ts';
import { FrameError } from './link.ts';
import { valueOf } from './services.ts';
import { ToolBody, invalidOutput, refused } from './tool-body.ts';

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
      if (!isInstance(thrown, FrameError)) throw thrown;
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
