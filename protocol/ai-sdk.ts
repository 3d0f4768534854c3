import type { AiSdkCallOptions } from './ai-sdk-prompt.ts';
import type { ModelAdapter, ModelPart, ModelRequest } from './model.ts';
import { AiSdkAnswer } from './ai-sdk-answer.ts';
import { toCallOptions } from './ai-sdk-prompt.ts';

/**
 * A language model object of the AI SDK, by its shape alone: `LanguageModelV2`, `V3` and `V4`
 * satisfy it. Nothing of the SDK is imported.
 */
export interface AiSdkModel {
  readonly specificationVersion: 'v2' | 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  /** Asks it once. A method, so that the models' own narrower option types are accepted. */
  doStream(options: never): PromiseLike<{ readonly stream: AiSdkStream }>;
}

/** An AI SDK provider: it gives the model that a request names. */
export interface AiSdkProvider {
  /** The model of this name. */
  languageModel(modelId: string): AiSdkModel;
}

/** What is used of a web `ReadableStream`. */
export interface AiSdkStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: unknown }>;
    cancel(reason?: unknown): Promise<void>;
  };
}

const VERSIONS: readonly unknown[] = ['v2', 'v3', 'v4'];

export function isAiSdkModel(value: unknown): value is AiSdkModel {
  const model = value as Partial<AiSdkModel> | null | undefined;
  return typeof model?.doStream === 'function' && VERSIONS.includes(model.specificationVersion);
}

/**
 * The adapter that something is, or can be made into: an adapter, an AI SDK model, an AI SDK
 * provider. `undefined` when it is no model.
 */
export function asModelAdapter(value: unknown): ModelAdapter | undefined {
  if (isAiSdkModel(value)) return fromAiSdk(value);
  const given = value as Partial<ModelAdapter & AiSdkProvider> | null | undefined;
  if (typeof given?.stream === 'function') return given as ModelAdapter;
  if (typeof given?.languageModel !== 'function') return undefined;
  return fromAiSdk((modelId) => (given as AiSdkProvider).languageModel(modelId));
}

/**
 * An adapter for an AI SDK model, or for a function that gives one for a model's name. A single
 * model is asked whatever name a request carries.
 */
export function fromAiSdk(
  model: AiSdkModel | ((modelId: string) => AiSdkModel | PromiseLike<AiSdkModel>),
): ModelAdapter {
  return { stream: (request, { signal }) => stream(model, request, signal) };
}

async function* stream(
  source: Parameters<typeof fromAiSdk>[0],
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart, void, void> {
  const model = typeof source === 'function' ? await source(request.model) : source;
  if (!isAiSdkModel(model)) {
    throw new TypeError(`There is no AI SDK language model "${request.model}".`);
  }
  const ask = model.doStream.bind(model) as (
    options: AiSdkCallOptions,
  ) => ReturnType<AiSdkModel['doStream']>;
  const reader = (await ask(toCallOptions(request, signal))).stream.getReader();
  // Not every model heeds its signal; a reader that is cancelled ends its read in any case.
  const cancel = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener('abort', cancel);
  try {
    const answer = new AiSdkAnswer();
    while (!answer.isFinished && !signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* answer.take(value);
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}
