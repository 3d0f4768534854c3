import { isInstance } from './error-record.ts';
import type { ContentBlock, Usage } from './content.ts';
import type { Failure, FinishReason, ModelPart } from './model.ts';
import type { Json } from './json.ts';
import { CallId } from './ids.ts';
import { losslessCopy } from './json.ts';
import { checkFailure } from './model-failure.ts';
import { textPieces, utf8Bytes } from './text-size.ts';

type BlockKind = 'text' | 'reasoning' | 'tool-call';
const BLOCK_KINDS: readonly unknown[] = ['text', 'reasoning', 'tool-call'];

/** An answer must fit one frame, in UTF-8, with room for what surrounds it. */
export const MAX_ANSWER_BYTES = 900_000;
const MAX_BLOCKS = 1_000;
const MAX_NAME_CHARS = 256;
/** A longer delta is passed on in pieces. */
const MAX_DELTA_CHARS = 65_536;

interface Block {
  readonly index: number;
  readonly kind: BlockKind;
  isOpen: boolean;
  text: string;
  bytes: number;
  id: CallId;
  name: string;
}

class Malformed extends Error {
  readonly code: string;
  constructor(message: string, code = 'INVALID_RESPONSE') {
    super(message);
    this.code = code;
  }
}

/**
 * Brings one model stream into the grammar of `ModelPart`. What is merely loose is mended:
 * deltas without a start, blocks left open, a second usage, late deltas, missing or repeated
 * call ids. What cannot be understood ends the stream with an `error`. Exactly one finish
 * comes out, last.
 */
export class PartGrammar {
  readonly #blocks = new Map<number, Block>();
  readonly #callIds = new Set<string>();
  #bytes = 0;
  #hasUsage = false;
  #isFinished = false;

  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** What to pass on for one thing the adapter yielded. */
  accept(value: unknown): readonly ModelPart[] {
    if (this.#isFinished) return [];
    const parts: ModelPart[] = [];
    try {
      this.#accept(value as Record<string, unknown>, parts);
    } catch (error) {
      const isOurs = isInstance(error, Malformed);
      const code = isOurs ? error.code : 'INVALID_RESPONSE';
      // Not ours: an accessor of the part threw.
      const why = isOurs ? error.message : 'a part could not be read';
      parts.push(this.fail({ code, message: `The model's answer cannot be used: ${why}.` }));
    }
    return parts;
  }

  /** The adapter ended without a finish. */
  end(): readonly ModelPart[] {
    if (this.#isFinished) return [];
    if (this.#blocks.size === 0) {
      return [this.fail({ code: 'EMPTY_RESPONSE', message: 'The model answered nothing.' })];
    }
    const calls = [...this.#blocks.values()].filter((block) => block.kind === 'tool-call');
    if (calls.some((call) => call.isOpen)) {
      return [
        this.fail({
          code: 'TRANSPORT',
          message: "The model's answer ended in the middle of a tool call.",
        }),
      ];
    }
    return this.accept({
      type: 'finish',
      reason: { kind: calls.length > 0 ? 'tool-calls' : 'stop' },
    });
  }

  fail(failure: Failure): ModelPart {
    return this.#finish({ kind: 'error', failure });
  }

  abort(message: string): ModelPart {
    return this.#finish({ kind: 'aborted', failure: { code: 'ABORTED', message } });
  }

  #accept(part: Record<string, unknown>, out: ModelPart[]): void {
    if (typeof part !== 'object' || part === null) throw new Malformed('a part is no object');
    const { type } = part;
    switch (type) {
      case 'block-start': {
        const index = indexOf(part);
        const kind = part['blockType'];
        if (!BLOCK_KINDS.includes(kind)) throw new Malformed('a block is of no known kind');
        const known = this.#blocks.get(index);
        if (known === undefined) this.#start(index, kind as BlockKind, out);
        else if (known.kind !== kind || !known.isOpen) {
          throw new Malformed(`block ${index} is started twice`);
        }
        return;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const block = this.#target(
          indexOf(part),
          type === 'text-delta' ? 'text' : 'reasoning',
          out,
        );
        const text = stringOf(part, 'text');
        if (!block.isOpen) return;
        this.#count(block, text);
        for (const piece of textPieces(text, MAX_DELTA_CHARS))
          out.push({ type, index: block.index, text: piece });
        return;
      }
      case 'tool-call-delta':
        return this.#callDelta(part, out);
      case 'block-end':
        return this.#blockEnd(part, out);
      case 'usage': {
        const usage = checkUsage(part['usage']);
        if (usage === undefined || this.#hasUsage) return;
        this.#hasUsage = true;
        out.push({ type, usage });
        return;
      }
      case 'finish':
        return this.#acceptFinish(part, out);
      default:
        throw new Malformed(`"${String(type).slice(0, 64)}" is no kind of part`);
    }
  }

  #callDelta(part: Record<string, unknown>, out: ModelPart[]): void {
    const block = this.#target(indexOf(part), 'tool-call', out);
    const argumentsDelta = stringOf(part, 'argumentsDelta');
    if (!block.isOpen) return;
    const { name } = part;
    this.#identify(block, part['id'], name);
    this.#count(block, argumentsDelta);
    const { index, id } = block;
    const [first = '', ...rest] = textPieces(argumentsDelta, MAX_DELTA_CHARS);
    out.push({
      type: 'tool-call-delta',
      index,
      id,
      ...(typeof name === 'string' && name !== '' ? { name: block.name } : {}),
      argumentsDelta: first,
    });
    for (const piece of rest)
      out.push({ type: 'tool-call-delta', index, id, argumentsDelta: piece });
  }

  #blockEnd(part: Record<string, unknown>, out: ModelPart[]): void {
    const given = part['block'] as Record<string, unknown> | null | undefined;
    if (typeof given !== 'object' || given === null || !BLOCK_KINDS.includes(given['type'])) {
      throw new Malformed('a block ends without its content');
    }
    const block = this.#target(indexOf(part), given['type'] as BlockKind, out);
    if (!block.isOpen) return;
    if (block.kind === 'tool-call') this.#identify(block, given['id'], given['name']);
    const text = stringOf(given, block.kind === 'tool-call' ? 'arguments' : 'text');
    const bytes = utf8Bytes(text);
    this.#spend(bytes - block.bytes);
    block.text = text;
    this.#close(block, out);
  }

  #acceptFinish(part: Record<string, unknown>, out: ModelPart[]): void {
    const reason = part['reason'] as Record<string, unknown> | null | undefined;
    const kind = reason?.['kind'];
    switch (kind) {
      case 'stop':
      case 'tool-calls':
      case 'max-tokens': {
        const replayState = part['replayState'];
        const kept = replayState === undefined ? undefined : this.#keep(replayState);
        for (const block of this.#blocks.values()) if (block.isOpen) this.#close(block, out);
        out.push(this.#finish({ kind }, kept));
        return;
      }
      // Whether this request was aborted is the signal's to say, and it has not said so.
      case 'aborted':
      case 'error':
        out.push(
          this.fail(
            checkFailure(reason?.['failure']) ?? {
              code: 'UNKNOWN',
              message: 'The model failed and did not say why.',
            },
          ),
        );
        return;
      default:
        throw new Malformed('its end has no known reason');
    }
  }

  #finish(reason: FinishReason, replayState?: Json): ModelPart {
    this.#isFinished = true;
    return { type: 'finish', reason, ...(replayState === undefined ? {} : { replayState }) };
  }

  /** The block of a delta or an end; one that was never started is started now. */
  #target(index: number, kind: BlockKind, out: ModelPart[]): Block {
    const block = this.#blocks.get(index) ?? this.#start(index, kind, out);
    if (block.kind !== kind) throw new Malformed(`block ${index} is ${block.kind}, not ${kind}`);
    return block;
  }

  #start(index: number, kind: BlockKind, out: ModelPart[]): Block {
    if (this.#blocks.size >= MAX_BLOCKS) {
      throw new Malformed('it has too many blocks', 'RESPONSE_TOO_LARGE');
    }
    const id = CallId('');
    const block: Block = { index, kind, isOpen: true, text: '', bytes: 0, id, name: '' };
    this.#blocks.set(index, block);
    out.push({ type: 'block-start', index, blockType: kind });
    return block;
  }

  /** The first id of a block stays; it is told apart from those of the other blocks. */
  #identify(block: Block, id: unknown, name: unknown): void {
    if (typeof name === 'string' && name !== '') block.name = name.slice(0, MAX_NAME_CHARS);
    if (block.id !== '') return;
    let chosen = typeof id === 'string' && id !== '' ? id : `call-${block.index}`;
    if (chosen.length > MAX_NAME_CHARS || this.#callIds.has(chosen)) {
      chosen = `${chosen.slice(0, 200)}-${block.index}`;
    }
    this.#callIds.add(chosen);
    block.id = CallId(chosen);
  }

  #close(block: Block, out: ModelPart[]): void {
    block.isOpen = false;
    out.push({ type: 'block-end', index: block.index, block: this.#content(block) });
  }

  #content(block: Block): ContentBlock {
    const { kind, text } = block;
    if (kind !== 'tool-call') return { type: kind, text };
    this.#identify(block, undefined, undefined);
    if (block.name === '') throw new Malformed('a tool call names no tool');
    return { type: kind, id: block.id, name: block.name, arguments: text };
  }

  #count(block: Block, text: string): void {
    const bytes = utf8Bytes(text);
    this.#spend(bytes);
    block.bytes += bytes;
    block.text += text;
  }

  #spend(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MAX_ANSWER_BYTES) {
      throw new Malformed(`it is larger than ${MAX_ANSWER_BYTES} bytes`, 'RESPONSE_TOO_LARGE');
    }
  }

  #keep(replayState: unknown): Json {
    let copy: Json;
    try {
      copy = losslessCopy(replayState);
    } catch (error) {
      throw new Malformed(`its replay state is no JSON (${(error as Error).message})`);
    }
    this.#spend(utf8Bytes(JSON.stringify(copy)));
    return copy;
  }
}

function indexOf(part: Record<string, unknown>): number {
  const index = part['index'];
  if (!Number.isSafeInteger(index) || (index as number) < 0) {
    throw new Malformed('a part has no block index');
  }
  return index as number;
}

function stringOf(part: Record<string, unknown>, key: string): string {
  const value = part[key];
  if (typeof value !== 'string') throw new Malformed(`"${key}" is no text`);
  return value;
}

/** Counts that are no counts are left out; without input and output there is no usage. */
function checkUsage(value: unknown): Usage | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const count = (key: keyof Usage): number | undefined => {
    const given = (value as Record<string, unknown>)[key];
    return Number.isSafeInteger(given) && (given as number) >= 0 ? (given as number) : undefined;
  };
  const inputTokens = count('inputTokens');
  const outputTokens = count('outputTokens');
  if (inputTokens === undefined || outputTokens === undefined) return undefined;
  const cacheReadTokens = count('cacheReadTokens');
  const cacheWriteTokens = count('cacheWriteTokens');
  const reasoningTokens = count('reasoningTokens');
  return {
    inputTokens,
    outputTokens,
    ...(cacheReadTokens === undefined ? {} : { cacheReadTokens }),
    ...(cacheWriteTokens === undefined ? {} : { cacheWriteTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}
