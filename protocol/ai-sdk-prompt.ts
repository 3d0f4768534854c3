import type { ContentBlock, Message, ToolResultBlock } from './content.ts';
import type { JsonObject } from './json.ts';
import type { ModelRequest } from './model.ts';
import { textOf } from './content.ts';
import { isPlainObject } from './json.ts';

/** What providers attach to their own blocks and want back: signatures, item ids. */
export type ProviderMetadata = JsonObject;

/** The replay state of an answer of an AI SDK model: one entry per block it streamed. */
export type AiSdkReplayState = {
  readonly aiSdk: 1;
  readonly blocks: readonly {
    readonly type: string;
    /** No text came: such a block is left out of the message. */
    readonly isEmpty: boolean;
    readonly metadata: ProviderMetadata | null;
  }[];
};

interface PromptPart {
  readonly type: string;
  readonly [key: string]: unknown;
}
export interface PromptMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string | PromptPart[];
}

/** What `doStream` is called with; the same for all versions we accept. */
export interface AiSdkCallOptions {
  readonly prompt: PromptMessage[];
  readonly tools?: readonly {
    readonly type: 'function';
    readonly name: string;
    readonly description: string;
    readonly inputSchema: JsonObject;
  }[];
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly stopSequences?: string[];
  readonly abortSignal: AbortSignal;
}

export function toCallOptions(request: ModelRequest, abortSignal: AbortSignal): AiSdkCallOptions {
  const { system, messages, tools, maxTokens, temperature, stop } = request;
  const prompt: PromptMessage[] = system === undefined ? [] : [{ role: 'system', content: system }];
  appendMessages(prompt, messages, request.provider);
  return {
    prompt,
    ...(tools === undefined
      ? {}
      : {
          tools: tools.map(({ name, description, parameters }) => ({
            type: 'function' as const,
            name,
            description,
            inputSchema: parameters,
          })),
        }),
    ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(stop === undefined ? {} : { stopSequences: [...stop] }),
    abortSignal,
  };
}

function appendMessages(
  prompt: PromptMessage[],
  messages: readonly Message[],
  provider: string,
): void {
  /** A result names only its call; the prompt wants the tool's name too. */
  const toolNames = new Map<string, string>();
  for (const message of messages) {
    const content: PromptPart[] = [];
    const results: PromptPart[] = [];
    for (const { block, metadata } of blocksOf(message, provider)) {
      const providerOptions = metadata === null ? {} : { providerOptions: metadata };
      switch (block.type) {
        case 'text':
          content.push({ type: 'text', text: block.text, ...providerOptions });
          break;
        case 'reasoning':
          if (message.role === 'user') break;
          content.push({ type: 'reasoning', text: block.text, ...providerOptions });
          break;
        case 'tool-call':
          // Quoted, as in the notice of a subagent: it is no call of this conversation.
          if (message.role === 'user') break;
          toolNames.set(block.id, block.name);
          content.push({
            type: 'tool-call',
            toolCallId: block.id,
            toolName: block.name,
            input: inputOf(block.arguments),
            ...providerOptions,
          });
          break;
        case 'tool-result':
          results.push(resultPart(block, toolNames.get(block.toolCallId)));
          break;
        default:
          // A kind of a later version: a model that knows it not is not shown it.
          block satisfies never;
      }
    }
    if (content.length > 0) prompt.push({ role: message.role, content });
    const last = prompt.at(-1);
    if (results.length === 0) continue;
    if (last?.role === 'tool') (last.content as PromptPart[]).push(...results);
    else prompt.push({ role: 'tool', content: results });
  }
}

function resultPart(block: ToolResultBlock, toolName = 'unknown'): PromptPart {
  return {
    type: 'tool-result',
    toolCallId: block.toolCallId,
    toolName,
    output: { type: block.isError === true ? 'error-text' : 'text', value: textOf(block.content) },
  };
}

/** Providers want an object here, also for what the model wrote when it was none. */
function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isPlainObject(value)) return value;
  } catch {
    // The model's own mistake. It sees it, with the error that it was told of.
  }
  return { raw: text };
}

interface PromptBlock {
  readonly block: ContentBlock;
  readonly metadata: ProviderMetadata | null;
}

/** The blocks of a message, with what the same provider attached to them when it made them. */
function blocksOf({ source, content }: Message, provider: string): readonly PromptBlock[] {
  const said = content.filter((block) => !isEmpty(block));
  const plain = said.map((block) => ({ block, metadata: null }));
  if (source.kind !== 'model' || source.provider !== provider) return plain;
  const state = source.replayState as Partial<AiSdkReplayState> | null | undefined;
  if (state?.aiSdk !== 1 || !Array.isArray(state.blocks)) return plain;
  const blocks: AiSdkReplayState['blocks'] = state.blocks;
  const full = blocks.filter((block) => !block.isEmpty);
  const isSame =
    full.length === said.length && full.every((block, at) => block.type === said[at]?.type);
  if (!isSame) return plain;
  const inOrder = said.values();
  return blocks.flatMap(({ type, isEmpty: isSilent, metadata }): PromptBlock[] => {
    if (!isSilent) return [{ block: inOrder.next().value as ContentBlock, metadata }];
    // Reasoning that is kept from us has no text; its metadata is all of it.
    const isHidden = type === 'reasoning' && metadata !== null;
    return isHidden ? [{ block: { type: 'reasoning', text: '' }, metadata }] : [];
  });
}

function isEmpty(block: ContentBlock): boolean {
  return (block.type === 'text' || block.type === 'reasoning') && block.text === '';
}
