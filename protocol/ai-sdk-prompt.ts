import type { AssistantMessage, Message, ToolResultBlock } from './content.ts';
import type { JsonObject } from './json.ts';
import type { ModelRequest } from './model.ts';
import { textOf } from './content.ts';
import { isPlainObject } from './json.ts';

/** What providers attach to their own blocks and want back: signatures, item ids. */
export type ProviderMetadata = JsonObject;

/** The replay state of an answer of an AI SDK model: one entry per content block. */
export type AiSdkReplayState = {
  readonly aiSdk: 1;
  readonly blocks: readonly { readonly type: string; readonly metadata: ProviderMetadata | null }[];
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
    const metadata = message.role === 'assistant' ? replayed(message, provider) : [];
    message.content.forEach((block, at) => {
      const own = metadata[at] ?? null;
      const providerOptions = own === null ? {} : { providerOptions: own };
      switch (block.type) {
        case 'text':
          if (block.text !== '')
            content.push({ type: 'text', text: block.text, ...providerOptions });
          return;
        case 'reasoning':
          // A redacted one has no text; its metadata is all there is.
          if (message.role === 'assistant' && (block.text !== '' || own !== null)) {
            content.push({ type: 'reasoning', text: block.text, ...providerOptions });
          }
          return;
        case 'tool-call':
          toolNames.set(block.id, block.name);
          content.push({
            type: 'tool-call',
            toolCallId: block.id,
            toolName: block.name,
            input: inputOf(block.arguments),
            ...providerOptions,
          });
          return;
        case 'tool-result':
          results.push(resultPart(block, toolNames.get(block.toolCallId)));
          return;
        default:
          // A kind of a later version: a model that knows it not is not shown it.
          block satisfies never;
      }
    });
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

/** The metadata of each block of an earlier answer, if the same provider gave it. */
function replayed(
  { source, content }: AssistantMessage,
  provider: string,
): readonly (ProviderMetadata | null)[] {
  if (source.kind !== 'model' || source.provider !== provider) return [];
  const state = source.replayState as Partial<AiSdkReplayState> | null | undefined;
  if (state?.aiSdk !== 1 || !Array.isArray(state.blocks)) return [];
  const blocks: AiSdkReplayState['blocks'] = state.blocks;
  const isSame =
    blocks.length === content.length &&
    blocks.every((block, at) => block.type === content[at]?.type);
  return isSame ? blocks.map((block) => block.metadata) : [];
}
