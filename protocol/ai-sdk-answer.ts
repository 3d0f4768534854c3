import type { AiSdkReplayState, ProviderMetadata } from './ai-sdk-prompt.ts';
import type { Usage } from './content.ts';
import type { Failure, FinishReason, ModelPart } from './model.ts';
import { CallId } from './ids.ts';
import { isPlainObject, losslessCopy } from './json.ts';
import { failureOf } from './model-failure.ts';

interface StreamPart {
  readonly type?: unknown;
  readonly id?: unknown;
  readonly delta?: unknown;
  readonly providerMetadata?: unknown;
  readonly providerExecuted?: unknown;
  readonly toolCallId?: unknown;
  readonly toolName?: unknown;
  readonly input?: unknown;
  readonly usage?: unknown;
  readonly finishReason?: unknown;
  readonly error?: unknown;
}

interface OpenBlock {
  readonly index: number;
  readonly type: 'text' | 'reasoning' | 'tool-call';
  text: string;
  metadata: ProviderMetadata | null;
}

/**
 * One answer of an AI SDK model: its stream parts, of whichever version, as ours. Sources,
 * files, warnings, raw chunks and tools that the provider ran itself have no part of ours and
 * are left out. The first error ends the answer.
 */
export class AiSdkAnswer {
  readonly #blocks: OpenBlock[] = [];
  /** By kind and the stream's own id: an id may come again once its block has ended. */
  readonly #open = new Map<string, OpenBlock>();
  #isFinished = false;

  get isFinished(): boolean {
    return this.#isFinished;
  }

  take(value: unknown): readonly ModelPart[] {
    const part = (value ?? {}) as StreamPart;
    switch (part.type) {
      case 'text-start':
        return this.#start('text', part);
      case 'reasoning-start':
        return this.#start('reasoning', part);
      case 'text-delta':
        return this.#delta('text', part);
      case 'reasoning-delta':
        return this.#delta('reasoning', part);
      case 'text-end':
        return this.#end('text', part);
      case 'reasoning-end':
        return this.#end('reasoning', part);
      case 'tool-input-start':
        return part.providerExecuted === true ? [] : this.#inputStart(part);
      case 'tool-input-delta':
        return this.#inputDelta(part);
      case 'tool-call':
        return part.providerExecuted === true ? [] : this.#toolCall(part);
      case 'error':
        return [this.#fail(this.#failure(part.error))];
      case 'finish':
        return this.#finish(part);
      default:
        // Every version has parts that say nothing about the answer's text or calls.
        return [];
    }
  }

  #start(type: 'text' | 'reasoning', part: StreamPart): ModelPart[] {
    const block = this.#openBlock(type, part.id);
    keepMetadata(block, part);
    return [{ type: 'block-start', index: block.index, blockType: type }];
  }

  #delta(type: 'text' | 'reasoning', part: StreamPart): ModelPart[] {
    const known = this.#open.get(`${type} ${String(part.id)}`);
    const block = known ?? this.#openBlock(type, part.id);
    keepMetadata(block, part);
    const text = String(part.delta ?? '');
    block.text += text;
    return [
      ...(known === undefined
        ? [{ type: 'block-start', index: block.index, blockType: type } as const]
        : []),
      type === 'text'
        ? { type: 'text-delta', index: block.index, text }
        : { type: 'reasoning-delta', index: block.index, text },
    ];
  }

  #end(type: 'text' | 'reasoning', part: StreamPart): ModelPart[] {
    const key = `${type} ${String(part.id)}`;
    const block = this.#open.get(key);
    if (block === undefined) return [];
    this.#open.delete(key);
    keepMetadata(block, part);
    return [{ type: 'block-end', index: block.index, block: { type, text: block.text } }];
  }

  #inputStart(part: StreamPart): ModelPart[] {
    const block = this.#openBlock('tool-call', part.id);
    keepMetadata(block, part);
    return [
      { type: 'block-start', index: block.index, blockType: 'tool-call' },
      {
        type: 'tool-call-delta',
        index: block.index,
        id: CallId(String(part.id)),
        name: String(part.toolName),
        argumentsDelta: '',
      },
    ];
  }

  #inputDelta(part: StreamPart): ModelPart[] {
    const block = this.#open.get(`tool-call ${String(part.id)}`);
    if (block === undefined) return [];
    const argumentsDelta = String(part.delta ?? '');
    return [
      { type: 'tool-call-delta', index: block.index, id: CallId(String(part.id)), argumentsDelta },
    ];
  }

  /** Authoritative; a provider that does not stream inputs sends nothing else of a call. */
  #toolCall(part: StreamPart): ModelPart[] {
    const key = `tool-call ${String(part.toolCallId)}`;
    const known = this.#open.get(key);
    const block = known ?? this.#openBlock('tool-call', part.toolCallId);
    this.#open.delete(key);
    keepMetadata(block, part);
    const input = typeof part.input === 'string' ? part.input : JSON.stringify(part.input ?? {});
    const { index } = block;
    return [
      ...(known === undefined
        ? [{ type: 'block-start', index, blockType: 'tool-call' } as const]
        : []),
      {
        type: 'block-end',
        index,
        block: {
          type: 'tool-call',
          id: CallId(String(part.toolCallId)),
          name: String(part.toolName),
          arguments: input,
        },
      },
    ];
  }

  #openBlock(type: OpenBlock['type'], id: unknown): OpenBlock {
    const block: OpenBlock = { index: this.#blocks.length, type, text: '', metadata: null };
    this.#blocks.push(block);
    this.#open.set(`${type} ${String(id)}`, block);
    return block;
  }

  #finish(part: StreamPart): ModelPart[] {
    const usage = toUsage(part.usage);
    const parts: ModelPart[] = usage === undefined ? [] : [{ type: 'usage', usage }];
    const reason = this.#reason(part.finishReason);
    this.#isFinished = true;
    const replayState = this.#replayState();
    parts.push({
      type: 'finish',
      reason,
      ...(reason.kind === 'error' || replayState === undefined ? {} : { replayState }),
    });
    return parts;
  }

  /** v2 says it in a word; v3 and v4 in an object that keeps the provider's own word too. */
  #reason(given: unknown): FinishReason {
    const word = isPlainObject(given) ? given['unified'] : given;
    const raw = isPlainObject(given) ? given['raw'] : undefined;
    const callsTools = this.#blocks.some((block) => block.type === 'tool-call');
    const error = (code: string, message: string): FinishReason => ({
      kind: 'error',
      failure: { code, message },
    });
    switch (word) {
      case 'length':
        return { kind: 'max-tokens' };
      case 'error':
        return error('SERVER', `The model stopped with an error (${String(raw ?? 'no reason')}).`);
      case 'content-filter':
        // A refusal is an answer; a filter that left nothing is none.
        return this.#blocks.some((block) => block.type === 'text')
          ? { kind: 'stop' }
          : error('CONTENT_FILTER', "The provider's content filter stopped the answer.");
      case 'stop':
      case 'tool-calls':
        // Some servers say `stop` for tool calls, and the other way about.
        return { kind: callsTools ? 'tool-calls' : 'stop' };
      default:
        if (this.#blocks.length === 0)
          return error('EMPTY_RESPONSE', 'The model answered nothing.');
        return { kind: callsTools ? 'tool-calls' : 'stop' };
    }
  }

  /** An answer that broke off is told apart from one that never began. */
  #failure(error: unknown): Failure {
    const failure = failureOf(error);
    if (!/without a finish reason/i.test(failure.message)) return failure;
    return this.#blocks.length === 0
      ? {
          code: 'EMPTY_RESPONSE',
          message: 'The provider sent no answer. Check that its address speaks this protocol.',
        }
      : { code: 'TRANSPORT', message: "The model's answer broke off before its end." };
  }

  #fail(failure: Failure): ModelPart {
    this.#isFinished = true;
    return { type: 'finish', reason: { kind: 'error', failure } };
  }

  #replayState(): AiSdkReplayState | undefined {
    if (this.#blocks.every((block) => block.metadata === null)) return undefined;
    const blocks = this.#blocks.map(({ type, text, metadata }) => ({
      type,
      isEmpty: type !== 'tool-call' && text === '',
      metadata,
    }));
    return { aiSdk: 1, blocks };
  }
}

/** Later metadata of a block completes earlier; what is no JSON is not ours to keep. */
function keepMetadata(block: OpenBlock, { providerMetadata }: StreamPart): void {
  if (!isPlainObject(providerMetadata)) return;
  try {
    const copy = losslessCopy(JSON.parse(JSON.stringify(providerMetadata))) as ProviderMetadata;
    if (Object.keys(copy).length > 0) block.metadata = { ...block.metadata, ...copy };
  } catch {
    // Cyclic or a bigint: only this provider could have read it, and it sent no JSON.
  }
}

/** v2 counts in flat numbers, v3 and v4 in objects; ours are disjoint. */
function toUsage(given: unknown): Usage | undefined {
  if (!isPlainObject(given)) return undefined;
  const { inputTokens, outputTokens } = given;
  const isFlat = !isPlainObject(inputTokens);
  const input = isFlat ? {} : inputTokens;
  const output = isPlainObject(outputTokens) ? outputTokens : {};
  const read = count(isFlat ? given['cachedInputTokens'] : input['cacheRead']);
  const written = count(input['cacheWrite']);
  const reasoning = count(isFlat ? given['reasoningTokens'] : output['reasoning']);
  const inputTotal = count(isFlat ? inputTokens : input['total']);
  const outputTotal = count(isFlat ? outputTokens : output['total']);
  if (inputTotal === undefined && outputTotal === undefined) return undefined;
  return {
    inputTokens: count(input['noCache']) ?? without(inputTotal, (read ?? 0) + (written ?? 0)),
    outputTokens: count(output['text']) ?? without(outputTotal, reasoning ?? 0),
    ...(read === undefined ? {} : { cacheReadTokens: read }),
    ...(written === undefined ? {} : { cacheWriteTokens: written }),
    ...(reasoning === undefined ? {} : { reasoningTokens: reasoning }),
  };
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
    ? Math.round(value)
    : undefined;
}

/** A part larger than its total was never in it: some providers count so. */
function without(total = 0, part: number): number {
  return part > total ? total : total - part;
}
